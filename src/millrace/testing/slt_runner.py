"""Running a `.slt` file in one way: statements and rows to the engine, its answers to the judges.

There are two judges. The oracle says what standing queries mean (`slt_world`); the file says what
its author expects. What is found must please both, and be told alike by all three forms of answers
of selections: rows, counts and sets. What other queries answer is judged at the end, since it is
told with its instants and does not depend on when it is told.

With `bless`, what the file expects is written anew as it was found, unless the oracle disagrees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import groupby, pairwise
from random import Random
from typing import Any, Protocol

import pyarrow as pa

from millrace.errors import MillraceError
from millrace.lang.errors import LanguageError
from millrace.lang.queries import query_of
from millrace.lang.relational.context import View
from millrace.plan.nodes import Selection
from millrace.schema import Schema
from millrace.testing.oracle.epochs import Epoch
from millrace.testing.slt import (
    PLACE,
    TIME,
    Expected,
    Instant,
    Script,
    Statement,
    Step,
    rows_of,
)
from millrace.testing.slt_constants import constants_of, numbered, parameters_of
from millrace.testing.slt_plans import KnownTable, read_sign
from millrace.testing.slt_report import FOREVER, Answers, Report, differing, in_short, parted, union
from millrace.testing.slt_values import micros_of, read_array, read_value
from millrace.testing.slt_ways import Way
from millrace.testing.slt_world import Answer, Template, World, normal

Fed = tuple[str, dict[str, Any]]
"""A stream and a row of it; times are microseconds."""


class Driver(Protocol):
    """Something that runs a file's statements and rows; names are those of the file."""

    def declare(self, name: str, schema: Schema, delay: str) -> Any:  # noqa: ANN401
        """Declare a stream; return its `StreamSpec`."""

    def ask(self, name: str, asked: str | Selection, into: str) -> None:
        """Register a query."""

    def template(self, name: str, text: str, parameters: dict[str, str]) -> None:
        """Declare a template."""

    def insert(self, name: str, rows: pa.Table, labels: Sequence[str]) -> None:
        """Insert queries into a template."""

    def update(self, name: str, label: str, rows: pa.Table) -> None:
        """Give a query of a template other constants."""

    def change(self, what: str, name: str) -> None:
        """Pause, resume or drop a query or a template."""

    def table(self, name: str, schema: Schema) -> None:
        """Declare a table."""

    def view(self, name: str, text: str) -> None:
        """Declare a view."""

    def change_table(self, name: str, rows: Sequence[dict[str, Any]], copies: int) -> None:
        """Insert rows into a table, or, if the copies are below zero, delete them."""

    def feed(self, epochs: Sequence[Sequence[Fed]]) -> None:
        """Run epochs over rows."""

    def collect(self) -> Answers:
        """Return what was answered since it was last asked, `!` and a text for a failure."""


class Runner:
    """Runs one file once."""

    def __init__(self, script: Script, way: Way, driver: Driver) -> None:
        self.script, self.way, self.driver = script, way, driver
        self.world, self.report = World(), Report()
        self._random = Random(f"{way.name} {script.path.name}")
        self._groups: list[tuple[list[Instant], Answers]] = []
        self._n_rows = 0

    def run(self) -> Report:
        """Run all steps, then ask the judges."""
        for together in self.stretches():
            instants = self.perform(together)
            if instants:
                self.send(instants)
                self.collect(instants)
        self.judge()
        return self.report

    def perform(self, together: list[Step]) -> list[Instant]:
        """Take the statements of a stretch; return its instants."""
        for each in together:
            if isinstance(each, Statement):
                self._state(each)
        return [each for each in together if isinstance(each, Instant)]

    def send(self, instants: list[Instant]) -> None:
        """Let rows arrive."""
        epochs = [self._rows_of(each) for each in instants]
        for rows in epochs:
            arrivals: dict[str, dict[str, list[dict[str, Any]]]] = {}
            for stream, row in rows:
                arrivals.setdefault(stream, {}).setdefault("", []).append(row)
            self.world.epochs.append(Epoch(arrivals))
        self.driver.feed(self._cut(epochs))

    def collect(self, instants: list[Instant]) -> None:
        """Note what was answered to what was sent last."""
        self._groups.append((instants, self.driver.collect()))

    def judge(self) -> None:
        """Compare what was found with the oracle and with the file."""
        outcome = self.world.outcome()
        timed, end = self._timed()
        number = 0
        found_late: list[Answers] = []
        written_late: list[Answers] = []
        told_late: list[Answers] = [self.world.outcome_of_plans()]
        for instants, answers in self._groups:
            found, later = parted(answers, timed, end)
            written, expected = parted(self._written(instants), timed)
            told, others = parted(union(outcome[number : number + len(instants)]), timed, end)
            number += len(instants)
            found_late.append(later)
            written_late.append(expected)
            told_late.append(others)
            if number == len(outcome):
                found, written, told = (
                    union([found, in_short(found_late)]),
                    union([written, in_short(written_late)]),
                    union([told, in_short(told_late)]),
                )
            self._compare(instants, found, told, "the oracle")
            self._compare(instants, found, written, "the file")

    def _timed(self) -> tuple[set[str], Decimal]:
        """Return the queries whose answers have instants in the file, and when the file ends."""
        steps = [each for each in self.script.steps if isinstance(each, Instant)]
        named = {
            expected.name
            for step in steps
            for expected in step.expected
            if any(": " in sign for sign, _ in expected.rows)
        }
        ends = [Decimal(step.time) for step in steps if step.ends]
        return named | set(self.world.plans), max(ends, default=FOREVER)

    def stretches(self) -> Iterator[list[Step]]:
        """Part the steps: instants that one feed takes, queries in any order, others alone."""
        for kind, group in groupby(self.script.steps, self._kind):
            some: list[Step] = list(group)
            if kind == "instants" and self.way.cut in ("whole", "random"):
                yield some
            elif kind == "queries" and self.way.shuffled:
                yield from ([each] for each in self._random.sample(some, len(some)))
            else:
                yield from ([each] for each in some)

    def _kind(self, step: Step) -> str:
        if isinstance(step, Statement):
            plain = step.word == "query" and step.error is None
            return "queries" if plain else f"statement {step.line}"
        fails = any(each.failure is not None for each in step.expected)
        return f"instant {step.line}" if fails else "instants"

    def _state(self, step: Statement) -> None:
        try:
            self._perform(step)
        except MillraceError as refused:
            message, short = " ".join(str(refused).split()), refused.message
            if isinstance(refused, LanguageError) and str(step.error).startswith("CQL"):
                place = f"{refused.code} at {refused.line}:{refused.column} "
                message, short = place + message, place + short
            self.report.refused.append((step, short))
            if step.error is None:
                self._problem(step.line, f"was refused: {message}")
            elif step.error not in message:
                self._problem(step.error_line, f"was refused otherwise: {message}", doubt=True)
        else:
            if step.error is not None:
                self._problem(step.error_line, "was not refused")

    def _perform(self, step: Statement) -> None:
        world, driver, name = self.world, self.driver, step.name
        match step.word:
            case "stream":
                columns = f"{step.text}, {TIME} timestamp, {PLACE} bigint"
                world.streams[name] = driver.declare(name, Schema.of(columns), step.more)
            case "table":
                schema = Schema.of(step.text)
                driver.table(name, schema)
                world.tables[name] = KnownTable(schema)
            case "view":
                driver.view(name, step.text)
                world.views[name] = View(query_of(step.text))
            case "put" | "take":
                self._change_table(step)
            case "query":
                self._ask(name, step.text, step.more)
            case "template":
                parameters = parameters_of(step.more)
                driver.template(name, step.text, parameters)
                world.declare_template(name, step.text, parameters)
            case "insert" | "update":
                self._constants(step)
            case _:
                self._end(step)

    def _ask(self, name: str, text: str, into: str) -> None:
        """Register a query; one that is refused is refused by whom it is asked of."""
        world, driver = self.world, self.driver
        try:
            bound = world.bound(text)
        except MillraceError:
            driver.ask(name, text, into)
            raise
        if isinstance(bound, Selection):
            driver.ask(name, text if self.way.lifting else bound, into)
            world.ask(name, bound, {})
        else:
            driver.ask(name, text, into)
            world.ask_plan(name, bound)

    def _change_table(self, step: Statement) -> None:
        """Let rows of a table come or go."""
        table, copies = self.world.tables[step.name], 1 if step.word == "put" else -1
        rows = [
            {
                column.name: self._value(step.line, token, column.type)
                for token, column in zip(row.tokens, table.schema, strict=True)
            }
            for row in rows_of(self.script, step.line, step.text)
        ]
        self.driver.change_table(step.name, rows, copies)
        now = len(self.world.epochs)
        table.changes += [(now, row, copies) for row in rows]

    def _constants(self, step: Statement) -> None:
        """Insert queries into a template, or change one of them."""
        world, name = self.world, step.name
        template = world.templates.get(name) or Template("", None, {})
        label, text = numbered(name, step.text)
        try:
            table = constants_of(text, template.parameters)
        except ValueError as cause:
            self.script.fail(step.line, str(cause))
        if step.word == "update":
            self.driver.update(name, label, table)
            world.pause(label)
            labels = [label]
        else:
            first = template.n_inserted + 1
            labels = [f"{name}#{first + at}" for at in range(table.num_rows)]
            self.driver.insert(name, table, labels)
            template.n_inserted += table.num_rows
        for each, row in zip(labels, table.to_pylist(), strict=True):
            world.ask_with(each, template, row)

    def _end(self, step: Statement) -> None:
        """Pause, resume, delete or drop."""
        world = self.world
        label = f"{step.name}{step.text.replace(' ', '')}"
        self.driver.change(step.word, label)
        if step.word in ("pause", "resume"):
            getattr(world, step.word)(label)
            return
        for each in world.of_template(label) if label in world.templates else [label]:
            world.drop(each)
        world.templates.pop(label, None)

    def _cut(self, epochs: list[list[Fed]]) -> list[list[Fed]]:
        """Cut the rows of instants into epochs."""
        rows = [each for some in epochs for each in some]
        match self.way.cut:
            case "instants":
                return epochs
            case "rows":
                return [[each] for each in rows] or [[]]
            case "whole":
                return [rows]
            case _:
                n_cuts = self._random.randrange(min(len(rows), 4)) if rows else 0
                bounds = [0, *sorted(self._random.sample(range(1, len(rows)), n_cuts)), len(rows)]
                return [rows[first:stop] for first, stop in pairwise(bounds)]

    def _rows_of(self, instant: Instant) -> list[Fed]:
        """Read the rows of an instant, each by the types of its stream."""
        found: list[Fed] = self._ends(instant) if instant.ends else []
        for stream, rows in instant.rows:
            if stream not in self.world.streams:
                self.script.fail(instant.line, f'stream "{stream}" is not declared')
            columns = list(self.world.streams[stream].schema)[:-2]
            for row in rows:
                if len(row.tokens) != len(columns):
                    message = f"a row has {len(row.tokens)} values for {len(columns)} columns"
                    self.script.fail(instant.line, message)
                values: dict[str, Any] = {}
                for token, column in zip(row.tokens, columns, strict=True):
                    values[column.name] = self._value(instant.line, token, column.type)
                self._n_rows += 1
                values[TIME] = micros_of(instant.time if row.time is None else row.time)
                found.append((stream, {**values, PLACE: self._n_rows}))
        return found

    def _ends(self, instant: Instant) -> list[Fed]:
        """Return a row of NULLs for each stream, so late that nothing before it is open."""
        found: list[Fed] = []
        for name, spec in self.world.streams.items():
            self._n_rows += 1
            time = (micros_of(instant.time) or 0) + spec.delay
            row = dict.fromkeys(spec.schema.names)
            found.append((name, {**row, TIME: time, PLACE: self._n_rows}))
        return found

    def _value(self, line: int, token: str, arrow: pa.DataType) -> object:
        try:
            [value] = read_array([token], arrow).to_pylist()
        except (ValueError, ArithmeticError, pa.ArrowException) as cause:
            self.script.fail(line, f"{token} is no {arrow}: {cause}")
        return value

    def _written(self, instants: list[Instant]) -> Answers:
        """Read what the file expects of instants, by the types of the answers."""
        told: Answers = {}
        for instant in instants:
            for expected in instant.expected:
                told.setdefault(expected.name, []).extend(self._answers(instant, expected))
        return told

    def _answers(self, instant: Instant, expected: Expected) -> Iterator[Answer]:
        if expected.failure is not None:
            yield "!", (expected.failure,)
        schema = self.world.answers.get(expected.name)
        if schema is None:
            self.script.fail(instant.line, f'query "{expected.name}" does not exist')
        for sign, tokens in expected.rows:
            if len(tokens) != len(schema):
                self.script.fail(
                    instant.line,
                    f"{expected.name} answers with {', '.join(schema.names)}, not with {tokens}",
                )
            values = [
                read_value(token, each.type) for token, each in zip(tokens, schema, strict=True)
            ]
            yield read_sign(sign), normal(values, schema)

    def _compare(self, instants: list[Instant], found: Answers, told: Answers, judge: str) -> None:
        if judge == "the file":
            self.report.found += [(instants[0], found)] if len(instants) == 1 else []
        for name in sorted({*found, *told}):
            lost, extra = differing(found.get(name, []), told.get(name, []))
            if lost or extra:
                lines = [f"    - {each}    {judge} says so" for each in lost]
                lines += [f"    + {each}    found" for each in extra]
                times = f"at {instants[0].time}" + ("" if len(instants) == 1 else " and later")
                message = "\n".join([f"{times}, {name}:", *lines])
                self._problem(instants[0].line, message, doubt=judge == "the file")

    def _problem(self, line: int, message: str, *, doubt: bool = False) -> None:
        report = self.report
        told = f"{self.script.path}:{line}: [{self.way.name}] {message}"
        (report.open_to_doubt if doubt else report.problems).append(told)
