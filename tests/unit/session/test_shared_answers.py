"""Answers of a family of joins that share rows: whoever reads them gets what they would have."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

import millrace
from millrace.connectors.sinks.memory import MemorySink
from millrace.connectors.sinks.sink import FanOut
from millrace.engine.keeping import passed_runs
from millrace.engine.local import LocalRun
from millrace.engine.plans import PlanSpec
from millrace.engine.properties import told_by_parts
from millrace.engine.settings import Settings
from millrace.engine.store_sizes import StoreSizes
from millrace.engine.stores import answer_store, answers_in, holds_sets
from millrace.reading.changes import changes
from millrace.reading.reader import Reader
from millrace.server.work_views import Costs
from millrace.state.memory_root import MemoryRoot

STAMPED = "SELECT ISTREAM(r.k, r.a, s.c, r.ts AS came, s.ts AS met)"
BARE = "SELECT ISTREAM(r.k, s.c)"
JOIN = " FROM r [RANGE 4 SECONDS], s [RANGE 4 SECONDS] WHERE r.k = s.k AND r.a > :low"
SHARED = Settings(shards=2, spread="always", backoff=0)
APART = Settings(shards=2, spread="always", sets=False, backoff=0)
STREAMS = {"r": "k bigint, a bigint, ts timestamp", "s": "k bigint, c text, ts timestamp"}


class Running:
    """A session with a family of joins, and sinks in two forms."""

    def __init__(self, how: Settings, text: str = STAMPED + JOIN, **kept: Any) -> None:
        self.session = millrace.Session(MemoryRoot(), threads=False, settings=how)
        for name, columns in STREAMS.items():
            self.session.stream(name, millrace.Feed(columns), time="ts", delay="0 seconds")
        self.template = self.session.template("family", text, low="bigint", **kept)
        self.rows, self.sets = MemorySink(name="rows"), MemorySink(name="sets", fan_out="sets")
        self.session.sink(self.rows)
        self.session.sink(self.sets)
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run
        self.ids: list[int] = self.template.insert({"low": [-1, 3, 7, 99]}).to_pylist()
        self.told: list[dict[str, int]] = []

    def play(self, *begins: int) -> Running:
        """Feed rows of a few keys, two of each instant, from some seconds on."""
        for begin in begins or (0, 8, 30):
            numbers = range(12)
            stamps = pa.array([(begin + each // 2) * 1_000_000 for each in numbers])
            columns = {"k": [each % 3 for each in numbers], "ts": stamps.cast(pa.timestamp("us"))}
            r = pa.table({**columns, "a": list(numbers)})
            s = pa.table({**columns, "c": [f"c{each % 2}" for each in numbers]})
            self.told.append(self.run.feed(r=r, s=s).results_by_query)
        return self

    def changes(self, qid: int) -> pa.Table:
        """Return what a query was told after the first epoch."""
        engine = self.session.engine
        return changes(engine.root, engine.manifest, self.template.feed, qid, 0)[0]

    def closed(self) -> Running:
        self.session.close()
        return self


def pairs_in(told: pa.Table) -> Counter[tuple[Any, ...]]:
    """Count rows with each of their queries, in whatever form they are told."""
    names = [each for each in told.column_names if each not in ("_query", "_queries")]
    return Counter(
        (query, *(row[name] for name in names))
        for row in told.to_pylist()
        for query in (row["_queries"] if "_queries" in row else [row["_query"]])
    )


@pytest.mark.parametrize("text", [STAMPED + JOIN, BARE + JOIN])
def test_readers_cannot_tell_that_rows_are_shared(text: str) -> None:
    shared, apart = (Running(how, text, keep=1_000).play() for how in (SHARED, APART))
    [last, dropped] = shared.ids[2], shared.ids[1]
    results = [each.template.results() for each in (shared, apart)]
    mine = [each.template.query(last).results() for each in (shared, apart)]
    newer = [each.changes(last) for each in (shared, apart)]
    for each in (shared, apart):
        each.template.delete([dropped])
        each.play(60).closed()

    assert holds_sets(answer_store(shared.template.feed, "rows"))
    assert not holds_sets(answer_store(apart.template.feed, "rows"))
    assert results[0].num_rows > 50
    assert results[0].equals(results[1])
    assert mine[0].num_rows > 5
    assert mine[0].equals(mine[1])
    assert newer[0].num_rows > 0
    assert newer[0].equals(newer[1])
    assert shared.rows.table("family").equals(apart.rows.table("family"))


def test_sets_are_told_as_sets() -> None:
    running = Running(SHARED).play().closed()
    rows, sets = running.rows.table("family"), running.sets.table("family")

    assert 0 < sets.num_rows < rows.num_rows
    assert pairs_in(sets) == pairs_in(rows)
    assert all(each == sorted({*each}) for each in sets["_queries"].to_pylist())


def test_answers_are_counted_by_query_and_not_by_row() -> None:
    shared, apart = (Running(how).play() for how in (SHARED, APART))
    told = [sum(each.get("family", 0) for each in running.told) for running in (shared, apart)]

    assert holds_sets(answer_store(shared.template.feed, "rows"))
    assert shared.told == apart.told
    assert told[0] == shared.closed().rows.table("family").num_rows > 50


@pytest.mark.parametrize(
    ("needed", "passed"), [((3, 2), {1}), ((2, 3), {1}), ((None, 3), {1, 2}), ((3, None), {1, 2})]
)
def test_a_row_stays_until_sinks_of_both_forms_have_it(
    needed: tuple[int | None, int | None], passed: set[int]
) -> None:
    running = Running(SHARED, keep=0).play(0, 8, 30, 60)
    engine, store = running.session.engine, answer_store(running.template.feed, "rows")
    forms: dict[FanOut, int | None] = dict(zip(("rows", "sets"), needed, strict=True))

    kept = passed_runs(engine.manifest, engine.registry.catalog, lambda _, form: forms[form])

    assert {run.epoch for run in kept[store].old} == passed


def test_gateways_count_answers_by_query() -> None:
    counted = []
    for how in (SHARED, APART):
        running = Running(how, keep=1_000).play()
        with closing(Reader(running.session.engine.root)) as reader:
            reader.follow()
            costs = Costs(reader)
            costs.follow()
            counted.append([costs.of(running.template.feed, each)[0] for each in running.ids])

    assert counted[0] == counted[1]
    assert counted[0][0] > counted[0][2] > 0
    assert counted[0][3] == 0


def test_queues_of_answers_are_no_stores_to_be_told_of() -> None:
    engine = Running(SHARED).play().session.engine

    parts = told_by_parts(engine, StoreSizes().of(engine.manifest), {})
    told = {each.name for each in parts if each.type == "store"}

    assert {each for each in told if answers_in(each) is not None} == set()
    assert any(each.startswith("elements/") for each in told)


def test_what_is_retained_by_time_is_stored_by_query() -> None:
    running = Running(SHARED, retain="1 hour").play()

    assert running.template.feed.plan is not None
    assert running.template.feed.plan.sharing is not None
    assert not running.template.feed.stores_sets
    assert running.template.query(running.ids[0]).results().num_rows > 5


def test_what_names_a_parameter_is_stored_by_query() -> None:
    running = Running(SHARED, "SELECT ISTREAM(r.k, :low AS low)" + JOIN, keep=1_000).play()

    assert not running.template.feed.stores_sets
    lows = {row["_query"]: row["low"] for row in running.template.results().to_pylist()}
    assert lows == dict(zip(running.ids[:3], [-1, 3, 7], strict=True))


def test_templates_of_earlier_roots_go_on_as_they_were() -> None:
    plan = Running(SHARED).template.feed.plan
    assert plan is not None
    assert plan.sharing is not None
    spelt = plan.to_json()
    spelt["sharing"] = spelt["sharing"][:2]

    found = PlanSpec.from_json(spelt).sharing

    assert found is not None
    assert (found.strategy, found.sets) == (plan.sharing.strategy, False)
