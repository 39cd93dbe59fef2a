"""Texts that are too long, too deep or too odd are refused in words, and never break a parser."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.lang.binder import bind_query
from millrace.lang.errors import LanguageError
from millrace.lang.family import Shapes
from millrace.lang.lexical import LONGEST_SCRIPT, LONGEST_STATEMENT
from millrace.lang.statements import parse
from millrace.schema import Schema

SELECT = "SELECT symbol FROM trades WHERE "


def said(text: str, streams: dict[str, Schema]) -> str:
    """Return what is said about a text, which may be nothing; every other exception gets out."""
    try:
        parse(text)
        bind_query(text, streams)
    except LanguageError as error:
        return str(error).split("\n", maxsplit=1)[0]
    return ""


@pytest.mark.parametrize(
    "text",
    [
        SELECT + "(" * 400 + "ok" + ")" * 400,
        "SELECT " + "abs(" * 400 + "size" + ")" * 400 + " AS a FROM trades",
        SELECT + "NOT " * 400 + "ok",
        SELECT + " AND ".join(["size = 1"] * 3_000),
        SELECT + " OR ".join(["size = 1"] * 3_000),
        SELECT + f"size IN ({', '.join(['1'] * 5_000)})",
        SELECT + f"symbol = '{'x' * 900_000}'",
        "SELECT " + ", ".join(f"size AS s{number}" for number in range(1_000)) + " FROM trades",
    ],
)
def test_deep_and_long_texts_are_understood(text: str, streams: dict[str, Schema]) -> None:
    assert said(text, streams) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SELECT + "(" * 600 + "ok" + ")" * 600, "statement is nested too deeply"),
        (SELECT + "- " * 50_000 + "size = 1", "query is nested too deeply"),
        (SELECT + "NOT " * 50_000 + "ok", "query is nested too deeply"),
        (SELECT + f"symbol = '{'x' * LONGEST_STATEMENT}'", "statement is too long"),
        ("SHOW QUERIES;" + " " * LONGEST_SCRIPT, "script is too long"),
        (SELECT + "size = \0", "character U+0000 is not allowed"),
        (SELECT + "symbol = 'a\0'", "character U+0000 is not allowed"),
        (SELECT + "symbol = '\ud800'", "character U+D800 is not allowed"),
        ("\ufeff" + SELECT + "ok", "character U+FEFF is not allowed"),
        (SELECT + "symbol = 'a", "text is never closed"),
        (SELECT + '"symbol = 1', "quoted name is never closed"),
        (SELECT + "ok /* /* */", "comment is never closed"),
    ],
)
def test_what_goes_too_far_is_refused(text: str, message: str, streams: dict[str, Schema]) -> None:
    assert said(text, streams) == message


def test_a_known_shape_does_not_let_a_long_text_through(streams: dict[str, Schema]) -> None:
    shapes = Shapes(streams)
    shapes.shape_of(SELECT + "symbol = 'x'")

    with pytest.raises(LanguageError, match="statement is too long"):
        shapes.shape_of(SELECT + f"symbol = '{'x' * LONGEST_STATEMENT}'")


def test_the_limit_of_recursion_is_as_before(streams: dict[str, Schema]) -> None:
    before = sys.getrecursionlimit()
    deep = SELECT + "(" * 300 + "ok" + ")" * 300
    threads = [threading.Thread(target=said, args=(deep, streams)) for _ in range(4)]

    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sys.getrecursionlimit() == before


SEEDS = [
    "SELECT a.symbol, price * 2 AS p FROM trades AS a WHERE size IN (1, 2) AND symbol LIKE 'a%'",
    "SELECT ISTREAM(DISTINCT symbol) FROM trades [RANGE 10 minutes SLIDE 1 minute] GROUP BY x",
    "SELECT CASE WHEN ok THEN 1 ELSE 2.5e3 END FROM trades -- a comment\nWHERE ts > '2024-05-01'",
    "CREATE STREAM s (a text, t timestamp) TIMESTAMP BY t, a DELAY 2 s KEY (a) FROM f(x => 'y');",
    "CREATE SINK s FOR a, b TO parquet(path => '/x') AS COUNTS; SHOW QUERIES; DROP QUERY q",
    "INSERT INTO t (a, b) VALUES ('x', -1.5), (X'00', DATE '2024-05-01'); DELETE FROM t WHERE a",
    "WITH v AS (SELECT 1) SELECT * FROM v JOIN (SELECT * FROM s [NOW]) [ROWS 3] x ON v.a = x.b",
    "RSTREAM(SELECT a FROM s [PARTITION BY a, b ROWS 10,000]) EVERY 5 s UNION SELECT :p /* c */",
]
ODD = st.characters() | st.sampled_from([*"'\"()[]{};:,.-+*/%<>=~!@#$^&|?\\` \n\t\r\x0b\x85", "\0"])
WORDS = """
    SELECT FROM WHERE GROUP BY ORDER BY HAVING LIMIT OVER UNION EXCEPT JOIN ON USING LATERAL
    PIVOT TABLESAMPLE MATCH_RECOGNIZE QUALIFY VALUES UNNEST INTERVAL CAST TRY_CAST EXTRACT STRUCT
    ARRAY MAP :: => -> ->> |> <=> ISTREAM EVERY ROWS RANGE NOW [ ] ( ) NULL CASE WHEN THEN END IN
    BETWEEN LIKE ESCAPE IS NOT DISTINCT EXISTS ALL ANY FOR INTO SET DESCRIBE SUMMARIZE PRAGMA
    KILL COPY MERGE ALTER GRANT COMMENT BEGIN COMMIT USE WHILE FUNCTION TABLE STREAM 1e5 .5 'x'
    X'0f' :p ? @v $1 {{ {% {# #} /* */ --
"""


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draw a valid script with a few characters or words put in, taken out or repeated."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(text)))
        n_gone = draw(st.integers(0, 6))
        new = draw(
            st.one_of(
                st.text(ODD, max_size=4),
                st.sampled_from(WORDS.split()).map(" {} ".format),
                st.just(""),
            )
        )
        text = text[:at] + new + text[at + n_gone :]
    return text


@given(mutated())
@example("SELECT price * 2 .0 AS p FROM trades")
@settings(max_examples=300)
def test_nothing_but_our_own_errors_gets_out(streams: dict[str, Schema], text: str) -> None:
    said(text, streams)
    with suppress(LanguageError):
        Shapes(streams).prepare_many([text])
    with suppress(LanguageError):
        for statement in parse(text):
            assert parse(str(statement)) == [statement]


@given(st.text(ODD, max_size=30))
def test_noise_is_refused_in_words(streams: dict[str, Schema], text: str) -> None:
    said(text, streams)


@pytest.mark.parametrize(
    "condition",
    [
        "size > " + "+".join(["1"] * 8_000),
        " OR ".join(f"amount = {number}.5" for number in range(4_000)),
        " OR ".join(f"size IN ({number}, 7)" for number in range(4_000)),
    ],
)
def test_the_shape_of_a_long_text_takes_time_as_it_is_long(
    condition: str, streams: dict[str, Schema]
) -> None:
    began = time.process_time()

    shape, literals = Shapes(streams).shape_of(SELECT + condition)

    assert len(shape.slots) == len(literals)
    assert time.process_time() - began < 20  # and not minutes, as if each looked at all others
