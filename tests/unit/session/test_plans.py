"""Standing plans in a session against the definition: cuts, shards, merges and restarts."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import millrace
from millrace.engine.facts import frontiers
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.plan.declared import Declared
from millrace.plan.relations import Relation, StreamOf
from millrace.schema import Schema
from millrace.session.planning import sources_of
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.bags import Bagged
from millrace.testing.oracle.relations import Definition, Element
from millrace.testing.relation_strategies import plans
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 3
Taken = dict[str, list[tuple[int | None, dict[str, Any], int]]]
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


def reads_a_stream(plan: Relation) -> bool:
    return any(sources_of(StreamOf("istream", plan)))


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


@pytest.mark.parametrize("name", CONFIGURATIONS)
@given(
    plans(3).filter(reads_a_stream),
    worlds(),
    st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(sorted),
    st.integers(0, 5),
)
def test_a_session_tells_what_the_definition_says(
    name: str,
    plan: Relation,
    world: Worlds,
    cuts: list[int],
    restart: int,
) -> None:
    streams = {each: timed(world[0][each]) for each in TIMED.streams}
    given = streams, world[1]
    told, changes = executed(MemoryRoot(), CONFIGURATIONS[name], plan, given, [*cuts, END], restart)

    assert told == expected(plan, streams, changes)


def expected(
    plan: Relation, streams: dict[str, list[Element]], changes: Taken
) -> Counter[tuple[Any, ...]]:
    """Return what comes and goes from the first element of the plan's streams on.

    Changes of tables are given with the instants at which they took effect: None is the first.
    """
    sources = set(sources_of(StreamOf("istream", plan)))
    begin = min((at for name in sources for at, _ in streams[name]), default=END)
    tables = {
        name: [(begin if at is None else at, row, copies) for at, row, copies in some]
        for name, some in changes.items()
    }
    definition, found = Definition(TIMED, streams, tables), Counter[tuple[Any, ...]]()
    for at in range(begin, END):
        came = definition.told(StreamOf("istream" if at > begin else "rstream", plan), at)
        went = definition.told(StreamOf("dstream", plan), at) if at > begin else []
        found.update((1, *comparable(at, [*row.values()])) for row in came)
        found.update((-1, *comparable(at, [*row.values()])) for row in went)
    return found


def executed(
    root: Root,
    settings: Settings,
    plan: Relation,
    world: Worlds,
    ends: list[int],
    restart: int,
) -> tuple[Counter[tuple[Any, ...]], Taken]:
    """Feed streams piece by piece, with a new session before one of the pieces.

    The changes of tables that belong to a piece are made before it.
    """
    streams, tables = world
    session, query = opened(root, settings, plan)
    run = started(session)
    taken: Taken = {name: [] for name in tables}
    for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if number == restart:
            session.close()
            session, query = opened(root, settings, plan)
            run = started(session)
        for name, changes in tables.items():
            some = [each for each in changes if begin <= each[0] < end]
            taken[name] += [changed(session, name, *each[1:]) for each in some]
        pieces = {
            each: fed([one for one in streams[each] if begin <= one[0] < end], TIMED.streams[each])
            for each in streams
        }
        run.feed(**pieces)
    last = {each: [(END, {**dict.fromkeys(of.names), "ts": END})]
            for each, of in TIMED.streams.items()}  # fmt: skip
    run.feed(**{each: fed(last[each], TIMED.streams[each]) for each in last})
    answers = query.results()
    assert query.failure is None, query.failure
    session.close()
    times = answers.column("_time").cast(pa.int64()).to_pylist()
    names = [each for each in answers.column_names if not each.startswith("_")]
    rows = answers.select(["_change", *names]).to_pylist()
    told = Counter(
        (change, *comparable(at, values))
        for at, (change, *values) in zip(times, (list(row.values()) for row in rows), strict=True)
    )
    return told, taken


def changed(
    session: millrace.Session, name: str, row: dict[str, Any], copies: int
) -> tuple[int | None, dict[str, Any], int]:
    """Change a table; return the change with the instant from which on the plan sees it."""
    table, rows = session.standing_table(name), one_row(row, TIMED.tables[name])
    table.insert(rows) if copies > 0 else table.delete(rows)
    engine = session.engine
    return frontiers(engine.manifest, engine.registry.catalog).get("plan"), row, copies


def one_row(row: dict[str, Any], schema: Schema) -> pa.Table:
    return pa.Table.from_pylist([row], schema=schema.to_arrow())


def started(session: millrace.Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def opened(
    root: Root, settings: Settings, plan: Relation
) -> tuple[millrace.Session, millrace.Query]:
    session = millrace.Session(root, settings=settings)
    for name, schema in TIMED.streams.items():
        session.stream(name, millrace.Feed(), schema=schema, time="ts")
    for name, schema in TIMED.tables.items():
        session.table(name, schema)
    return session, session.query(plan, name="plan")
