"""What other systems write and this language says otherwise: each by its name, with what to write.

A node that the parser understands and the language has not is refused by `NODES`. Where the parser
stops, the word at which it does, or the one before, may be another system's (`hint_at`).
"""

from __future__ import annotations

from sqlglot import exp

from millrace.lang.errors import Span

_TIES = "Write LIMIT n: of rows that are ordered alike, those with the least values come first."
_GROUPINGS = "Write a query for each grouping, with UNION ALL between them."

NODES: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Rollup: ("ROLLUP", _GROUPINGS),
    exp.Cube: ("CUBE", _GROUPINGS),
    exp.GroupingSets: ("GROUPING SETS", _GROUPINGS),
    exp.Lateral: (
        "LATERAL",
        "Put a subquery for one value into the select list, or group in a subquery by the columns "
        "that it is joined by.",
    ),
    exp.LimitOptions: ("WITH TIES", _TIES),
    exp.Fetch: ("FETCH ... WITH TIES", _TIES),
    exp.Values: ("VALUES", "Declare a table, insert the rows into it, and name the table."),
    exp.Pivot: ("PIVOT", "Write sum(x) FILTER (WHERE k = 'a') AS a for each column."),
    exp.Unnest: ("UNNEST", "Insert a row for each element into a table, and join with that."),
    exp.MatchRecognize: ("MATCH_RECOGNIZE", "Join windows of the stream by their times."),
    exp.JSONExtract: ("->", "Declare the stream with JSON and the columns that it holds."),
    exp.JSONExtractScalar: ("->>", "Declare the stream with JSON and the columns that it holds."),
}
"""The name of a construct, and what to write instead."""

_AT = {
    "`": 'Names are quoted "like this".',
    "TUMBLING": "Write a window behind the stream: [RANGE 1 MINUTE SLIDE 1 MINUTE].",
    "EMIT": "Answers appear when the watermark passes; RSTREAM(...) EVERY 1 minute tells at ticks.",
}
_BEHIND = {
    "TOP": "Write LIMIT n at the end of the query.",
    "MINUS": "Write EXCEPT.",
    "WINDOW": "Write a window behind the stream: [RANGE 1 MINUTE SLIDE 1 MINUTE].",
    "TUMBLING": _AT["TUMBLING"],
}


def hint_at(source: str, span: Span) -> str:
    """Return what to write instead of what the parser did not expect, if that is known."""
    word = source[span.first : span.stop].upper()
    words = source[: span.first].upper().replace("(", " ( ").split()
    options = word == "WITH" and source[span.stop :].lstrip().startswith("(")
    if options or words[-3:-1] == ["WITH", "("]:
        return "Options stand before AS: CREATE QUERY name WITH (...) AS SELECT ..."
    if word in _AT:
        return _AT[word]
    return next((_BEHIND[each] for each in reversed(words[-3:]) if each in _BEHIND), "")
