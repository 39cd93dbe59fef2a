"""Contracts by introspection: whatever is new is tested before its author writes a test.

Access methods have theirs in `tests/unit/index/test_access.py`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from millrace.connectors import sinks
from millrace.connectors.sinks.sink import FANOUTS, FanOut, Sink, Span
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.testing.configurations import CONFIGURATIONS
from millrace.testing.slt_ways import SPARK_WAYS, WAYS

# What a setting has no configuration for: it says when something is done, never what.
TIMING = {"target", "rows", "memory", "trigger", "keep_rejected", "backoff", "merge_at_start"}
PARTS = [name for name, _ in inspect.getmembers(Sink, inspect.isfunction) if name[0] != "_"]


def sink_classes() -> Iterator[type]:
    """Find every class that has all parts of a sink."""
    for module in pkgutil.iter_modules(sinks.__path__, f"{sinks.__name__}."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            own = found.__module__ == module.name and found is not Sink
            if own and all(hasattr(found, part) for part in PARTS):
                yield found


SINKS = list(sink_classes())


def made(kind: type, directory: Path, fan_out: FanOut) -> Any:
    """Make a sink, giving it what it cannot do without by the names of its arguments."""
    known: dict[str, Any] = {"directory": directory, "path": directory, "function": print_nothing}
    needed = [
        name
        for name, each in inspect.signature(kind).parameters.items()
        if each.default is inspect.Parameter.empty
    ]
    return kind(**{name: known[name] for name in needed}, fan_out=fan_out, name="contract")


def print_nothing(*_: object) -> None:
    """Receive results."""


def test_there_are_sinks() -> None:
    assert {each.__name__ for each in SINKS} >= {"MemorySink", "CallbackSink", "ParquetSink"}


@pytest.mark.parametrize("fan_out", FANOUTS)
@pytest.mark.parametrize("kind", SINKS, ids=lambda each: each.__name__)
def test_a_sink_gets_everything_and_leaves_nothing_behind(
    kind: type, fan_out: FanOut, tmp_path: Path
) -> None:
    sink = made(kind, tmp_path / "out", fan_out)
    with Session(MemoryRoot(), threads=False) as session:
        session.stream("s", Feed("i int, at timestamp"), time="at")
        session.query("SELECT i FROM s WHERE i > 1", name="some")
        session.queries(["SELECT i FROM s", "SELECT i FROM s WHERE i < 2"], into="shared")
        session.sink(sink)
        run = session.start()
        assert isinstance(run, LocalRun)
        for first in range(3):
            at = pa.array([0, 0], pa.int64()).cast(pa.timestamp("us", "UTC"))
            run.feed(s=pa.table({"i": pa.array([first, 9], pa.int32()), "at": at}))
        assert session.engine.delivery.drain(10.0)
        (status,) = session.sinks()

    assert (status.name, status.error) == ("contract", "")
    assert status.lag_epochs == 0


@pytest.mark.parametrize("kind", SINKS, ids=lambda each: each.__name__)
def test_an_open_span_is_forgotten_by_open(kind: type, tmp_path: Path) -> None:
    sink = made(kind, tmp_path / "out", "rows")
    table = pa.table({"i": [1], "_epoch": pa.array([0], pa.int64())})

    sink.open(())
    sink.take("some", 0, table)
    sink.open(())
    moves = sink.prepare(Span(0, 1))

    assert moves == ()
    sink.close()


def test_configurations_have_names_of_their_own() -> None:
    for some in (CONFIGURATIONS, (*WAYS, *SPARK_WAYS)):
        names = [each.name for each in some]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [each.name for each in fields(Settings)])
def test_every_setting_that_could_change_an_answer_is_tried(name: str) -> None:
    every = [each for one in CONFIGURATIONS for each in one.settings]
    every += [each.settings for each in (*WAYS, *SPARK_WAYS)]
    tried = {getattr(each, name) for each in every}

    assert len(tried) > 1 or name in TIMING
