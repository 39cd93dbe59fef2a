"""Statements: what rows of parameters they take, what they tell, and that they can be repeated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from millrace.cli.dry_run import DryScript, dry_run
from millrace.errors import MillraceError

DECLARED = """
CREATE STREAM t (symbol text, price double, n int, d decimal(9,2), ts timestamp)
  TIMESTAMP BY ts FROM files(path => '/nowhere/*.parquet');
CREATE QUERY TEMPLATE alert (sym text, low double) AS
  SELECT * FROM t WHERE symbol = :sym AND price > :low;
CREATE QUERY TEMPLATE sets (syms text[], n int) AS
  SELECT * FROM t WHERE symbol IN (:syms) AND n = :n;
CREATE QUERY TEMPLATE times (at timestamp, d decimal(9,2), on_ boolean) AS
  SELECT symbol FROM t WHERE ts > :at AND d < :d AND (n > 1) = :on_;
"""


@pytest.fixture
def script() -> Iterator[DryScript]:
    with dry_run() as made:
        list(made.run(DECLARED))
        yield made


def told(script: DryScript, text: str) -> str:
    [outcome] = script.run(text)
    return outcome.message


def rows(script: DryScript, text: str) -> list[dict[str, Any]]:
    [outcome] = script.run(text)
    assert outcome.table is not None
    found: list[dict[str, Any]] = outcome.table.to_pylist()
    return found


def test_numbers_of_different_kinds_are_read_by_the_type_of_their_parameter(
    script: DryScript,
) -> None:
    inserted = told(script, "INSERT INTO alert VALUES ('A', 100), ('B', 12.5), ('C', 1e3)")

    assert inserted == "3 queries inserted"
    assert [row["low"] for row in rows(script, "SELECT * FROM alert")] == [100.0, 12.5, 1000.0]


def test_sets_dates_and_decimals_are_read(script: DryScript) -> None:
    told(script, "INSERT INTO sets VALUES (('A', 'B'), 1), ((), 2)")
    told(script, "INSERT INTO times VALUES (TIMESTAMP '2024-05-01 12:00:00', 1.5, TRUE)")

    assert [row["syms"] for row in rows(script, "SELECT * FROM sets")] == [["A", "B"], []]
    [row] = rows(script, "SELECT * FROM times")
    assert (str(row["at"])[:19], str(row["d"]), row["on_"]) == ("2024-05-01 12:00:00", "1.50", True)


def test_rows_that_are_there_are_not_inserted_again(script: DryScript) -> None:
    again = "INSERT INTO alert VALUES ('A', 1), ('A', 1), ('B', 2)"

    assert told(script, again) == "3 queries inserted"
    assert told(script, again) == "0 queries inserted, 3 were there already"
    more = "INSERT INTO alert VALUES ('A', 1), ('C', 3)"
    assert told(script, more) == "1 queries inserted, 1 were there already"


def test_columns_of_a_template_can_be_read(script: DryScript) -> None:
    told(script, "INSERT INTO alert VALUES ('A', 1), ('B', 2)")
    told(script, "INSERT INTO sets VALUES (('A', 'B'), 7)")

    assert rows(script, "SELECT sym FROM alert WHERE low > 1") == [{"sym": "B"}]
    [row] = rows(script, "SELECT _query AS id, low * 2 AS twice FROM alert WHERE sym = 'A'")
    assert row == {"id": 1, "twice": 2.0}
    assert rows(script, "SELECT n FROM sets") == [{"n": 7}]


def test_rows_are_changed_and_deleted_where_a_condition_is_true(script: DryScript) -> None:
    assert told(script, "UPDATE alert SET low = 5 WHERE sym = 'A'") == "0 queries changed"
    told(script, "INSERT INTO alert VALUES ('A', 1), ('B', 2)")
    told(script, "INSERT INTO sets VALUES (('A'), 7)")

    assert told(script, "UPDATE alert SET low = 5 WHERE sym = 'A'") == "1 queries changed"
    assert told(script, "UPDATE sets SET syms = ('X', 'Y') WHERE n = 7") == "1 queries changed"
    assert told(script, "DELETE FROM alert WHERE low < 3") == "1 queries deleted"
    assert [row["low"] for row in rows(script, "SELECT * FROM alert")] == [5.0]
    assert [row["syms"] for row in rows(script, "SELECT * FROM sets")] == [["X", "Y"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("INSERT INTO alert VALUES ('A', 1), (2, 2)", 'parameter "sym" of row 2 is not text'),
        ("INSERT INTO alert VALUES ('A', 'B')", 'parameter "low" of row 1 is not double'),
        ("INSERT INTO alert VALUES ('A', TRUE)", 'parameter "low" of row 1 is not double'),
        ("INSERT INTO alert VALUES (('A'), 1)", 'parameter "sym" of row 1 is not text'),
        ("INSERT INTO alert VALUES (NULL, 1)", 'parameter "sym" of row 1 is NULL'),
        ("INSERT INTO alert VALUES ('A')", "a row has 1 values"),
        ("INSERT INTO alert (sym, lo) VALUES ('A', 1)", 'parameter "lo" does not exist'),
        ("INSERT INTO sets VALUES ('A', 1)", 'parameter "syms" of row 1 is not text[]'),
        ("INSERT INTO sets VALUES (('A', 1), 1)", 'parameter "syms" of row 1 is not text[]'),
        ("INSERT INTO sets VALUES (('A', NULL), 1)", "has a NULL in its set"),
        ("INSERT INTO sets VALUES (('A'), 1.5)", 'parameter "n" of row 1 is not int'),
        ("INSERT INTO sets VALUES (('A'), 3000000000)", 'parameter "n" of row 1 is not int'),
        ("INSERT INTO times VALUES ('soon', 1, TRUE)", 'parameter "at" of row 1 is not timestamp'),
        ("INSERT INTO times VALUES ('2024-05-01', 1.555, TRUE)", 'parameter "d" of row 1'),
        ("INSERT INTO times VALUES ('2024-05-01', 1, 1)", 'parameter "on_" of row 1'),
        ("UPDATE alert SET lo = 1 WHERE sym = 'A'", 'parameter "lo" does not exist'),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_is_taken(
    script: DryScript, text: str, message: str
) -> None:
    with pytest.raises(MillraceError) as refused:
        told(script, text)

    assert message in str(refused.value)
    assert [rows(script, f"SELECT * FROM {name}") for name in ("alert", "sets", "times")] == [
        []
    ] * 3


PLACED = {
    "CREATE QUERY q AS SELECT n FROM t;\nCREATE QUERY q AS SELECT symbol FROM t": (
        'query "q" exists already', "  2 | CREATE QUERY q AS", 13, 1, "Drop it first"),
    "DROP QUERY alrt": ('query "alrt" does not exist', "  1 | DROP QUERY alrt", 11, 4, ""),
    "DROP QUERY alert": (
        'query "alert" does not exist', '"alert" is a template.', 11, 5, ""),
    "DROP TEMPLATE alrt": (
        'template "alrt" does not exist', '"alert", "sets", "times"', 14, 4, '"alert"?'),
    "EXPLAIN QUERY big": ('query "big" does not exist', "There are no queries.", 14, 3, ""),
    "INSERT INTO alrt VALUES ('A', 1)": (
        'template "alrt" does not exist', '"alert", "sets", "times"', 12, 4, '"alert"?'),
    "INSERT INTO alrt FROM 'x.csv'": ('template "alrt" does not exist', "1 |", 12, 4, '"alert"?'),
    "INSERT INTO alert VALUES ('A', 1), ('B', TRUE)": (
        'parameter "low" of row 2 is not double', "It is TRUE.", 41, 4, ""),
    "INSERT INTO alert (low, sym) VALUES (1, NULL)": (
        'parameter "sym" of row 1 is NULL', "1 |", 40, 4, "Leave the row out."),
    "INSERT INTO alert (sym, lo) VALUES ('A', 1)": (
        'parameter "lo" does not exist', "sym, low", 24, 2, '"low"?'),
    "INSERT INTO sets VALUES ('A', 'B', 5)": (
        "a row has 3 values", "syms, n", 25, 3, "(('ACME', 'BOLT'), 5)"),
    "INSERT INTO sets VALUES ('A', 5)": (
        'parameter "syms" of row 1 is not text[]', "1 |", 25, 3, "('ACME', 'BOLT')"),
    "INSERT INTO sets VALUES (ARRAY['A', 'B'], 5)": (
        "a constant was expected here", "1 |", 25, 5, "('ACME', 'BOLT')"),
    "CREATE SINK s TO parquet(pth => '/x')": (
        'option "pth" of parquet does not exist', "path", 25, 3, '"path"?'),
    "CREATE SINK s TO parquet()": (
        'option "path" of parquet is missing', "path", 17, 7, "Write parquet(path => ...)."),
    "CREATE SINK s TO parket(path => '/x')": (
        'sink "parket" does not exist', "parquet", 17, 6, '"parquet"?'),
    "CREATE SINK s FOR nope TO memory()": (
        'query "nope" does not exist', '"alert", "sets", "times"', 18, 4, ""),
    "CREATE QUERY TEMPLATE u (a int, b int) AS SELECT n FROM t WHERE n > :a": (
        'parameter "b" of template "u" is not used', "1 |", 32, 1, "Write :b"),
    "CREATE QUERY u AS SELECT n FROM t WHERE symbol IN ('a', 5)": (
        "symbol IN ('a', 5) compares text with bigint", "1 |", 40, 17, "one kind"),
    "SELECT * FROM nope": ('"nope" does not exist', "1 |", 14, 4, ""),
    "CREATE STREAM u (a INTT, ts timestamp) TIMESTAMP BY ts FROM files(path => 'x')": (
        'type "INTT" does not exist', "The types are", 19, 4, '"int"?'),
    "CREATE QUERY TEMPLATE u (a doublle) AS SELECT n FROM t WHERE price > :a": (
        'type "doublle" does not exist', "The types are", 27, 7, '"double"?'),
}  # fmt: skip


@pytest.mark.parametrize("text", PLACED)
def test_what_is_wrong_is_shown_where_it_stands(script: DryScript, text: str) -> None:
    message, words, first, width, hint = PLACED[text]

    with pytest.raises(MillraceError) as refused:
        list(script.run(text))

    shown = str(refused.value)
    carets = next(line for line in shown.splitlines() if set(line) <= {" ", "|", "^"})
    assert refused.value.message.startswith(message)
    assert (carets.index("^") - 6, carets.count("^")) == (first, width)
    assert words in shown
    assert hint in refused.value.hint


def test_if_exists_asks_for_nothing(script: DryScript) -> None:
    assert told(script, "DROP TEMPLATE IF EXISTS nope") == 'template "nope" does not exist'
