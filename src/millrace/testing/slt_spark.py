"""Runs many `.slt` files on Spark at once: one session, one streaming query, a stream for each.

The files go in step. What stands before the first instant of each is done first; then all first
instants arrive together, as one Parquet file a stream; then what stands before the second, and so
on. Names are made different by the number of the file: `trades` of file 3 is `trades_3` here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from millrace.connectors.files import Files
from millrace.connectors.sinks import MemorySink
from millrace.connectors.sinks.sink import FANOUTS
from millrace.engine.streams import StreamSpec
from millrace.plan.nodes import Selection
from millrace.schema import Schema
from millrace.session import Session
from millrace.session import Template as SessionTemplate
from millrace.testing.slt import PLACE, TIME, read_script
from millrace.testing.slt_answers import Ledger
from millrace.testing.slt_functions import FUNCTIONS
from millrace.testing.slt_inprocess import batch_of, change_table
from millrace.testing.slt_report import Answers
from millrace.testing.slt_runner import Fed, Runner
from millrace.testing.slt_ways import SparkWay
from millrace.testing.spark_rows import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_QUOTED = re.compile(r"('(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")")


class Stage:
    """One session on Spark that many files share."""

    def __init__(self, directory: Path, spark: SparkSession, way: SparkWay) -> None:
        self.input, self._spark, self._by_files = directory / "in", spark, way.by_files
        self.session = Session(directory / "root", spark=spark, settings=way.settings)
        self.ledger = Ledger()
        self.n_rows = 0
        self._sinks = [MemorySink(name=form, fan_out=form) for form in FANOUTS]
        self._started = False
        for name, function in FUNCTIONS.items():
            self.session.function(name, function, returns=function.returns)
        for sink in self._sinks:
            self.session.sink(sink)

    def source(self, name: str, schema: Schema) -> DataFrame | Files:
        """Return a source of the files that are written for a stream: their names, or rows."""
        from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415

        if self._by_files:
            return Files(str(self.input / name / "*.parquet"))
        columns = from_arrow_schema(schema.to_arrow())
        return self._spark.readStream.schema(columns).name(name).parquet(str(self.input / name))

    def settle(self) -> None:
        """Wait until all rows have been taken and all their answers delivered."""
        if not self._started:
            self.session.start()
            self._started = True
        session = self.session
        wait_until(
            lambda: session.engine.manifest.facts.get("counts", {}).get("rows", 0) >= self.n_rows,
            describe=lambda: (session.engine.manifest.facts.get("counts"), self.n_rows),
        )
        last = session.engine.manifest.epoch
        wait_until(lambda: session.engine.delivery.epoch >= last)
        session.engine.delivery.drain(30.0)
        self.ledger.take(self._sinks, session)

    def close(self) -> None:
        """End."""
        self.session.close(drain=0)


class SparkDriver:
    """Drives the part of a stage that belongs to one file."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage, self._number = stage, number
        self._streams: dict[str, Schema] = {}
        self._others: list[str] = []
        self._n_files = 0
        self._found: Answers = {}

    def declare(self, name: str, schema: Schema, delay: str) -> StreamSpec:
        """Declare a stream."""
        session, ours = self._stage.session, self._ours(name)
        (self._stage.input / ours).mkdir(parents=True, exist_ok=True)
        source = self._stage.source(ours, schema)
        session.stream(ours, source, schema=schema, time=TIME, order=PLACE, delay=delay or 0)
        self._streams[name] = schema
        return replace(session.engine.registry.catalog.stream(ours), name=name)

    def table(self, name: str, schema: Schema) -> None:
        """Declare a table."""
        self._others.append(name)
        self._stage.session.table(self._ours(name), schema)

    def view(self, name: str, text: str) -> None:
        """Declare a view."""
        self._stage.session.view(self._ours(name), self._renamed(text))
        self._others.append(name)

    def change_table(self, name: str, rows: Sequence[dict[str, Any]], copies: int) -> None:
        """Insert rows into a table, or delete them."""
        change_table(self._stage.session, self._ours(name), rows, copies)

    def ask(self, name: str, asked: str | Selection, into: str) -> None:
        """Register a query."""
        assert isinstance(asked, str), "on Spark, queries are asked as texts"
        query = self._stage.session.query(
            self._renamed(asked),
            name=self._ours(name),
            into=self._ours(into) if into else None,
            unbounded=True,
        )
        self._stage.ledger.owner(query.id, self._ours(name), query.feed.name)

    def template(self, name: str, text: str, parameters: dict[str, str]) -> None:
        """Declare a template."""
        self._stage.session.template(
            self._ours(name), self._renamed(text), parameters, unbounded=True
        )

    def insert(self, name: str, rows: pa.Table, labels: Sequence[str]) -> None:
        """Insert queries into a template."""
        ids = self._template(name).insert(rows)
        for qid, label in zip(ids.to_pylist(), labels, strict=True):
            self._stage.ledger.owner(qid, self._ours(label), self._ours(name))

    def update(self, name: str, label: str, rows: pa.Table) -> None:
        """Give a query of a template other constants."""
        ids = pa.array([self._stage.ledger.qid(self._ours(label))], pa.int64())
        self._template(name).update(rows.append_column("_query", ids))

    def change(self, what: str, name: str) -> None:
        """Pause, resume or drop a query or a template."""
        template, _, number = name.partition("#")
        if not number:
            getattr(self._stage.session.standing(self._ours(name)), what)()
            return
        qid = self._stage.ledger.qid(self._ours(name))
        if what in ("delete", "drop"):
            self._template(template).delete([qid])
        else:
            getattr(self._template(template).query(qid), what)()

    def feed(self, epochs: Sequence[Sequence[Fed]]) -> None:
        """Write the rows of each stream as a file."""
        for rows in epochs:
            for stream in dict.fromkeys(name for name, _ in rows):
                mine = [row for name, row in rows if name == stream]
                table = pa.Table.from_batches([batch_of(mine, self._streams[stream])])
                directory = self._stage.input / self._ours(stream)
                hidden = directory / f".{self._n_files:06d}"
                pq.write_table(table, hidden)
                hidden.rename(directory / f"{self._n_files:06d}.parquet")
                self._n_files += 1
                self._stage.n_rows += len(mine)

    def collect(self) -> Answers:
        """Return what this file's queries have answered; the stage has settled before."""
        found, self._found = self._found, {}
        return found

    def take(self, answers: Answers) -> None:
        """Take this file's part of what the stage has collected."""
        ending = f"_{self._number}"
        for name, some in answers.items():
            plain, _, label = name.partition("#")
            if plain.endswith(ending):
                own = plain.removesuffix(ending) + (f"#{label}" if label else "")
                self._found.setdefault(own, []).extend(some)

    def _ours(self, name: str) -> str:
        plain, _, label = name.partition("#")
        return f"{plain}_{self._number}" + (f"#{label}" if label else "")

    def _template(self, name: str) -> SessionTemplate:
        found = self._stage.session.standing(self._ours(name))
        assert isinstance(found, SessionTemplate), f"{name} is a template"
        return found

    def _renamed(self, text: str) -> str:
        """Give what a query reads the names it has here; what is quoted stays, and `5 s`."""
        parts = _QUOTED.split(text)
        for name in (*self._streams, *self._others):
            word = re.compile(rf"(?<!\d\s)\b{name}\b", re.IGNORECASE)
            parts[::2] = [word.sub(self._ours(name), each) for each in parts[::2]]
        return "".join(parts)


def run_together(paths: Sequence[Path], stage: Stage, way: SparkWay) -> list[str]:
    """Run files in step; return what is wrong, but for messages, which name other names here."""
    drivers = [SparkDriver(stage, number) for number in range(len(paths))]
    runners = [
        Runner(read_script(path), way, driver) for path, driver in zip(paths, drivers, strict=True)
    ]
    waiting = [runner.stretches() for runner in runners]
    while True:
        sent = []
        for runner, stretches in zip(runners, waiting, strict=True):
            for together in stretches:
                instants = runner.perform(together)
                if instants:
                    runner.send(instants)
                    sent.append((runner, instants))
                    break
        if not sent:
            break
        stage.settle()
        answers = stage.ledger.collect()
        for driver in drivers:
            driver.take(answers)
        for runner, instants in sent:
            runner.collect(instants)
    for runner in runners:
        runner.judge()
    return [
        problem
        for runner in runners
        for problem in runner.report.problems + runner.report.open_to_doubt
        if "was refused otherwise" not in problem
    ]
