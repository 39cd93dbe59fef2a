"""The index against asking each query by itself: every access method, any cut into files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from random import Random
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from millrace.errors import PlanError
from millrace.index import build
from millrace.index.access import METHODS
from millrace.index.build import Standing, build_index
from millrace.index.match import Matcher, Source
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools
from millrace.operators.evaluate import evaluate
from millrace.operators.select import Function
from millrace.plan.bind import bind_selection
from millrace.plan.expressions import (
    COMPARISONS,
    Arithmetic,
    Both,
    Call,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Not,
)
from millrace.plan.lifting import Lifted, lift_constants
from millrace.plan.nodes import Output, Selection
from millrace.schema import Schema, type_name, type_named
from millrace.state.memory_root import MemoryRoot
from millrace.testing.expression_strategies import expressions
from millrace.testing.strategies import batch_of, rows

SCHEMA = Schema.of(
    "o boolean, k tinyint, i int, b bigint, f float, x double, m decimal(5,2), n decimal(38,6), "
    "s text, y binary, d date, w timestamp"
)
GROUPS = (("k", "i", "b", "f", "x", "m", "n"), ("s",), ("y",), ("d", "w"), ("o",))
TROUBLE: dict[str, tuple[Any, ...]] = {
    "boolean": (True, False),
    "bigint": (0, 1, 2, -1, 127, -(2**31), 2**31, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)),
    "double": (0.0, -0.0, 0.5, 1.0, 1.5, -1.5, nan, inf, -inf, 2.0**53, 2.0**63, 1e300, 0.1),
    "decimal": (Decimal("0.50"), Decimal("1.00"), Decimal("-1.25"), Decimal("999.99"),
                Decimal("0.105"), Decimal("1000000"), Decimal("9007199254740993")),
    "text": ("", "a", "ab", "b", "a%", "%", "é", "日本", "🂡", "%a%", "a%b", "%ab", "_", "\x7f"),
    "binary": (b"", b"a", b"\xff", b"\x00"),
    "date": (date(1970, 1, 1), date(2024, 2, 29), date.min, date.max),
    "timestamp": (datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, 12, tzinfo=UTC),
                  datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)),
}  # fmt: skip
ACCESS = ["auto", *METHODS]
Row = dict[str, Any]
Pair: TypeAlias = tuple[int, int]


def twice(numbers: pa.Array) -> pa.Array:
    return pc.multiply(numbers.cast(pa.float64(), safe=False), 2.0)


FUNCTIONS: dict[str, Function] = {"twice": twice}
TYPES = {"twice": pa.float64()}


@dataclass(frozen=True)
class World:
    """Rows, and families of queries over them; each query has its constants."""

    rows: list[Row]
    families: list[tuple[Lifted, list[list[Any]]]]

    @property
    def batch(self) -> pa.RecordBatch:
        return batch_of(self.rows, SCHEMA)

    def __repr__(self) -> str:
        told = [f"{each.selection} with {some}" for each, some in self.families]
        return f"World({self.rows}, {told})"


def word(type_name: str) -> str:
    """Return the word of TROUBLE for a type."""
    plain = type_name.removesuffix("[]").split("(")[0]
    return {"float": "double", "int": "bigint", "tinyint": "bigint", "smallint": "bigint"}.get(
        plain, plain
    )


class Asking:
    """Draws conditions whose constants often are values of the rows."""

    def __init__(self, draw: st.DrawFn, given_rows: list[Row]) -> None:
        self.draw = draw
        self.pools = {each: list(some) for each, some in TROUBLE.items()}
        for row in given_rows:
            for column in SCHEMA:
                value = row[column.name]
                if value is not None:
                    self.pools[word(_named(column.name))].append(value)

    def one(self, options: Sequence[Any]) -> Any:
        return self.draw(st.sampled_from(options))

    def condition(self, depth: int) -> Expression:
        match self.one(["and", "or", "not", "test", "test", "any"]) if depth else "test":
            case "and":
                return Both(self.condition(depth - 1), self.condition(depth - 1))
            case "or":
                return Either(self.condition(depth - 1), self.condition(depth - 1))
            case "not":
                return Not(self.condition(depth - 1))
            case "any":
                drawn: Expression = self.draw(expressions(SCHEMA, "boolean", depth=2))
                return drawn
            case _:
                return self.test()

    def test(self) -> Expression:
        group = self.one(GROUPS)
        column = Column(self.one(group))
        tests: list[Callable[[Expression, tuple[str, ...]], Expression]] = [
            self.comparison, self.comparison, self.between, self.membership, self.null, self.columns
        ]  # fmt: skip
        if group == ("s",):
            tests += [self.like, self.regex, self.contains]
        if len(group) > 2:
            tests += [self.computed]
        chosen: Expression = self.one(tests)(column, group)
        return chosen

    def constant(self, group: tuple[str, ...]) -> Expression:
        kind = word(_named(self.one(group)))
        return Literal(self.one(self.pools[kind]))

    def comparison(self, column: Expression, group: tuple[str, ...]) -> Expression:
        operator, constant = self.one(COMPARISONS), self.constant(group)
        if self.one([False, False, True]):
            return Compare(operator, constant, column)
        return Compare(operator, column, constant)

    def between(self, column: Expression, group: tuple[str, ...]) -> Expression:
        low, high = self.constant(group), self.constant(group)
        return Both(Compare(">=", column, low), Compare("<=", column, high))

    def membership(self, column: Expression, group: tuple[str, ...]) -> Expression:
        options = [self.constant(group) for _ in range(self.one([0, 1, 2, 3]))]
        if self.one([False, False, True]):
            options.append(Literal(None))
        if self.one([False, False, True]) and options:
            tests = [Compare("=", column, each) for each in options]
            whole: Expression = tests[0]
            for each in tests[1:]:
                whole = Either(whole, each)
            return whole
        return In(column, tuple(options))

    def null(self, column: Expression, _: tuple[str, ...]) -> Expression:
        return IsNull(column)

    def columns(self, column: Expression, group: tuple[str, ...]) -> Expression:
        return Compare(self.one(COMPARISONS), column, Column(self.one(group)))

    def computed(self, column: Expression, group: tuple[str, ...]) -> Expression:
        if self.one([True, False]):
            return self.comparison(Call("twice", (column,)), group)
        other = self.one([Column(self.one(group)), self.constant(group)])
        return self.comparison(Arithmetic(self.one(["+", "-"]), column, other), group)

    def like(self, column: Expression, _: tuple[str, ...]) -> Expression:
        stem = self.one(self.pools["text"])
        pattern = self.one(["{}", "{}%", "%{}", "%{}%", "{}_%", "%{}%{}%"]).format(stem, stem)
        escape = self.one([None, None, "\\"])
        if pattern.endswith("\\"):
            escape = None
        return Like(column, Literal(pattern), escape, ignore_case=self.one([False, False, True]))

    def regex(self, column: Expression, _: tuple[str, ...]) -> Expression:
        pattern = self.one(["a", "^ab", "ab|é", "(ab)+", "日本?", "", "[ab]b", "ab$"])
        return Matches(column, Literal(pattern), ignore_case=self.one([False, True]))

    def contains(self, column: Expression, _: tuple[str, ...]) -> Expression:
        function = self.one(["contains", "starts_with", "ends_with"])
        return Call(function, (column, Literal(self.one(self.pools["text"]))))


def _named(column: str) -> str:
    return type_name(SCHEMA.type_of(column))


@st.composite
def worlds(draw: st.DrawFn) -> World:
    given_rows = draw(rows(SCHEMA, max_size=7))
    asking = Asking(draw, given_rows)
    families = []
    for _ in range(draw(st.integers(1, 3))):
        condition, lift = asking.condition(draw(st.integers(0, 3))), draw(st.integers(0, 4))
        lifted = lifted_of(condition, lift=lift > 0)
        if lifted is None:
            continue
        random = Random(draw(st.integers(0, 99)))
        pools = asking.pools
        more = [
            [constant(kind, pools, random) for kind in lifted.types]
            for _ in range(draw(st.sampled_from([0, 1, 4, 12])))
        ]
        families.append((lifted, [lifted.values, *more]))
    assume(families)
    return World(given_rows, families)


def lifted_of(condition: Expression, *, lift: bool = True) -> Lifted | None:
    """Bind a condition and lift its constants; None if its numbers have too many digits."""
    selection = Selection("rows", (Output("i", Column("i")),), condition)
    try:
        bound = bind_selection(selection, SCHEMA, TYPES)
    except PlanError as refused:
        if "digits" not in str(refused):
            raise
        return None
    return lift_constants(bound) if lift else Lifted(bound)


def constant(kind: str, pools: dict[str, list[Any]], random: Random) -> Any:
    """Choose another constant of a parameter's type."""
    if kind.endswith("[]"):
        one = kind.removesuffix("[]")
        return [constant(one, pools, random) for _ in range(random.choice([0, 1, 2, 9]))]
    arrow = type_named(kind)
    fitting = [each for each in pools[word(kind)] if fits(each, arrow)]
    return random.choice(fitting)


def fits(value: object, arrow: pa.DataType) -> bool:
    try:
        pa.scalar(value, arrow)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def parameters_of(lifted: Lifted, some: list[list[Any]]) -> pa.RecordBatch:
    if not lifted.types:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(some), pa.struct([])))
    columns = [
        pa.array([each[at] for each in some], _arrow(kind)) for at, kind in enumerate(lifted.types)
    ]
    return pa.RecordBatch.from_arrays(columns, names=[f"p{at}" for at in range(len(columns))])


def _arrow(kind: str) -> pa.DataType:
    one = type_named(kind.removesuffix("[]"))
    return pa.list_(one) if kind.endswith("[]") else one


def expected(world: World) -> Counter[Pair]:
    """Ask each query by itself; queries are numbered as they stand in their families."""
    found: Counter[Pair] = Counter()
    number = 0
    for lifted, some in world.families:
        for constants in some:
            given_ = {
                at: pa.scalar(value, _arrow(kind))
                for at, (kind, value) in enumerate(zip(lifted.types, constants, strict=True))
            }
            condition = lifted.selection.condition
            assert condition is not None
            truth = evaluate(condition, world.batch, FUNCTIONS, given_)
            if isinstance(truth, pa.Scalar):
                truth = pa.repeat(truth, world.batch.num_rows)
            found.update(
                (row, number) for row, true in enumerate(truth.to_pylist()) if true is True
            )
            number += 1
    return found


def runs_of(world: World, n_files: int) -> list[IndexRun]:
    """Index the queries in several files: query `q` is in file `q % n_files`."""
    root, runs = MemoryRoot(), []
    for file in range(n_files):
        standing, first = [], 0
        for nth, (lifted, some) in enumerate(world.families):
            qids = np.arange(first, first + len(some), dtype=np.uint64)
            first += len(some)
            mine = qids % n_files == file
            parameters = parameters_of(lifted, some).filter(pa.array(mine))
            if mine.any():
                standing.append(
                    Standing(f"family{nth}", "feed", lifted.selection, qids[mine], parameters)
                )
        if standing:
            root.put_if_absent(f"index/{file}", build_index(standing, SCHEMA, TYPES))
            runs.append(IndexRun.open(root, f"index/{file}"))
    return runs


def pairs_of(
    runs: list[IndexRun],
    batch: pa.RecordBatch,
    access: str = "auto",
    *,
    out: Sequence[Bools | None] | None = None,
    wanted: Sequence[Bools | None] | None = None,
) -> Counter[Pair]:
    sources = [Source(run, mask) for run, mask in zip(runs, out or [None] * len(runs), strict=True)]
    matcher = Matcher(sources, FUNCTIONS, access)
    found: Counter[Pair] = Counter()
    for pairs in matcher.pairs(batch, wanted or [None] * len(runs)):
        qids = pairs.run.qids[pairs.slots].tolist()
        found.update(zip(pairs.rows.tolist(), qids, strict=True))
    assert not matcher.failures.causes
    return found


def counts_of(
    runs: list[IndexRun],
    batches: list[pa.RecordBatch],
    access: str,
    *,
    out: Sequence[Bools | None] | None = None,
    wanted: Sequence[Bools | None] | None = None,
) -> Counter[int]:
    sources = [Source(run, mask) for run, mask in zip(runs, out or [None] * len(runs), strict=True)]
    matcher = Matcher(sources, FUNCTIONS, access)
    asked = wanted or [None] * len(runs)
    for batch in batches:
        matcher.count(batch, asked)
    assert not matcher.failures.causes
    found: Counter[int] = Counter()
    for number, run in enumerate(runs):
        slots, counts = matcher.counts(number, asked[number])
        found.update(dict(zip(run.qids[slots].tolist(), counts.tolist(), strict=True)))
    return found


def asked(*conditions: Expression, lift: bool = True, **columns: list[Any]) -> World:
    """Rows given by their columns, and a family for each condition."""
    n_rows = max(map(len, columns.values()))
    given_rows = [
        {each.name: columns.get(each.name, [None] * n_rows)[row] for each in SCHEMA}
        for row in range(n_rows)
    ]
    families = []
    for condition in conditions:
        lifted = lifted_of(condition, lift=lift)
        assert lifted is not None
        families.append((lifted, [lifted.values]))
    return World(given_rows, families)


A_NULL_TEXT = asked(IsNull(Column("s")), Not(IsNull(Column("s"))), s=[None, "a"])
AN_AND_INSIDE_OF_AN_OR = asked(
    Either(
        Both(Like(Column("s"), Literal("%disk%")), Compare(">", Column("i"), Literal(5))),
        Like(Column("s"), Literal("%quota%")),
    ),
    s=["disk full", "disk full", "quota"], i=[1, 9, 1],
)  # fmt: skip
NAN_AMONG_POINTS = asked(In(Column("x"), (Literal(nan), Literal(1.0))), x=[nan, 1.0, 2.0])
NULL_AMONG_POINTS = asked(
    In(Column("s"), (Literal("a"), Literal(None))), In(Column("k"), (Literal(None), Literal(1))),
    s=["a", None, "b"], k=[1, None, 2],
)  # fmt: skip
POINTS_OF_TWO_TYPES = asked(
    In(Column("i"), (Literal(1), Literal(1.5), Literal(Decimal(2)))),
    Either(Compare("=", Column("i"), Literal(1)), Compare("=", Column("i"), Literal(2.0))),
    i=[1, 2, 3],
)
DECIMALS_BESIDE_OTHERS = asked(
    Compare(">=", Column("k"), Literal(Decimal("0.5"))),
    Compare("<", Column("b"), Literal(Decimal("9007199254740992.5"))),
    Compare(">", Column("m"), Literal(Decimal("0.105"))),
    Compare("<", Column("m"), Literal(2**63 - 1)),
    k=[0, 1, None], b=[2**53, 2**53 + 1, -(2**63)],
    m=[Decimal("0.10"), Decimal("0.11"), Decimal("999.99")],
)  # fmt: skip
A_DOUBLE_BESIDE_DECIMALS = asked(
    Compare(">", Column("m"), Literal(0.101)), m=[Decimal("0.10"), Decimal("0.11")]
)
ONE_IS_NOT_TRUE = asked(
    Compare(">", Column("i"), Literal(1)), Compare("<", Column("x"), Literal(1.0)),
    lift=False, i=[1, 2, None], x=[0.5, 1.0, nan],
)  # fmt: skip
A_COLUMN_WITHOUT_A_TYPE = asked(
    Call("nullif", (Literal(None), Column("o"))),
    Not(Call("nullif", (Literal(None), Column("o")))),
    o=[True, None],
)
COLUMNS_EQUAL_TO_PYTHON = asked(
    Compare(">", Arithmetic("+", Column("i"), Literal(1)), Literal(2)),
    Compare(">", Arithmetic("+", Column("i"), Literal(1.0)), Literal(2.5)),
    Either(
        Compare("=", Arithmetic("+", Column("i"), Literal(1)), Literal(2)),
        Compare("=", Arithmetic("+", Column("i"), Literal(1.0)), Literal(2.5)),
    ),
    i=[1, 2],
)


@given(worlds(), st.sampled_from([1, 8]), st.sampled_from([1, 2]))
@example(A_NULL_TEXT, 8, 1)
@example(AN_AND_INSIDE_OF_AN_OR, 8, 1)
@example(NAN_AMONG_POINTS, 1, 1)
@example(NULL_AMONG_POINTS, 1, 1)
@example(POINTS_OF_TWO_TYPES, 1, 1)
@example(DECIMALS_BESIDE_OTHERS, 8, 1)
@example(A_DOUBLE_BESIDE_DECIMALS, 8, 1)
@example(ONE_IS_NOT_TRUE, 8, 1)
@example(A_COLUMN_WITHOUT_A_TYPE, 8, 1)
@example(COLUMNS_EQUAL_TO_PYTHON, 8, 1)
def test_agrees_with_asking_each_query(world: World, fewest_keys: int, n_files: int) -> None:
    with patch.object(build, "FEWEST_KEYS", fewest_keys):
        runs = runs_of(world, n_files)
    found = expected(world)
    of_query = Counter(query for _, query in found.elements())

    for access in ACCESS:
        assert pairs_of(runs, world.batch, access) == found, access
        assert counts_of(runs, [world.batch], access) == of_query, access


@settings(max_examples=50)
@given(worlds(), st.integers(0, 7), st.sampled_from(ACCESS))
def test_where_batches_are_cut_does_not_matter(world: World, at: int, access: str) -> None:
    runs, batch = runs_of(world, 1), world.batch
    parts = [batch[:at], batch[at:]]

    first, second = (pairs_of(runs, each, access) for each in parts)

    moved = Counter({(row + at, query): n for (row, query), n in second.items()})
    assert first + moved == pairs_of(runs, batch, access)
    assert counts_of(runs, parts, access) == counts_of(runs, [batch], access)


@settings(max_examples=50)
@given(worlds(), st.integers(0, 99), st.sampled_from(ACCESS))
def test_who_is_out_or_not_wanted_has_no_pairs(world: World, seed: int, access: str) -> None:
    runs, random = runs_of(world, 2), np.random.default_rng(seed)
    out = [random.random(run.n) < 0.3 for run in runs]
    wanted = [random.random(run.n) < 0.7 for run in runs]
    left = {
        int(query)
        for run, gone, some in zip(runs, out, wanted, strict=True)
        for query in run.qids[~gone & some]
    }

    found = pairs_of(runs, world.batch, access, out=out, wanted=wanted)
    counts = counts_of(runs, [world.batch], access, out=out, wanted=wanted)

    kept = {pair: n for pair, n in pairs_of(runs, world.batch).items() if pair[1] in left}
    assert found == Counter(kept)
    assert counts == Counter(query for _, query in found.elements())


@pytest.mark.parametrize("access", ACCESS)
def test_a_function_that_raises_fails_the_queries_that_call_it_and_no_other(access: str) -> None:
    called = Call("twice", (Column("x"),))
    world = asked(
        Compare(">", called, Literal(1.0)),
        Compare(">", Column("x"), Literal(1.0)),
        Compare(">", Column("x"), called),
        Both(Compare(">", Column("x"), Literal(0.0)), Compare("<", Column("x"), called)),
        x=[0.5, 2.0],
    )
    runs = runs_of(world, 1)

    def broken(_: pa.Array) -> pa.Array:
        raise ValueError("no luck")

    matcher = Matcher([Source(run) for run in runs], {"twice": broken}, access)
    [pairs] = matcher.pairs(world.batch, [None])

    assert pairs.run.qids[pairs.slots].tolist() == [1]
    assert sorted(matcher.failures.causes) == [0, 2, 3]
