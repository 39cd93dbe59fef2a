"""Families: texts that differ in constants share a shape, and mean what they mean alone."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.lang.binder import bind_query
from millrace.lang.errors import LanguageError
from millrace.lang.family import Shapes, columns
from millrace.lang.shape import filled
from millrace.schema import Schema

WHOLE = st.integers(0, 2**63 - 1).map(str) | st.integers(0, 9).map(str)
FRACTION = st.decimals(0, 10**6, places=3, allow_nan=False).map(str) | st.sampled_from(["1.", ".5"])
EXPONENT = st.floats(0, 1e20).map(lambda value: f"{value:e}")
NUMBER = st.one_of(WHOLE, FRACTION, EXPONENT, WHOLE.map(lambda text: f"-{text}"))
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\1\2\3"), max_size=8).filter(
    lambda text: text.isprintable()
)
QUOTED = TEXT.map(lambda text: "'" + text.replace("'", "''") + "'")
DAY = st.dates(date(1000, 1, 1)).map(lambda day: f"'{day}'")
MOMENT = st.datetimes(datetime(1000, 1, 1)).map(lambda moment: f"'{moment.isoformat(' ')}'")  # noqa: DTZ001
COMPARISON = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
NUMERIC = st.sampled_from(["price", "size", "amount", "price * 2", "amount + 1.25", "abs(size)"])


def _list(members: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(members, min_size=1, max_size=4).map(lambda each: f"({', '.join(each)})")


ATOMS = st.one_of(
    st.tuples(NUMERIC, COMPARISON, NUMBER).map(" ".join),
    st.tuples(NUMBER, COMPARISON, NUMERIC).map(" ".join),
    st.tuples(NUMERIC, st.sampled_from(["IN", "NOT IN"]), _list(NUMBER)).map(" ".join),
    st.tuples(NUMERIC, NUMBER, NUMBER).map("{0[0]} BETWEEN {0[1]} AND {0[2]}".format),
    st.tuples(NUMERIC, NUMBER).map("{0[0]} IS DISTINCT FROM {0[1]}".format),
    st.tuples(st.just("symbol"), COMPARISON, QUOTED).map(" ".join),
    st.tuples(st.just("symbol"), st.just("IN"), _list(QUOTED)).map(" ".join),
    st.tuples(st.just("symbol"), st.sampled_from(["LIKE", "ILIKE"]), QUOTED).map(" ".join),
    st.tuples(st.just("ts"), COMPARISON, MOMENT | DAY).map(" ".join),
    st.tuples(st.just("ts"), st.just("IN"), _list(MOMENT)).map(" ".join),
    st.tuples(st.just("day"), COMPARISON, DAY | MOMENT).map(" ".join),
    st.tuples(QUOTED, NUMBER).map("CASE symbol WHEN {0[0]} THEN {0[1]} ELSE price END > 3".format),
    st.tuples(QUOTED).map("contains(symbol, {0[0]})".format),
    st.just("substring(symbol, 1, 2) = 'ab'"),
    st.just("date_trunc('day', ts) > '2024-05-01'"),
    st.just("raw = X'00ff'"),
)
CONDITION = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(
            "({0[0]}) {0[1]} {0[2]}".format
        ),
        inner.map(lambda text: f"NOT ({text})"),
    ),
    max_leaves=4,
)
QUERY = CONDITION.map(
    lambda text: f"SELECT symbol, 1.5 AS factor, price > 7 AS big FROM trades WHERE {text}"
)


@pytest.fixture(scope="module")
def shapes(streams: dict[str, Schema]) -> Shapes:
    return Shapes(streams)


@given(QUERY)
@example("SELECT symbol FROM trades WHERE amount * 1.1 > 3 AND 5 BETWEEN size AND amount")
@example("SELECT symbol FROM trades WHERE day = '2024-05-01 10:00' AND day IN ('2024-05-01')")
@example("SELECT symbol FROM trades WHERE size = -9223372036854775808")
def test_a_shape_filled_again_is_the_plan_of_the_text(
    shapes: Shapes, streams: dict[str, Schema], text: str
) -> None:
    try:
        alone = bind_query(text, streams)
    except LanguageError:
        with pytest.raises(LanguageError, match="a"):
            shapes.prepare_many([text])
        return

    (shape, group), *rest = shapes.prepare_many([text]).items()

    assert not rest
    values = [each[0].as_py() for each in group.columns]
    assert filled(shape.selection, values) == alone


@given(st.lists(QUERY, min_size=2, max_size=5))
def test_texts_together_are_what_they_are_alone(
    shapes: Shapes, streams: dict[str, Schema], texts: list[str]
) -> None:
    try:
        alone = [bind_query(text, streams) for text in texts]
    except LanguageError:
        return

    groups = shapes.prepare_many(texts)

    assert sorted(at for group in groups.values() for at in group.positions) == [*range(len(texts))]
    for shape, group in groups.items():
        for row, position in enumerate(group.positions):
            values = [each[row].as_py() for each in group.columns]
            assert filled(shape.selection, values) == alone[position]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("price > 100", "price > 7"),
        ("price > 1", "price > -1"),  # one family, two skeletons
        ("symbol = 'a'", "symbol  =  'it''s' -- a comment"),
        ("size IN (1, 2, 3)", "size IN (-7)"),
        ("amount > 1.5", "amount > 22.75"),  # both fit the digits of the column
        ("ts > '2024-05-01'", "ts > '2024-05-01 12:00:00.5Z'"),
        ("symbol LIKE 'a%'", "symbol LIKE '%b%'"),
        ("price BETWEEN 1 AND 2", "price BETWEEN 3 AND 4"),
        ("price >= 1 AND price <= 2", "(price BETWEEN 3 AND 4)"),
        ('"price" > 1', "PRICE > 2"),
        ("CASE WHEN ok THEN 1 ELSE 2 END = 1", "CASE WHEN ok THEN 1 ELSE 2 END = 7"),
        ("score(symbol, 1) > 2", "score(symbol, 1) > 4"),
    ],
)
def test_texts_of_one_family(streams: dict[str, Schema], one: str, other: str) -> None:
    shapes = Shapes(streams, {"score": pa.float64()})
    first, second = (
        shapes.shape_of(f"SELECT symbol FROM trades WHERE {each}")[0] for each in (one, other)
    )

    assert first.key == second.key
    assert first.selection == second.selection


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("size > 1", "size > 1.5"),  # the kind of a literal
        ("size > 1.5", "size > 1.25"),  # the digits of an exact number
        ("amount > 1.5", "amount > 1.555"),
        ("day > '2024-05-01'", "day > '2024-05-01 12:00'"),
        ("symbol ~ 'a'", "symbol ~ 'b'"),  # compiled when it is bound
        ("substring(symbol, 1, 2) = 'x'", "substring(symbol, 1, 3) = 'x'"),
        ("symbol LIKE 'a' ESCAPE '!'", "symbol LIKE 'a' ESCAPE '?'"),
        ("date_trunc('day', ts) = ts", "date_trunc('hour', ts) = ts"),
        ("CAST(price AS decimal(10, 2)) > 1", "CAST(price AS decimal(10, 3)) > 1"),
        ("symbol IS NULL", "price IS NULL"),
        ("price * 2 > 1", "price * 3 > 1"),  # inside an operation on columns
        ("score(symbol, 1) > 2", "score(symbol, 3) > 2"),
        ("CASE WHEN ok THEN 1 ELSE 2 END = 1", "CASE WHEN ok THEN 5 ELSE 2 END = 1"),
    ],
)
def test_texts_of_two_families(streams: dict[str, Schema], one: str, other: str) -> None:
    shapes = Shapes(streams, {"score": pa.float64()})
    first, second = (
        shapes.shape_of(f"SELECT symbol FROM trades WHERE {each}")[0] for each in (one, other)
    )

    assert first.key != second.key


def test_parameters_are_typed_columns(shapes: Shapes) -> None:
    texts = [
        f"SELECT symbol FROM trades WHERE symbol = '{name}' AND price > {low} AND size IN ({some})"
        f" AND amount < {most} AND ts > '{since}'"
        for name, low, some, most, since in [
            ("a", 1, "1, 2", "1.5", "2024-05-01"),
            ("b", 2, "3", "2.25", "2024-05-01T12:00+02"),
        ]
    ]

    ((shape, group),) = shapes.prepare_many(texts).items()

    assert shape.types == ("text", "double", "bigint", "decimal(38,2)", "timestamp")
    assert [each.to_pylist() for each in group.columns] == [
        ["a", "b"],
        [1.0, 2.0],
        [[1, 2], [3]],
        [Decimal("1.50"), Decimal("2.25")],
        [datetime(2024, 5, 1, tzinfo=UTC), datetime(2024, 5, 1, 10, tzinfo=UTC)],
    ]


@pytest.mark.parametrize(
    ("good", "bad", "wrong"),
    [
        ("size > 1", "size > 99999999999999999999", "99999999999999999999"),
        ("price > 1e5", "price > 1e999", "1e999"),
        ("ts > '2024-05-01'", "ts > 'noon'", "'noon'"),
        ("ts IN ('2024-05-01')", "ts IN ('2024-05-01', 'noon')", "'2024-05-01', 'noon'"),
        ("raw = X'00'", "raw = X'0'", "X'0'"),
        ("symbol LIKE 'a' ESCAPE '!'", "symbol LIKE 'a!' ESCAPE '!'", "'a!'"),
        ("price > 1", "prise > 1", "prise"),
    ],
)
def test_a_misfit_is_named_with_its_text_and_place(
    shapes: Shapes, good: str, bad: str, wrong: str
) -> None:
    texts = [f"SELECT symbol FROM trades WHERE {each}" for each in (good, good, bad, good)]

    with pytest.raises(LanguageError) as caught:
        shapes.prepare_many(texts)

    assert caught.value.detail.startswith("It is text 3 of 4.")
    assert texts[2][slice(*caught.value.span)] == wrong
    assert len(shapes.prepare_many(texts[:2])) == 1


def test_a_forged_mark_is_refused(shapes: Shapes) -> None:
    shapes.shape_of("SELECT symbol FROM trades WHERE price > 1")

    with pytest.raises(LanguageError, match=r"U\+0000 is not allowed"):
        shapes.shape_of("SELECT symbol FROM trades WHERE price > \0i")


def test_half_a_surrogate_is_refused_also_when_the_shape_is_known(shapes: Shapes) -> None:
    good = "SELECT symbol FROM trades WHERE symbol = 'x'"
    shapes.shape_of(good)

    with pytest.raises(LanguageError, match="half of a surrogate pair"):
        shapes.prepare_many([good.replace("x", "\ud800")])


def test_a_family_is_one_group_whatever_its_skeletons(shapes: Shapes) -> None:
    conditions = ["price BETWEEN 1 AND 2", "price >= 3 AND price <= -4", "price BETWEEN 5 AND 6"]

    ((_, group),) = shapes.prepare_many(
        [f"SELECT symbol FROM trades WHERE {each}" for each in conditions]
    ).items()

    found = zip(group.positions, *(each.to_pylist() for each in group.columns), strict=True)
    assert sorted(found) == [(0, 1.0, 2.0), (1, 3.0, -4.0), (2, 5.0, 6.0)]


def test_no_texts_are_no_groups(shapes: Shapes) -> None:
    assert shapes.prepare_many([]) == {}
    shape, literals = shapes.shape_of("SELECT * FROM trades")
    assert literals == ()
    assert columns(shape, [literals]) == []


def test_an_error_survives_a_trip_between_processes(streams: dict[str, Schema]) -> None:
    with pytest.raises(LanguageError) as caught:
        bind_query("SELECT prise FROM trades", streams)

    again = pickle.loads(pickle.dumps(caught.value))

    assert str(again) == str(caught.value)
    assert (again.code, again.line, again.column) == ("CQL002", 1, 8)
