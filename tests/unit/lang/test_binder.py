"""Queries become plans: each construct is what it means, over the columns that exist."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from millrace.lang.binder import bind_condition, bind_query
from millrace.lang.declarations import UpdateRows
from millrace.lang.errors import LanguageError
from millrace.lang.statements import parse_one
from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Parameter,
)
from millrace.plan.nodes import Output, Selection
from millrace.schema import Schema

PRICE, SIZE, SYMBOL, OK = Column("price"), Column("size"), Column("symbol"), Column("ok")
TS, DAY, AMOUNT = Column("ts"), Column("day"), Column("amount")
MIDNIGHT = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("price > 100", Compare(">", PRICE, Literal(100.0))),
        ("100 < Price", Compare("<", Literal(100.0), PRICE)),
        ("trades.price != -1.5", Compare("<>", PRICE, Literal(-1.5))),
        ("size = 1 AND ok OR NOT ok", Either(Both(Compare("=", SIZE, Literal(1)), OK), Not(OK))),
        (
            "size BETWEEN 1 AND 2",
            Both(Compare(">=", SIZE, Literal(1)), Compare("<=", SIZE, Literal(2))),
        ),
        ("size NOT IN (1, -2)", Not(In(SIZE, (Literal(1), Literal(-2))))),
        ("size IN (1, NULL)", In(SIZE, (Literal(1), Literal(None)))),
        ("symbol LIKE 'a!%' ESCAPE '!'", Like(SYMBOL, Literal("a!%"), "!")),
        ("symbol NOT LIKE 'a!' ESCAPE '#'", Not(Like(SYMBOL, Literal("a!"), "#"))),
        ("NOT symbol LIKE 'a'", Not(Like(SYMBOL, Literal("a")))),
        ("symbol NOT RLIKE 'a'", Not(Matches(SYMBOL, Literal("a")))),
        (
            "size NOT BETWEEN 1 AND 2",
            Not(Both(Compare(">=", SIZE, Literal(1)), Compare("<=", SIZE, Literal(2)))),
        ),
        ("symbol NOT ILIKE 'A%'", Not(Like(SYMBOL, Literal("A%"), ignore_case=True))),
        ("symbol ~ '^A'", Matches(SYMBOL, Literal("^A"))),
        ("symbol RLIKE 'A'", Matches(SYMBOL, Literal("A"))),
        ("symbol REGEXP 'A'", Matches(SYMBOL, Literal("A"))),
        ("symbol ~* 'a'", Matches(SYMBOL, Literal("a"), ignore_case=True)),
        ("symbol IS NULL", IsNull(SYMBOL)),
        ("symbol IS NOT NULL", Not(IsNull(SYMBOL))),
        ("ok IS TRUE", Both(Not(IsNull(OK)), OK)),
        ("ok IS NOT FALSE", Not(Both(Not(IsNull(OK)), Not(OK)))),
        ("size IS NOT DISTINCT FROM 1", Both(Not(IsNull(SIZE)), Compare("=", SIZE, Literal(1)))),
        ("size IS NOT DISTINCT FROM NULL", IsNull(SIZE)),
        ("size <=> NULL", IsNull(SIZE)),
        (
            "size IS DISTINCT FROM price",
            Not(
                Either(
                    Both(IsNull(SIZE), IsNull(PRICE)),
                    Both(Both(Not(IsNull(SIZE)), Not(IsNull(PRICE))), Compare("=", SIZE, PRICE)),
                )
            ),
        ),
        ("ts >= '2024-05-01'", Compare(">=", TS, Literal(MIDNIGHT))),
        ("ts >= TIMESTAMP '2024-05-01'", Compare(">=", TS, Literal(MIDNIGHT))),
        ("day = DATE '2024-05-01'", Compare("=", DAY, Literal(date(2024, 5, 1)))),
        ("day = '2024-05-01'", Compare("=", DAY, Literal(date(2024, 5, 1)))),
        ("day < '2024-05-01 00:00'", Compare("<", DAY, Literal(MIDNIGHT))),
        ("raw = X'00ff'", Compare("=", Column("raw"), Literal(b"\x00\xff"))),
        ("amount > 1.5", Compare(">", AMOUNT, Literal(Decimal("1.50")))),
        ("amount > 1", Compare(">", AMOUNT, Literal(Decimal("1.00")))),
        ("size > 1.5", Compare(">", SIZE, Literal(Decimal("1.5")))),
        ("size > 15e-1", Compare(">", SIZE, Literal(1.5))),
        ("TRUE", Literal(True)),
    ],
)
def test_conditions(text: str, meaning: Expression, streams: dict[str, Schema]) -> None:
    assert bind_query(f"SELECT * FROM trades WHERE {text}", streams).condition == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("price * 2 + size", Arithmetic("+", Arithmetic("*", PRICE, Literal(2.0)), SIZE)),
        ("size - 1 - 2", Arithmetic("-", Arithmetic("-", SIZE, Literal(1)), Literal(2))),
        ("size - (1 - 2)", Arithmetic("-", SIZE, Arithmetic("-", Literal(1), Literal(2)))),
        ("1e5-2", Arithmetic("-", Literal(1e5), Literal(2))),
        ("-size", Negative(SIZE)),
        ("- -1", Negative(Literal(-1))),
        ("symbol || 'x'", Arithmetic("||", SYMBOL, Literal("x"))),
        ("amount * 1.1", Arithmetic("*", AMOUNT, Literal(Decimal("1.1")))),
        ("CASE WHEN ok THEN 1 END", Case(((OK, Literal(1)),), Literal(None))),
        (
            "CASE size WHEN 1 THEN 'a' ELSE symbol END",
            Case(((Compare("=", SIZE, Literal(1)), Literal("a")),), SYMBOL),
        ),
        ("COALESCE(price, 0)", Call("coalesce", (PRICE, Literal(0.0)))),
        ("Upper(symbol)", Call("upper", (SYMBOL,))),
        ("SUBSTRING(symbol FROM 2 FOR 3)", Call("substring", (SYMBOL, Literal(2), Literal(3)))),
        ("POSITION('x' IN symbol)", Call("position", (Literal("x"), SYMBOL))),
        ("EXTRACT(year FROM ts)", Call("year", (TS,))),
        ("score(price, 'x')", Call("score", (PRICE, Literal("x")))),
        ("CAST(price AS int)", Cast(PRICE, "int")),
        ("price::decimal(10, 2)", Cast(PRICE, "decimal(10,2)")),
        ("TRY_CAST(symbol AS double precision)", Cast(SYMBOL, "double")),
        ("CAST('2024-05-01' AS date)", Literal(date(2024, 5, 1))),
        ("1.5", Literal(1.5)),
    ],
)
def test_values(text: str, meaning: Expression, streams: dict[str, Schema]) -> None:
    selection = bind_query(f"SELECT {text} AS v FROM trades", streams, {"score": pa.float64()})

    assert selection.outputs == (Output("v", meaning),)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT symbol AS s, price FROM trades WHERE ok",
        "select SYMBOL s, t.price from TRADES t where T.ok",
        "SELECT ISTREAM(symbol AS s, price) FROM trades WHERE ok",
        "ISTREAM(SELECT symbol AS s, price FROM trades [RANGE UNBOUNDED] WHERE ok)",
        "SELECT symbol AS s, price FROM trades [ROWS UNBOUNDED] WHERE ok",
        "SELECT RSTREAM(symbol AS s, price) FROM trades [NOW] WHERE ok",
        "RSTREAM(SELECT symbol AS s, price FROM trades [RANGE 0] AS t WHERE ok)",
        "(SELECT symbol AS s, price FROM trades WHERE ok)",
    ],
)
def test_ways_to_write_one_selection(text: str, streams: dict[str, Schema]) -> None:
    assert bind_query(text, streams) == Selection(
        "trades", (Output("s", SYMBOL), Output("price", PRICE)), OK
    )


def test_a_star_is_every_column(streams: dict[str, Schema]) -> None:
    names = streams["Quotes"].names

    for text in ("SELECT * FROM quotes", "SELECT q.* FROM Quotes AS q"):
        assert [each.name for each in bind_query(text, streams).outputs] == [*names]


def test_what_has_no_name_gets_the_number_of_its_place(streams: dict[str, Schema]) -> None:
    selection = bind_query("SELECT symbol, price + 1, upper(symbol) FROM trades", streams)

    assert [each.name for each in selection.outputs] == ["symbol", "column_2", "column_3"]


def test_an_exact_name_wins_and_two_others_are_ambiguous() -> None:
    schema = Schema.of("a int")
    streams = {"Ticks": schema, "TICKS": schema}

    assert bind_query("SELECT a FROM TICKS", streams).stream == "TICKS"
    with pytest.raises(LanguageError, match='stream "ticks" is ambiguous') as caught:
        bind_query("SELECT a FROM ticks", streams)
    assert caught.value.code == "CQL003"
    assert caught.value.detail == 'It may be "Ticks" or "TICKS".'


def test_named_parameters_are_numbered_as_they_are_declared(streams: dict[str, Schema]) -> None:
    given = {"low": "double", "sym": "text"}

    selection = bind_query(
        "SELECT price FROM trades WHERE symbol = :Sym AND price > :low", streams, {}, given
    )

    assert selection.condition == Both(
        Compare("=", SYMBOL, Parameter(1, "text")), Compare(">", PRICE, Parameter(0, "double"))
    )


def test_a_condition_over_rows_may_speak_of_the_query() -> None:
    update = parse_one("UPDATE alert SET low = 1 WHERE _QUERY = 'q' AND low > 2")
    assert isinstance(update, UpdateRows)

    bound = bind_condition(update.where, {"low": "double", "_query": "text"})

    assert bound == Both(
        Compare("=", Column("_query"), Literal("q")), Compare(">", Column("low"), Literal(2.0))
    )


def test_a_long_chain_is_a_tree_of_little_depth(streams: dict[str, Schema]) -> None:
    conditions = " AND ".join(f"size <> {number}" for number in range(1_000))

    condition = bind_query(f"SELECT * FROM trades WHERE {conditions}", streams).condition

    depth, node = 0, condition
    while isinstance(node, Both):
        depth, node = depth + 1, node.left
    assert depth < 12
    assert node == Compare("<>", SIZE, Literal(0))
