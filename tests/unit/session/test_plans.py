"""Standing plans in a session against the definition: cuts, shards, merges and restarts."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.plan.declared import Declared
from millrace.plan.relations import Relation, StreamOf, Table, Windowed
from millrace.plan.scopes import inputs
from millrace.schema import Schema
from millrace.session.planning import sources_of
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.bags import Bagged
from millrace.testing.oracle.relations import Definition, Element
from millrace.testing.relation_strategies import plans
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEWER, MORE = settings(max_examples=max(DRAWN // 5, 1)), settings(max_examples=max(DRAWN, 120))
TIMED = Declared(
    {
        name: Schema((*schema, *Schema.of("ts timestamp")))
        for name, schema in DECLARED.streams.items()
    },
    DECLARED.tables,
)
CONFIGURATIONS = {
    "together": Settings(spread="never"),
    "spread": Settings(shards=2, spread="always"),
    "four shards, merging at once": Settings(shards=4, spread="always", merge_at_start=True),
    "without merging": Settings(shards=2, spread="always", merging=False),
}


def reads_tables(node: Relation) -> bool:
    if isinstance(node, Table):
        return True
    if isinstance(node, Windowed) and isinstance(node.stream, StreamOf):
        return reads_tables(node.stream.relation)
    below = [*inputs(node), *([node.subquery] if hasattr(node, "subquery") else [])]
    return any(map(reads_tables, below))


def timed(elements: list[Element]) -> list[Element]:
    """Give rows their instants as a column, and order those of one instant canonically."""
    rows = [(at, {**row, "ts": at}) for at, row in elements]
    return sorted(rows, key=lambda each: (each[0], Bagged.of(each[1]).place()))


def fed(elements: list[Element], schema: Schema) -> pa.Table:
    rows = [row for _, row in elements]
    plain = pa.schema([pa.field(each.name, pa.int64() if each.name == "ts" else each.type)
                       for each in schema])  # fmt: skip
    return pa.Table.from_pylist(rows, schema=plain).cast(schema.to_arrow())


def comparable(at: int, values: list[Any]) -> tuple[Any, ...]:
    return at, *(tuple(map(same, each)) if isinstance(each, list) else same(instant(each))
                 for each in values)  # fmt: skip


def instant(value: Any) -> Any:
    return round(value.timestamp() * 1e6) if isinstance(value, datetime) else value


PLANS = plans(3).filter(lambda plan: not reads_tables(plan))
CUTS = st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(sorted)


@FEWER
@given(PLANS, worlds(), CUTS, st.integers(0, 5))
def test_a_session_tells_what_the_definition_says(
    tmp_path_factory: pytest.TempPathFactory,
    plan: Relation,
    world: Worlds,
    cuts: list[int],
    restart: int,
) -> None:
    root = tmp_path_factory.mktemp("root")
    check(root, CONFIGURATIONS["spread"], plan, world, [*cuts, END], restart)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@MORE
@given(PLANS, worlds(), CUTS, st.integers(0, 5))
def test_it_does_so_in_every_configuration(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    plan: Relation,
    world: Worlds,
    cuts: list[int],
    restart: int,
) -> None:
    root = tmp_path_factory.mktemp("root")
    check(root, CONFIGURATIONS[name], plan, world, [*cuts, END], restart)


def check(
    root: Path,
    how: Settings,
    plan: Relation,
    world: Worlds,
    ends: list[int],
    restart: int,
) -> None:
    streams = {each: timed(world[0][each]) for each in TIMED.streams}
    assert executed(root, how, plan, streams, ends, restart) == expected(plan, streams)


def expected(plan: Relation, streams: dict[str, list[Element]]) -> Counter[tuple[Any, ...]]:
    """Return what comes and goes from the first element of the plan's streams on."""
    definition, found = Definition(TIMED, streams, {}), Counter[tuple[Any, ...]]()
    sources = set(sources_of(StreamOf("istream", plan)))
    begin = min((at for name in sources for at, _ in streams[name]), default=END)
    for at in range(begin, END):
        came = definition.told(StreamOf("istream" if at > begin else "rstream", plan), at)
        went = definition.told(StreamOf("dstream", plan), at) if at > begin else []
        found.update((1, *comparable(at, [*row.values()])) for row in came)
        found.update((-1, *comparable(at, [*row.values()])) for row in went)
    return found


def executed(
    root: Path,
    settings: Settings,
    plan: Relation,
    streams: dict[str, list[Element]],
    ends: list[int],
    restart: int,
) -> Counter[tuple[Any, ...]]:
    """Feed streams piece by piece, with a new session before one of the pieces."""
    session, query = opened(root, settings, plan)
    run = started(session)
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if number == restart:
            session.close()
            session, query = opened(root, settings, plan)
            run = started(session)
        pieces = {
            each: fed([one for one in streams[each] if begin <= one[0] < end], TIMED.streams[each])
            for each in streams
        }
        run.feed(**pieces)
    last = {each: [(END, {**dict.fromkeys(of.names), "ts": END})]
            for each, of in TIMED.streams.items()}  # fmt: skip
    run.feed(**{each: fed(last[each], TIMED.streams[each]) for each in last})
    answers = query.results()
    session.close()
    times = answers.column("_time").cast(pa.int64()).to_pylist()
    names = [each for each in answers.column_names if not each.startswith("_")]
    rows = answers.select(["_change", *names]).to_pylist()
    return Counter(
        (change, *comparable(at, values))
        for at, (change, *values) in zip(times, (list(row.values()) for row in rows), strict=True)
    )


def started(session: millrace.Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def opened(
    root: Path, settings: Settings, plan: Relation
) -> tuple[millrace.Session, millrace.Query]:
    session = millrace.Session(root, settings=settings)
    for name, schema in TIMED.streams.items():
        session.stream(name, millrace.Feed(), schema=schema, time="ts")
    return session, session.query(plan, name="plan", unbounded=True)
