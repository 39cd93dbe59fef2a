"""What a `.slt` file has declared so far, and what the oracle says it must answer.

The world knows streams, queries and templates by the names of the file. It runs nothing: it is
told of every statement that was taken, and of every instant, and asks the oracle at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millrace.engine.streams import StreamSpec
from millrace.lang.relational.bound import BoundRelation, bind_any
from millrace.lang.relational.context import View
from millrace.plan.bind import output_schema
from millrace.plan.declared import Declared
from millrace.plan.nodes import Selection
from millrace.schema import type_named
from millrace.testing.oracle.epochs import Asked, Epoch, Row, outcome_of
from millrace.testing.oracle.selections import Standing
from millrace.testing.slt import TIME
from millrace.testing.slt_constants import written
from millrace.testing.slt_functions import FUNCTIONS
from millrace.testing.slt_plans import KnownPlan, KnownTable, answers_of, signed

TYPES = {name: type_named(each.returns) for name, each in FUNCTIONS.items()}

Answer = tuple[str, tuple[object, ...]]
"""A sign, + or ~, and the values of a row."""


@dataclass(slots=True)
class Known:
    """A standing query: its selection, its constants, and since which instant it is asked."""

    selection: Selection
    parameters: Mapping[int, Any]
    standing: Standing | None = None
    since: int = 0


@dataclass(slots=True)
class Template:
    """A template: its parameters, and how many queries were ever inserted.

    If its queries are more than selections, there is only its text.
    """

    text: str
    selection: Selection | None
    parameters: dict[str, str]
    n_inserted: int = 0


@dataclass(slots=True)
class World:
    """Everything that was declared, by name; a template's queries are `name#1`, `name#2`."""

    streams: dict[str, StreamSpec] = field(default_factory=dict)
    queries: dict[str, Known] = field(default_factory=dict)
    tables: dict[str, KnownTable] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    plans: dict[str, KnownPlan] = field(default_factory=dict)
    answers: dict[str, pa.Schema] = field(default_factory=dict)
    epochs: list[Epoch] = field(default_factory=list)
    _asked: list[Asked] = field(default_factory=list)
    _standing: list[tuple[str, Standing]] = field(default_factory=list)

    def bound(
        self, text: str, parameters: Mapping[str, str] | None = None
    ) -> Selection | BoundRelation:
        """Bind a text over the streams there are."""
        schemas = {name: each.schema for name, each in self.streams.items()}
        tables = {name: each.schema for name, each in self.tables.items()}
        declared = Declared(schemas, tables, functions=TYPES)
        times = dict.fromkeys(schemas, TIME)
        given = parameters or {}
        return bind_any(text, declared, views=self.views, times=times, parameters=given)

    def declare_template(self, name: str, text: str, parameters: dict[str, str]) -> None:
        """Take in a template."""
        found = self.bound(text, parameters)
        selection = found if isinstance(found, Selection) else None
        self.templates[name] = Template(text, selection, parameters)

    def ask_with(self, name: str, template: Template, values: Mapping[str, Any]) -> None:
        """Take in a query of a template; one that is more than a selection is asked as a text."""
        if template.selection is not None:
            self.ask(name, template.selection, dict(enumerate(values.values())))
            return
        bound = self.bound(written(template.text, values))
        assert not isinstance(bound, Selection), "constants make no selection of it"
        self.ask_plan(name, bound)

    def ask_plan(self, name: str, bound: BoundRelation) -> None:
        """Take in a query that is more than a selection."""
        self.answers[name] = bound.schema.to_arrow()
        self.plans[name] = KnownPlan(bound, len(self.epochs))

    def ask(self, name: str, selection: Selection, parameters: Mapping[int, Any]) -> None:
        """Take in a query; from the next instant on it is asked."""
        schema = self.streams[selection.stream].schema
        self.answers[name] = output_schema(selection, schema, TYPES)
        self.queries[name] = Known(selection, parameters)
        self.resume(name)

    def pause(self, name: str) -> None:
        """Ask a query no more from the next instant on."""
        known, now = self.queries[name], len(self.epochs)
        if known.standing is not None:
            self._asked.append(known.standing.asked(name, known.since, now))
            self._standing.append((name, known.standing))
            known.standing = None

    def resume(self, name: str) -> None:
        """Ask a query again, also if it had failed."""
        self.pause(name)
        known = self.queries[name]
        known.standing = Standing(
            known.selection,
            self.streams[known.selection.stream].schema,
            TIME,
            parameters=known.parameters,
            functions={each: function.one for each, function in FUNCTIONS.items()},
            types=TYPES,
        )
        known.since = len(self.epochs)

    def drop(self, name: str) -> None:
        """Forget a query."""
        if name in self.plans:
            self.plans[name].until = len(self.epochs)
            return
        self.pause(name)
        del self.queries[name]

    def of_template(self, name: str) -> list[str]:
        """Return the queries of a template, oldest first."""
        return [each for each in (*self.queries, *self.plans) if each.startswith(f"{name}#")]

    def outcome(self) -> list[dict[str, list[Answer]]]:
        """Ask the oracle what each selection answers in each instant, `!` and why if it fails."""
        for name in self.queries:
            self.pause(name)
        found = outcome_of(list(self.streams.values()), self.epochs, self._asked)
        told: list[dict[str, list[Answer]]] = [{} for _ in self.epochs]
        for name, answers in found.answers.items():
            for number, time, late, values in answers:
                row = normal(values, self.answers[name])
                told[number].setdefault(name, []).append((signed(time, "~" if late else "+"), row))
        for name, standing in self._standing:
            if standing.failure is not None:
                culprit, cause = standing.failure
                told[self._instant_of(culprit)].setdefault(name, []).append(("!", (str(cause),)))
        return told

    def outcome_of_plans(self) -> dict[str, list[Answer]]:
        """Ask the definition what each query that is more than a selection answers."""
        return {
            name: [
                (sign, values if sign == "!" else normal(values, self.answers[name]))
                for sign, values in answers_of(plan, self.streams, self.tables, self.epochs)
            ]
            for name, plan in self.plans.items()
        }

    def _instant_of(self, row: Row) -> int:
        """Find the instant in which a row came."""
        return next(
            number
            for number, epoch in enumerate(self.epochs)
            for partitions in epoch.arrivals.values()
            if any(each is row for rows in partitions.values() for each in rows)
        )


def normal(values: Sequence[object], schema: pa.Schema) -> tuple[object, ...]:
    """Bring values into the types of an answer, so that equal ones are spelt alike."""
    return tuple(
        pa.array([value], each.type).to_pylist()[0]
        for value, each in zip(values, schema, strict=True)
    )
