"""How long births last whose windows are of sizes that queries choose."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import millrace
from millrace.engine import facts
from millrace.engine.ageing import LONGEST, lasting, longest
from millrace.engine.births import Birth, Births
from millrace.engine.local import LocalRun
from millrace.engine.plans import PlanSpec
from millrace.engine.query_rows import QueryRows, queries_spec
from millrace.engine.settings import Settings
from millrace.plan.expressions import Arithmetic, Literal, Parameter
from millrace.plan.family_bounds import horizon, spans
from millrace.plan.relations import Join, Relation, Source, StreamOf, Table, Window, Windowed
from millrace.state.memory_root import MemoryRoot

SIZE = Parameter(0, "bigint")
TEXTS = {
    "panes": "SELECT RSTREAM(count(*) AS n) EVERY 2 us FROM s [RANGE :w us]",
    "slides": "SELECT count(*) AS n FROM s [RANGE 4 us SLIDE :w us]",
    "join": "SELECT ISTREAM(a.k) FROM s [RANGE :w us] a, s [RANGE 3 us] b WHERE a.k = b.k",
}


def window(size: int | Parameter, slide: int | None = None) -> Windowed:
    return Windowed(Source("s"), Window("range", size, slide=slide), "s")


@pytest.mark.parametrize(
    ("relation", "expected", "fixed"),
    [
        (window(10), ((10, 1, 0),), 11),
        (window(SIZE, 2), ((SIZE, 1, 2),), None),
        (Join("inner", window(3), window(SIZE)), ((3, 1, 0), (SIZE, 1, 0)), None),
        (
            Windowed(StreamOf("istream", window(SIZE)), Window("range", 5), "t"),
            ((SIZE, 1, 0, 1, 5, 1, 0),),
            None,
        ),
        (Windowed(StreamOf("istream", window(4)), Window("range", 5), "t"), None, 12),
        (Table("t", "t"), (), 0),
        (Windowed(Source("s"), Window("rows", 3), "s"), None, None),
    ],
)
def test_a_relation_forgets_after_the_longest_of_its_windows(
    relation: Relation, expected: object, fixed: int | None
) -> None:
    assert horizon(relation) == fixed
    assert expected is None or spans(relation) == expected


def test_the_longest_span_of_any_query_counts() -> None:
    twice = Arithmetic("*", SIZE, Literal(2))
    sizes = pa.record_batch({"p0": pa.array([4, None, -7, 9], pa.int64())})

    assert longest([(SIZE, 1, 0), (twice, 3)], sizes) == 21
    assert longest([(SIZE, 1)], sizes.slice(1, 1)) == 1
    assert longest([(SIZE, 1)], sizes.slice(0, 0)) == 0
    assert longest([(SIZE, SIZE, 1)], pa.record_batch({"p0": [2**62]})) == 2 * LONGEST + 1


def test_a_birth_lasts_as_long_as_its_queries_and_as_elder_ones_that_are_not_of_age() -> None:
    plan = PlanSpec((), (), parameters=("bigint",), spans=((SIZE, 1),))
    table, root = QueryRows(queries_spec("queries", plan.parameter_types), 0), MemoryRoot()
    for sequence, size in ((3, 100), (8, 10), (11, 40)):
        sizes = pa.record_batch({"p0": pa.array([size], pa.int64())})
        table.add(sequence, np.array([sequence], np.uint64), sizes)
    files, first = table.publish(root), Birth(7, 0, None, 100, lasts=101)

    assert lasting(root, plan, files, Births(0)) == 101
    assert lasting(root, plan, files, Births(0, added=7, grown=7)) == 41
    assert lasting(root, plan, files, Births(0, (first,), added=7)) == 101


def test_births_are_of_age_when_their_own_windows_have_forgotten() -> None:
    births = Births(0).after([3], Birth(7, 0, None, 100, lasts=50), None).taken(7)
    births = births.after([3, 8], Birth(9, 4, 130, 120, lasts=5), 120).taken(9)

    assert births.eldest == 7
    assert [each.until for each in births.after([3, 8], None, 135).alive] == [9]
    assert births.after([3, 8], None, 136).alive == ()


@pytest.mark.parametrize("text", TEXTS)
def test_births_of_any_sizes_become_one(text: str) -> None:
    root, settings = MemoryRoot(), Settings(shards=2, spread="always", backoff=0)

    def opened() -> tuple[millrace.Session, LocalRun]:
        session = millrace.Session(root, threads=False, settings=settings)
        session.stream("s", millrace.Feed("k int, ts timestamp"), time="ts")
        session.template("sized", TEXTS[text], w="bigint", keep=100)
        run = session.start()
        assert isinstance(run, LocalRun)
        return session, run

    session, run = opened()
    n_alive, told = [], []
    for epoch in range(20):
        if epoch == 9:
            session.close()
            session, run = opened()
        template = session.standing("sized")
        assert isinstance(template, millrace.Template)
        template.insert({"w": [2 + 2 * (epoch % 3)]})
        stamps = pa.array([4 * epoch, 4 * epoch + 2], pa.timestamp("us", tz="UTC"))
        run.feed(s=pa.table({"k": pa.array([1, 2], pa.int32()), "ts": stamps}))
        births = facts.births(session.engine.manifest, session.engine.registry.catalog)["sized"]
        n_alive.append(len(Births.from_json(births).alive))
        told.append(template.results().num_rows)

    assert max(n_alive) <= 5
    assert told[-1] > told[9] > 0
    session.close()
