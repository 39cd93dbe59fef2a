"""Statistics add up: to what the oracle counts, and to what the manifest holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import millrace
from millrace.connectors.sinks.memory import MemorySink
from millrace.connectors.sinks.sink import FanOut
from millrace.engine.local import LocalRun
from millrace.engine.statistics import EpochStatistics
from millrace.state.memory_root import MemoryRoot
from millrace.testing.configurations import CONFIGURATIONS, Configuration
from millrace.testing.harness import Process, conditions
from millrace.testing.scenario import Scenario

N_EPOCHS = 12


@pytest.mark.parametrize("how", CONFIGURATIONS[:5], ids=lambda how: how.name)
def test_statistics_of_all_epochs_add_up_to_the_totals(how: Configuration, tmp_path: Path) -> None:
    scenario = Scenario(N_EPOCHS)
    with conditions(how):
        process = Process(scenario, how, MemoryRoot(), tmp_path, 0)
        for epoch in range(N_EPOCHS):
            process.step(epoch)
    listed = process.session.statistics()
    manifest = process.engine.manifest

    assert [each.epoch for each in listed] == list(range(N_EPOCHS))
    for name in ("rows", "late", "dead", "results"):
        assert sum(getattr(each, name) for each in listed) == manifest.facts["counts"][name]
    fed = [
        sum(len(rows) for parts in scenario.arrivals(each).values() for rows in parts.values())
        for each in range(N_EPOCHS)
    ]
    assert [each.rows for each in listed] == fed
    for each in listed:
        assert sum(each.rows_by_stream.values()) == each.rows
        assert sum(each.results_by_query.values()) == each.results
        assert 0 < each.seconds["run"] <= each.total_seconds
        assert {"decide", "commit", "sort", "write"} <= set(each.seconds)
        assert not each.rows or {"receive", "select", "retain"} <= set(each.seconds)


@pytest.mark.parametrize("form", ["rows", "counts", "sets"])
def test_answers_count_for_each_query_in_whichever_form_they_are_told(form: FanOut) -> None:
    with millrace.Session(MemoryRoot(), threads=False) as session:
        session.stream("trades", millrace.Feed("price bigint, ts timestamp"), time="ts")
        text = "SELECT price FROM trades WHERE price > :low"
        template = session.template("above", text, low="bigint", keep=0)
        session.sink(MemorySink(name="told", fan_out=form))
        template.insert({"low": [0, 2, 99]})
        run = session.start()
        assert isinstance(run, LocalRun)
        stamps = pa.array([1, 2, 3], pa.timestamp("us"))
        counted = run.feed(trades=pa.table({"price": [1, 2, 3], "ts": stamps}))

    assert counted.results_by_query == {"above": 4}
    assert counted.results == 4


def test_statistics_survive_json() -> None:
    made = EpochStatistics(3, 1, 77, spread=True, rows_by_stream={"s": 2}, seconds={"run": 0.5})

    assert EpochStatistics.from_json(made.to_json()) == made
    assert made.total_seconds == 0.5
