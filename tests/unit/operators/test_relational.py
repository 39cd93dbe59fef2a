"""The operators on relations against the definition: any plan, any data, cut anywhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.operators.keys import N_BUCKETS, bucket_of, hash_columns
from millrace.operators.relational.passing import Run
from millrace.operators.relational.plan import Plan
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.state import MemoryState
from millrace.operators.relational.travel import Leg
from millrace.plan.expressions import Column, Compare, Literal
from millrace.plan.placement import EVERYWHERE, FIRST, Placing
from millrace.plan.push import Pushing
from millrace.plan.relations import (
    Filter,
    Join,
    Relation,
    Source,
    StreamKind,
    StreamOf,
    Window,
    Windowed,
)
from millrace.plan.stages import Staging, stage_of
from millrace.plan.unnest import Unnesting
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.relations import Definition
from millrace.testing.relation_strategies import Root, plans
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEWER, MORE = settings(max_examples=max(DRAWN // 6, 1)), settings(max_examples=2 * DRAWN)
SOME = settings(max_examples=max(DRAWN // 6, 1))
KINDS: tuple[StreamKind, ...] = ("istream", "dstream", "rstream")
CUTS = st.lists(st.integers(1, END - 1), max_size=5).map(lambda cuts: [*sorted(set(cuts)), END])
Told = list[tuple[Any, ...]]


def executed(
    streams: Sequence[StreamOf], world: Worlds, ends: Sequence[int], *, again: bool = True
) -> list[Told]:
    """Run a plan slab by slab and return what each stream tells."""
    pushing = Pushing(DECLARED)
    nodes = [Unnesting(DECLARED).stream(pushing.stream(each)) for each in streams]
    plan, state = Plan(nodes, DECLARED, again=again), MemoryState()
    told: list[Told] = [[] for _ in nodes]
    for begin, end in zip([0, *ends], ends, strict=False):
        run = Run(slab_of(world, begin, end, state))
        for node, found in zip(nodes, told, strict=True):
            found.extend(rows_told(plan.stream(node, run)))
        state.settle(end)
    return told


def slab_of(
    world: Worlds, begin: int, end: int, state: MemoryState, share: Share | None = None
) -> Slab:
    streams, tables = world
    return Slab(
        begin,
        end,
        {name: taken(streams[name], name, begin, end, share) for name in streams},
        {name: taken(tables[name], name, begin, end, share) for name in tables},
        state,
        first=begin == 0,
        past=Seen(world, begin, share),
    )


@dataclass(frozen=True)
class Seen:
    """The elements of a world before an instant, those of a shard if one is given."""

    world: Worlds
    begin: int
    share: Share | None

    def between(self, stream: str, begin: int, end: int) -> Elements:
        return taken(self.world[0][stream], stream, begin, min(end, self.begin), self.share)

    def of(self, stream: str, keys: np.ndarray, after: int) -> Elements:
        assert self.share is not None, "only what is spread is found by keys"
        found = self.between(stream, after + 1, self.begin)
        mask = np.isin(hash_columns(found.rows, [self.share.columns[stream]]), keys)
        return Elements(found.rows.filter(pa.array(mask)), found.times[mask])

    def having(self, stream: str, keys: np.ndarray, after: int) -> np.ndarray:
        assert self.share is not None, "only what is spread is found by keys"
        found = self.of(stream, keys, after).rows
        return np.isin(keys, hash_columns(found, [self.share.columns[stream]]))


def rows_told(elements: Elements) -> Told:
    rows = elements.rows.to_pylist()
    return [comparable(at, row) for at, row in zip(elements.times.tolist(), rows, strict=True)]


def taken(
    items: Sequence[tuple[Any, ...]], name: str, begin: int, end: int, share: Share | None
) -> Elements:
    schema = (DECLARED.streams.get(name) or DECLARED.tables[name]).to_arrow()
    some = [each for each in items if begin <= each[0] < end]
    rows = pa.RecordBatch.from_pylist([each[1] for each in some], schema=schema)
    column = EVERYWHERE if share is None else share.columns.get(name, EVERYWHERE)
    if share is not None and column != EVERYWHERE:
        first = column == FIRST
        mask = share.mask(np.zeros(len(some), np.uint64) if first else hash_columns(rows, [column]))
        some = [each for each, mine in zip(some, mask, strict=True) if mine]
        rows = rows.filter(pa.array(mask))
    copies = np.array([each[2] for each in some], np.int64) if some and len(some[0]) > 2 else None
    return Elements(rows, np.array([each[0] for each in some], np.int64), copies)


def comparable(at: int, row: dict[str, Any]) -> tuple[Any, ...]:
    values = (tuple(map(same, each)) if isinstance(each, list) else same(each)
              for each in row.values())  # fmt: skip
    return at, *values


@pytest.mark.parametrize("again", [True, False])
@FEWER
@given(plan=plans(3), world=worlds(), cuts=CUTS)
def test_what_is_told_is_what_the_definition_says(
    plan: Relation, world: Worlds, cuts: list[int], *, again: bool
) -> None:
    check(plan, world, cuts, again=again)


def check(plan: Relation, world: Worlds, cuts: list[int], *, again: bool = True) -> None:
    definition = Definition(DECLARED, *world)
    streams = [StreamOf(kind, plan) for kind in KINDS]
    expected = [
        [comparable(at, row) for at, row in definition.stream(each, END - 1)] for each in streams
    ]

    assert executed(streams, world, cuts, again=again) == expected


@pytest.mark.slow
@pytest.mark.parametrize("root", [None, "group", "asked", "top", "join", "combined", "derived"])
@MORE
@given(st.data(), worlds(), CUTS)
def test_many_plans_of_each_kind(
    root: Root | None, data: st.DataObject, world: Worlds, cuts: list[int]
) -> None:
    check(data.draw(plans(4 if root is None else 3, root=root)), world, cuts)


@pytest.mark.parametrize(
    ("kind", "again"), [("istream", True), ("dstream", True), ("istream", False)]
)
@FEWER
@given(plan=plans(3), world=worlds(), cuts=CUTS, change=st.integers(1, END))
def test_shards_tell_the_same_together(
    kind: StreamKind, plan: Relation, world: Worlds, cuts: list[int], change: int, *, again: bool
) -> None:
    check_shards(StreamOf(kind, plan), world, cuts, change, again=again)


def check_shards(
    asked: StreamOf,
    world: Worlds,
    cuts: list[int],
    change: int,
    *,
    again: bool = True,
    narrow: bool = True,
) -> None:
    """From the instant `change` on there are 4 shards instead of 2, over the same state."""
    stream = Unnesting(DECLARED).stream(asked)
    assert isinstance(stream, StreamOf)
    columns = Placing(DECLARED).columns(stream)
    if columns is None:
        return
    operators = Plan([stream], DECLARED, columns, again=again)
    stores = dict[str, list[pa.RecordBatch]]()
    told: Told = []
    for begin, end in zip([0, *cuts], cuts, strict=False):
        shares = [
            Share(shard, n, columns) for n in [2 + 2 * (begin >= change)] for shard in range(n)
        ]
        states = [MemoryState(stores, each.keys) for each in shares]
        for share, state in zip(shares, states, strict=True):
            slab = replace(slab_of(world, begin, end, state, share), narrow=narrow)
            told += rows_told(operators.stream(stream, Run(slab)))
            assert share.shard == 0 or all(share.mask(each).all() for each in added(state))
        for state in states:
            state.settle(end)
    definition = Definition(DECLARED, *world)
    expected = definition.stream(asked, END - 1)

    assert Counter(told) == Counter(comparable(at, row) for at, row in expected)


@st.composite
def chains(draw: st.DrawFn) -> Relation:
    """Draw joins of three or four windows by one key, some of whose rows are left out."""

    def leaf(alias: str) -> Relation:
        stream = Source(draw(st.sampled_from(["s", "t"])))
        size = draw(st.integers(0, 6) | st.none())
        window = Windowed(stream, Window("range", size), alias)
        if draw(st.booleans()):
            return window
        return Filter(window, Compare(">", Column(f"{alias}.v"), Literal(0)))

    node = leaf("a")
    for at, alias in enumerate("bcd"[: draw(st.integers(2, 3))], 1):
        partner = draw(st.sampled_from("abcd"[:at]))
        equal = Compare("=", Column(f"{partner}.k"), Column(f"{alias}.k"))
        node = Join("inner", node, leaf(alias), equal)
    return node


@pytest.mark.parametrize("narrow", [True, False])
@SOME
@given(
    plan=chains(),
    kind=st.sampled_from(KINDS),
    world=worlds(),
    cuts=CUTS,
    change=st.integers(1, END),
    sampled=st.sampled_from([1, 512]),
)
def test_joins_of_several_windows_leave_out_nothing_that_counts(
    plan: Relation,
    kind: StreamKind,
    world: Worlds,
    cuts: list[int],
    change: int,
    sampled: int,
    *,
    narrow: bool,
) -> None:
    with patch("millrace.operators.relational.narrowing.SAMPLED", sampled):
        check_shards(StreamOf(kind, plan), world, cuts, change, narrow=narrow)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["istream", "dstream"])
@FEWER
@given(plan=plans(3), world=worlds(), cuts=CUTS, change=st.integers(1, END))
def test_stages_tell_the_same_together(
    kind: StreamKind, plan: Relation, world: Worlds, cuts: list[int], change: int
) -> None:
    """Rows travel between shards; from the instant `change` on there are 4 of them."""
    check_stages(StreamOf(kind, plan), world, cuts, change)


@pytest.mark.slow
@pytest.mark.parametrize("root", [None, "group", "asked", "top", "join", "combined", "derived"])
@SOME
@given(st.data(), worlds(), CUTS, st.integers(1, END))
def test_many_plans_of_each_kind_in_stages(
    root: Root | None, data: st.DataObject, world: Worlds, cuts: list[int], change: int
) -> None:
    plan = data.draw(plans(4 if root is None else 3, root=root))
    check_stages(StreamOf(data.draw(st.sampled_from(KINDS)), plan), world, cuts, change)


def check_stages(asked: StreamOf, world: Worlds, cuts: list[int], change: int) -> None:
    stream = Unnesting(DECLARED).stream(Pushing(DECLARED).stream(asked))
    assert isinstance(stream, StreamOf)
    way = Staging(DECLARED).cut(stream.relation)
    if way is None:
        return
    columns = way.spread.columns()
    assert columns is not None
    stream = replace(stream, relation=way.node)
    operators, stores = Plan([stream], DECLARED, columns), dict[str, list[pa.RecordBatch]]()
    told: Told = []
    for begin, end in zip([0, *cuts], cuts, strict=False):
        n_shards = 2 + 2 * (begin >= change)
        shares = [Share(shard, n_shards, columns) for shard in range(n_shards)]
        states = [MemoryState(stores, each.keys) for each in shares]
        slabs = [slab_of(world, begin, end, *each) for each in zip(states, shares, strict=True)]
        told += told_in_stages(operators, stream, [Run(each) for each in slabs])
        for share, state in zip(shares, states, strict=True):
            assert share.shard == 0 or all(share.mask(each).all() for each in added(state))
        for state in states:
            state.settle(end)
    definition = Definition(DECLARED, *world)
    expected = definition.stream(asked, END - 1)

    assert Counter(told) == Counter(comparable(at, row) for at, row in expected)


def told_in_stages(operators: Plan, stream: StreamOf, runs: list[Run]) -> Told:
    """Run all stages of a slab, one after the other, for all shards."""
    told: Told = []
    travelling: dict[tuple[int, Leg], list[pa.Table]] = {}
    bounds = [N_BUCKETS * shard // len(runs) for shard in range(len(runs) + 1)]
    for stage in range(stage_of(stream) + 1):
        for shard, run in enumerate(runs):
            for leg in operators.legs:
                if leg.hop.number == stage:
                    arrived = travelling.get((shard, leg))
                    table = None if arrived is None else pa.concat_tables(arrived)
                    run.made[leg.name] = leg.received(table)
            for leg in operators.legs:
                if leg.stage == stage:
                    rows = operators.relation(leg.hop, run)
                    for to, table in leg.dealt(rows, run.slab, bounds):
                        travelling.setdefault((to, leg), []).append(table)
            if stage == stage_of(stream):
                told += rows_told(operators.stream(stream, run))
    return told


@dataclass(frozen=True)
class Share:
    """One shard of some, and the column by which each stream and table is spread."""

    shard: int
    n_shards: int
    columns: Mapping[str, str]

    @property
    def keys(self) -> tuple[int, int]:
        width = (1 << 64) // self.n_shards
        return self.shard * width, (self.shard + 1) * width

    def mask(self, hashes: np.ndarray) -> np.ndarray:
        owners = bucket_of(hashes).astype(np.int64) * self.n_shards // N_BUCKETS
        return np.asarray(owners == self.shard)


def added(state: MemoryState) -> list[np.ndarray]:
    """Return the keys of what a shard has added; the first remembers what all have."""
    return [part.column("_key").to_numpy() for parts in state.added.values() for part in parts]


@pytest.mark.parametrize("every", [1, 3, 5])
@FEWER
@given(plans(1), worlds(), CUTS)
def test_a_relation_is_told_at_every_multiple(
    every: int, plan: Relation, world: Worlds, cuts: list[int]
) -> None:
    definition = Definition(DECLARED, *world)
    stream = StreamOf("rstream", plan, every)
    expected = [comparable(at, row) for at, row in definition.stream(stream, END - 1)]

    assert executed([stream], world, cuts) == [expected]
