"""Runs the steps of a `.slt` file in this process, on a root in memory.

A program that is to crash is abandoned after every call and its root taken away; the next one
opens the same files, and has to find everything but streams and functions there.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pyarrow as pa

from millrace.connectors.sinks import MemorySink
from millrace.connectors.sinks.sink import FANOUTS
from millrace.engine.arrivals import from_rows
from millrace.engine.inprocess import InProcess, Task
from millrace.engine.local import Feed
from millrace.engine.streams import StreamSpec
from millrace.plan.nodes import Selection
from millrace.schema import Schema
from millrace.session import Query, Session
from millrace.session import Template as SessionTemplate
from millrace.state.memory_root import MemoryRoot
from millrace.testing.mortal_root import MortalRoot
from millrace.testing.slt import PLACE, TIME
from millrace.testing.slt_answers import Ledger
from millrace.testing.slt_functions import FUNCTIONS
from millrace.testing.slt_report import Answers
from millrace.testing.slt_runner import Fed
from millrace.testing.slt_ways import Way
from millrace.time import ManualClock


class InProcessDriver:
    """Drives sessions on one root, one after the other if they crash."""

    def __init__(self, way: Way) -> None:
        self._way, self._files = way, MemoryRoot()
        self._random = Random(way.name)
        self._streams: dict[str, tuple[Schema, str]] = {}
        self._ledger = Ledger()
        self._started = False
        self._open()

    def declare(self, name: str, schema: Schema, delay: str) -> StreamSpec:
        """Declare a stream."""
        self._declare(name, schema, delay)
        self._streams[name] = schema, delay
        return self._session.engine.registry.catalog.stream(name)

    def table(self, name: str, schema: Schema) -> None:
        """Declare a table."""
        self._session.table(name, schema)
        self._crash()

    def view(self, name: str, text: str) -> None:
        """Declare a view."""
        self._session.view(name, text)
        self._crash()

    def change_table(self, name: str, rows: Sequence[dict[str, Any]], copies: int) -> None:
        """Insert rows into a table, or delete them."""
        change_table(self._session, name, rows, copies)
        self._crash()

    def ask(self, name: str, asked: str | Selection, into: str) -> None:
        """Register a query."""
        query = self._session.query(asked, name=name, into=into or None, unbounded=True)
        self._ledger.owner(query.id, name, query.feed.name)
        self._crash()

    def template(self, name: str, text: str, parameters: dict[str, str]) -> None:
        """Declare a template."""
        self._session.template(name, text, parameters, unbounded=True)
        self._crash()

    def insert(self, name: str, rows: pa.Table, labels: Sequence[str]) -> None:
        """Insert queries into a template."""
        ids = self._template(name).insert(rows)
        for qid, label in zip(ids.to_pylist(), labels, strict=True):
            self._ledger.owner(qid, label, name)
        self._crash()

    def update(self, name: str, label: str, rows: pa.Table) -> None:
        """Give a query of a template other constants."""
        ids = pa.array([self._ledger.qid(label)], pa.int64())
        self._template(name).update(rows.append_column("_query", ids))
        self._crash()

    def change(self, what: str, name: str) -> None:
        """Pause, resume or drop a query or a template."""
        found: Query | SessionTemplate
        template, _, number = name.partition("#")
        if not number:
            found = self._session.standing(name)
        elif what in ("delete", "drop"):
            self._template(template).delete([self._ledger.qid(name)])
            self._crash()
            return
        else:
            found = self._template(template).query(self._ledger.qid(name))
        getattr(found, what)()
        self._crash()

    def feed(self, epochs: Sequence[Sequence[Fed]]) -> None:
        """Run epochs over rows."""
        for rows in epochs:
            self._start()
            engine = self._session.engine
            execution = InProcess(engine.root, self._tasks(rows), FUNCTIONS)
            engine.run(execution.identity(engine.manifest.epoch + 1), execution)
            engine.delivery.pump()
            self._ledger.take(self._sinks, self._session)
            self._crash()

    def collect(self) -> Answers:
        """Return what was answered since it was last asked."""
        return self._ledger.collect()

    def close(self) -> None:
        """End."""
        self._session.close()

    def _template(self, name: str) -> SessionTemplate:
        found = self._session.standing(name)
        assert isinstance(found, SessionTemplate), f"{name} is a template"
        return found

    def _tasks(self, rows: Sequence[Fed]) -> list[Task]:
        """Deal the rows of each stream out to tasks; each gets a stretch of them."""
        tasks = []
        for stream in dict.fromkeys(name for name, _ in rows):
            spec = self._session.engine.registry.catalog.stream(stream)
            mine = [row for name, row in rows if name == stream]
            n_tasks = self._random.randint(1, min(self._way.n_tasks, len(mine)))
            cuts = sorted(self._random.sample(range(1, len(mine)), n_tasks - 1))
            for first, stop in zip([0, *cuts], [*cuts, len(mine)], strict=True):
                batch = batch_of(mine[first:stop], spec.schema)
                tasks.append(Task(stream, [from_rows(spec, batch, origin="slt")]))
        return tasks

    def _declare(self, name: str, schema: Schema, delay: str) -> None:
        self._session.stream(name, Feed(schema), time=TIME, order=PLACE, delay=delay or 0)

    def _open(self) -> None:
        self._root = MortalRoot(self._files)
        self._session = Session(
            self._root, clock=ManualClock(), threads=False, settings=self._way.settings
        )
        for name, function in FUNCTIONS.items():
            self._session.function(name, function, returns=function.returns)
        for name, (schema, delay) in self._streams.items():
            self._declare(name, schema, delay)
        self._sinks = [MemorySink(name=form, durable=True, fan_out=form) for form in FANOUTS]
        self._ledger.forget_sinks()
        for sink in self._sinks:
            self._session.sink(sink)
        if self._started or self._way.shuffled:
            self._start(again=True)

    def _start(self, *, again: bool = False) -> None:
        """Begin to run, so that whatever is registered from now on has an epoch of its own."""
        if again or not self._started:
            self._session.start()
        self._started = True

    def _crash(self) -> None:
        if self._way.crashes:
            self._root.die()
            self._open()


def change_table(session: Session, name: str, rows: Sequence[dict[str, Any]], copies: int) -> None:
    """Insert rows into a table, or, if the copies are below zero, delete them."""
    table, schema = session.standing_table(name), session.engine.registry.catalog.table(name).schema
    given = pa.Table.from_batches([batch_of(rows, schema)])
    table.insert(given) if copies > 0 else table.delete(given)


def batch_of(rows: Sequence[dict[str, Any]], schema: Schema) -> pa.RecordBatch:
    """Return rows as a batch; times are microseconds."""
    return pa.RecordBatch.from_arrays(
        [_column([row[each.name] for row in rows], each.type) for each in schema],
        schema=schema.to_arrow(),
    )


def _column(values: list[Any], arrow: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(arrow) and any(isinstance(each, int) for each in values):
        return pa.array(values, pa.int64()).cast(arrow)
    return pa.array(values, arrow)
