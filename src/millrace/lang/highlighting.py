"""The words of the language, and a lexer for pygments that colours them: shell and console.

Colouring must not fail and must not wait, so it knows no grammar: an unfinished text, or one that
is wrong, is coloured as far as it makes sense. Positions are those of the text.
"""

from __future__ import annotations

import re
from typing import ClassVar

from pygments.lexer import RegexLexer, words
from pygments.token import (
    Comment,
    Keyword,
    Name,
    Number,
    Operator,
    Punctuation,
    String,
    Text,
)

_KEYWORDS = """
    ALL ALLOWED ALTER ANALYZE AND ANY AS ASC BEGIN BETWEEN BY CASE CAST COUNTS CREATE CROSS DELAY
    DELETE DESC DISTINCT DROP DSTREAM ELSE END ESCAPE EVERY EXCEPT EXISTS EXPLAIN FALSE FAMILIES
    FILTER FIRST FOR FROM FULL GROUP HAVING HISTORY IDLE IF ILIKE IN INNER INSERT INTERSECT INTERVAL
    INTO IS ISTREAM JOIN JSON KEEP KEY LAST LEFT LIKE LIMIT NATURAL NOT NOW NULL NULLS OFFSET ON OR
    ORDER OUTER PARTITION PAUSE POLICY PRIMARY QUERIES QUERY RANGE REGEXP RELATION RESUME RETAIN
    RIGHT ROWS RSTREAM SELECT SET SHOW SINK SINKS SLIDE SOME STREAM STREAMS SUBSCRIBE TABLE TABLES
    TEMPLATE TEMPLATES THEN TIMESTAMP TO TRUE TTL UNBOUNDED UNION UPDATE USING VALUES VIEW VIEWS
    WHEN WHERE WINDOW WITH WITHIN
"""
_TYPES = """
    BIGINT BINARY BOOL BOOLEAN BYTES DATE DECIMAL DOUBLE FLOAT FLOAT32 FLOAT64 INT INT16 INT32 INT64
    INT8 INTEGER LONG NUMERIC REAL SMALLINT STRING TEXT TINYINT VARCHAR
"""
_UNITS = """
    MICROSECOND MICROSECONDS MILLISECOND MILLISECONDS SECOND SECONDS MINUTE MINUTES HOUR HOURS DAY
    DAYS WEEK WEEKS MONTH MONTHS YEAR YEARS
"""
_FUNCTIONS = """
    abs acos any_value arg_max arg_min array_agg ascii asin atan atan2 avg bit_and bit_or bit_xor
    bitand bitnot bitor bitshiftleft bitshiftright bool_and bool_or cbrt ceil ceiling char_length
    chr coalesce concat concat_ws contains corr cos count count_if covar_pop covar_samp date_add
    date_diff date_part date_trunc dateadd datediff day dayname dayofweek dayofyear degrees
    ends_with epoch epoch_ms every exp first floor greatest group_concat hour if ifnull iif initcap
    instr is_nan isodow last last_day least left length listagg ln log log10 log2 lower lpad ltrim
    make_date max max_by md5 median microsecond millisecond min min_by minute mod mode month
    monthname nullif nvl octet_length percentile_cont percentile_disc pi position pow power quantile
    quantile_cont quantile_disc quarter radians regexp_extract regexp_like regexp_matches
    regexp_replace repeat replace reverse right round rpad rtrim second sign sin split_part sqrt
    starts_with stddev stddev_pop stddev_samp strftime string_agg strpos substr substring sum tan
    time_bucket to_timestamp translate trim trunc upper var_pop var_samp variance week xor year
"""

KEYWORDS = frozenset(_KEYWORDS.split())
TYPES = frozenset(_TYPES.split())
UNITS = frozenset(_UNITS.split())
FUNCTIONS = frozenset(_FUNCTIONS.split())


class CqlLexer(RegexLexer):  # type: ignore[misc]  # pygments ships no types
    """Colours statements.

    >>> [str(kind) for kind, text in CqlLexer().get_tokens("SELECT 1") if text.strip()]
    ['Token.Keyword', 'Token.Literal.Number']
    """

    name = "CQL"
    aliases: ClassVar = ["cql"]
    filenames: ClassVar = ["*.cql"]
    flags = re.IGNORECASE | re.MULTILINE

    tokens: ClassVar = {
        "root": [
            (r"\s+", Text),
            (r"--.*?$", Comment.Single),
            (r"/\*", Comment.Multiline, "comment"),
            (r"\bX'[0-9a-f]*'?", String.Other),
            (r"'(?:[^']|'')*'?", String.Single),
            (r'"(?:[^"]|"")*"?', Name.Variable),
            (r":[a-z_]\w*", Name.Variable.Instance),
            (r"(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", Number),
            (words(sorted(FUNCTIONS, key=len, reverse=True), suffix=r"(?=\s*\()"), Name.Function),
            (words(tuple(TYPES), prefix=r"\b", suffix=r"\b"), Keyword.Type),
            (words(tuple(KEYWORDS), prefix=r"\b", suffix=r"\b"), Keyword),
            (words(tuple(UNITS), prefix=r"\b", suffix=r"\b"), Keyword.Pseudo),
            (r"[^\W\d]\w*", Name),
            (r"[-+*/%<>=!|~^&]+", Operator),
            (r"[()\[\]{},.;:]", Punctuation),
            (r".", Text),
        ],
        "comment": [
            (r"/\*", Comment.Multiline, "#push"),
            (r"\*/", Comment.Multiline, "#pop"),
            (r"[^*/]+|[*/]", Comment.Multiline),
        ],
    }
