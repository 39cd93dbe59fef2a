"""Statements are read, and printed back as the same statements."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from millrace.lang.declarations import (
    Connector,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTemplate,
    Explain,
    InsertRows,
    Read,
    Show,
    UpdateRows,
)
from millrace.lang.errors import LanguageError
from millrace.lang.statements import parse, parse_one
from millrace.schema import Schema

GOLDEN = (Path(__file__).parent / "statements.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("text", GOLDEN)
def test_a_statement_is_printed_as_it_is_written_here(text: str) -> None:
    assert str(parse_one(text)) == text


@pytest.mark.parametrize("text", GOLDEN)
def test_what_is_printed_is_read_as_the_same_statement(text: str) -> None:
    for variant in (text.lower(), text.replace(", ", " ,\n "), f"/* a */ {text} -- b"):
        statement = parse_one(variant)

        assert parse_one(str(statement)) == statement


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("select * from s[rows 10,000]", "SELECT * FROM s [ROWS 10000]"),
        (
            "select * from s [range 90s slide 1 min]",
            "SELECT * FROM s [RANGE 1 minute 30 seconds SLIDE 1 minute]",
        ),
        ("select * from s [range interval '2 hours']", "SELECT * FROM s [RANGE 2 hours]"),
        ("select * from s [range 0]", "SELECT * FROM s [RANGE 0 seconds]"),
        ("A union B", "SELECT * FROM A UNION ALL SELECT * FROM B"),
        (
            "a except B intersect c",
            "SELECT * FROM a EXCEPT ALL (SELECT * FROM B INTERSECT ALL SELECT * FROM c)",
        ),
        (
            "select substring(a from 2 for 3), extract(day from b) from s",
            "SELECT SUBSTRING(a, 2, 3), EXTRACT('day', b) FROM s",
        ),
        (
            "select date '2024-05-01', a::double from s",
            "SELECT CAST('2024-05-01' AS DATE), CAST(a AS DOUBLE) FROM s",
        ),
        ("create sink s for all as memory() as rows", "CREATE SINK s TO memory()"),
        (
            "create stream s (a timestamp) delay 1500 ms timestamp by a from f()",
            "CREATE STREAM s (a timestamp) TIMESTAMP BY a DELAY 1 second 500 milliseconds FROM f()",
        ),
    ],
)
def test_other_spellings_mean_the_same(written: str, printed: str) -> None:
    assert str(parse_one(written)) == printed


def test_a_stream_has_the_words_of_its_declaration() -> None:
    statement = parse_one(
        "CREATE STREAM t (a text, ts timestamp, n bigint) TIMESTAMP BY ts, n DELAY 2 s "
        "KEY (a) FROM files(path => 'x', deep => false)"
    )

    assert statement == CreateStream(
        "t",
        Schema.of("a text, ts timestamp, n bigint"),
        "ts",
        Connector("files", (("path", "x"), ("deep", False))),
        order=("n",),
        delay=2_000_000,
        key=("a",),
    )


def test_constants_of_rows_are_values() -> None:
    statement = parse_one(
        "INSERT INTO t VALUES (1, 1.5, 15e-1, 'it''s', X'00ff', DATE '2024-05-01', "
        "TIMESTAMP '2024-05-01 12:00+02', TRUE, NULL, -7)"
    )

    assert isinstance(statement, InsertRows)
    noon = datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert statement.rows == (
        (1, Decimal("1.5"), 1.5, "it's", b"\x00\xff", date(2024, 5, 1), noon, True, None, -7),
    )


def test_a_script_says_where_each_statement_is() -> None:
    script = "SHOW QUERIES; -- first\n\n  SELECT ';' FROM s\n;/* ; */;\nEXPLAIN QUERY q;"

    statements = parse(script)

    assert [type(each) for each in statements] == [Show, Read, Explain]
    assert [each.written.text for each in statements][1:] == [
        "-- first\n\n  SELECT ';' FROM s",
        "EXPLAIN QUERY q",
    ]
    assert [(each.written.line, each.written.column) for each in statements] == [
        (1, 1),
        (1, 15),
        (5, 1),
    ]


def test_where_a_statement_was_written_does_not_count() -> None:
    assert parse_one("show queries") == parse_one("\n\n  SHOW   QUERIES;")


def test_positions_count_in_the_whole_script() -> None:
    with pytest.raises(LanguageError) as caught:
        parse("SHOW QUERIES;\nSHOW QUERIES;\nCREATE QUERY q AS SELECT a FROM s WHERE (b =);")

    assert (caught.value.line, caught.value.column) == (3, 45)


@pytest.mark.parametrize(
    ("text", "n_statements"), [("", 0), (" ; ;-- nothing\n", 0), ("a union b;;", 1)]
)
def test_empty_pieces_are_no_statements(text: str, n_statements: int) -> None:
    assert len(parse(text)) == n_statements


def test_one_statement_is_one() -> None:
    with pytest.raises(LanguageError, match="there is no statement"):
        parse_one("-- nothing")
    with pytest.raises(LanguageError, match="there is more than one statement"):
        parse_one("SHOW QUERIES; SHOW SINKS")


def test_queries_inside_statements_keep_their_trees() -> None:
    query = parse_one("CREATE QUERY q INTO f AS SELECT a FROM s")
    template = parse_one("CREATE QUERY TEMPLATE q (p INTEGER) AS SELECT a FROM s")
    update = parse_one("UPDATE t SET a = 1 WHERE b > 2")
    sink = parse_one("CREATE SINK x FOR a, b TO memory()")

    assert isinstance(query, CreateQuery)
    assert isinstance(template, CreateTemplate)
    assert isinstance(update, UpdateRows)
    assert isinstance(sink, CreateSink)
    assert query.into == "f"
    assert query.query == template.query
    assert template.parameters == (("p", "int"),)
    assert str(update.where) == "b > 2"
    assert sink.queries == ("a", "b")
