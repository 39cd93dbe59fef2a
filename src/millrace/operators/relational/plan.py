"""A plan that runs: the operators of a query, which take one slab of time after another.

The same relation in two places of a plan is computed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np
import pyarrow as pa

from millrace.operators.evaluate import evaluate
from millrace.operators.relational.join_keys import split
from millrace.operators.relational.feeds import Feed, Once
from millrace.operators.relational.group import Grouping
from millrace.operators.relational.join import InnerJoin, true_rows
from millrace.operators.relational.outer import OuterJoin
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.streams import Telling
from millrace.operators.relational.sweep import Sweep, distinct, set_operator
from millrace.operators.relational.timed import OPEN, Timed, rows_of
from millrace.operators.relational.top import TopRows
from millrace.operators.relational.totals import Totals
from millrace.operators.relational.values import Values
from millrace.operators.relational.windows import RowsWindow, by_time
from millrace.operators.vectors import as_array
from millrace.plan.bind import type_of
from millrace.plan.expressions import Column
from millrace.plan.relation_types import Declared, aggregate_type, relation_schema, stream_schema
from millrace.plan.relations import (
    Aggregate,
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Join,
    Project,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.schema import Schema

Makes = Callable[["Run"], Timed]
Tells = Callable[["Run"], Elements]

_ADDED = ("count", "sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp")
_VALUE = "#value"


@dataclass(slots=True)
class Run:
    """One slab on its way through a plan, and what was computed in it so far."""

    slab: Slab
    relations: dict[Relation, Timed] = field(default_factory=dict)
    streams: dict[Stream, Elements] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    """The operators of relations and streams over what is declared."""

    declared: Declared
    _relations: dict[Relation, Makes] = field(default_factory=dict)
    _streams: dict[Stream, Tells] = field(default_factory=dict)

    def relation(self, node: Relation, run: Run) -> Timed:
        """Return what is new in a relation."""
        if node not in run.relations:
            if node not in self._relations:
                self._relations[node] = self._made(node, f"r{len(self._relations)}")
            run.relations[node] = self._relations[node](run)
        return run.relations[node]

    def stream(self, node: Stream, run: Run) -> Elements:
        """Return the elements of a stream, in order."""
        if node not in run.streams:
            if node not in self._streams:
                self._streams[node] = self._told(node, f"s{len(self._streams)}")
            run.streams[node] = self._streams[node](run)
        return run.streams[node]

    # ---- streams ---------------------------------------------------------------------------------

    def _told(self, node: Stream, name: str) -> Tells:
        match node:
            case Source(source):
                return lambda run: run.slab.streams[source]
            case StreamOf(kind, relation, every):
                telling = Telling(name, self._schema(relation).to_arrow(), kind, every)
                return lambda run: telling.step(self.relation(relation, run), run.slab)
            case _:
                assert_never(node)

    # ---- relations -------------------------------------------------------------------------------

    def _made(self, node: Relation, name: str) -> Makes:
        match node:
            case Windowed():
                return self._windowed(node, name)
            case Table(table, alias):
                return lambda run: _changed(run.slab.tables[table], alias)
            case Filter(given, condition):
                return lambda run: _filtered(self.relation(given, run), condition, run.slab)
            case Project(given, _):
                return lambda run: _projected(self.relation(given, run), node, run.slab)
            case Join():
                return self._joined(node, name)
            case Group():
                return self._grouped(node, name)
            case Distinct(given):
                once = Sweep(name, self._schema(given).to_arrow(), 1, distinct)
                return lambda run: once.step([self.relation(given, run)], run.slab)
            case Combined():
                return self._combined(node, name)
            case Top(given, order, limit, offset, per):
                top = TopRows(name, self._schema(given).to_arrow(), order, limit, offset, per)
                return lambda run: top.step(self.relation(given, run), run.slab)
            case Asked():
                raise AssertionError("subqueries are unnested before")
            case _:
                assert_never(node)

    def _windowed(self, node: Windowed, name: str) -> Makes:
        window, stream = node.window, node.stream
        names = self._schema(node).names
        by_rows = window.kind == "rows" and not (window.size is None and window.slide is None)
        rows_window = RowsWindow(name, window, stream_schema(stream, self.declared).to_arrow())

        def windowed(run: Run) -> Timed:
            elements = self.stream(stream, run)
            if by_rows:
                timed = rows_window.step(elements.rows, elements.times, run.slab.state)
            else:
                timed = by_time(window, elements.rows, elements.times)
            return timed.with_rows(rows_of(timed.rows.columns, names, len(timed)))

        return windowed

    def _joined(self, node: Join, name: str) -> Makes:
        left, right = self._schema(node.left), self._schema(node.right)
        keys, rest = split(node.condition, left, right, self.declared.functions)
        inner = InnerJoin(name, left.to_arrow(), right.to_arrow(), keys, rest)
        join = inner if node.kind == "inner" else OuterJoin.of(node.kind, inner)
        return lambda run: join.step(
            self.relation(node.left, run), self.relation(node.right, run), run.slab
        )

    def _combined(self, node: Combined, name: str) -> Makes:
        schema = self._schema(node).to_arrow()

        def inputs(run: Run) -> list[Timed]:
            sides = self.relation(node.left, run), self.relation(node.right, run)
            return [_as_columns(each, schema) for each in sides]

        if node.kind == "union" and node.keep_all:
            return lambda run: Timed.concat(inputs(run), schema)
        sweep = Sweep(name, schema, 2, set_operator(node.kind, keep_all=node.keep_all))
        return lambda run: sweep.step(inputs(run), run.slab)

    def _grouped(self, node: Group, name: str) -> Makes:
        given, schema = self._schema(node.input), self._schema(node)
        keys = pa.schema(list(schema.to_arrow())[: len(node.keys)])
        added = [each for each in node.aggregates if each.kind in _ADDED and not each.distinct]
        feeds: list[Feed] = [self._totals(f"{name}.all", keys, added, given, whole=True)]
        for at, each in enumerate(node.aggregates):
            if each not in added:
                feeds.append(self._feed(f"{name}.{at}", keys, each, given))
        grouping = Grouping(name, node.keys, keys, tuple(feeds), schema.to_arrow())
        return lambda run: grouping.step(self.relation(node.input, run), run.slab)

    def _feed(self, name: str, keys: pa.Schema, aggregate: Aggregate, given: Schema) -> Feed:
        """Return what keeps the values of one aggregate."""
        operand = self._type(aggregate, given)
        assert operand is not None, "only a count has no operand"
        if not aggregate.distinct or aggregate.kind in ("min", "max"):
            by = aggregate.by
            by_type = None if by is None else type_of(by, given, self.declared.functions)
            return Values(name, keys, aggregate, operand, by_type)
        once = Aggregate(
            aggregate.name, aggregate.kind, Column(_VALUE), fraction=aggregate.fraction
        )
        swept = pa.schema([*keys, pa.field(_VALUE, operand)])
        sweep = Sweep(f"{name}.once", swept, 1, distinct)
        if aggregate.kind in _ADDED:
            values = Schema.from_arrow(swept)
            return Once(
                aggregate, _VALUE, sweep, self._totals(name, keys, [once], values, whole=False)
            )
        return Once(aggregate, _VALUE, sweep, Values(name, keys, once, operand, None))

    def _totals(
        self, name: str, keys: pa.Schema, added: list[Aggregate], given: Schema, *, whole: bool
    ) -> Totals:
        types = tuple(aggregate_type(each, given, self.declared) for each in added)
        operands = tuple(self._type(each, given) for each in added)
        return Totals(name, keys, tuple(added), types, operands, whole)

    def _type(self, aggregate: Aggregate, given: Schema) -> pa.DataType | None:
        if aggregate.operand is None:
            return None
        return type_of(aggregate.operand, given, self.declared.functions)

    def _schema(self, node: Relation) -> Schema:
        return relation_schema(node, self.declared)


def _changed(changes: Elements, alias: str) -> Timed:
    """Return the changes of a table as rows that come or go for good."""
    names = [f"{alias}.{each}" for each in changes.rows.schema.names]
    n_rows = len(changes.times)
    copies = changes.copies if changes.copies is not None else np.ones(n_rows, np.int64)
    rows = rows_of(changes.rows.columns, names, n_rows)
    return Timed(rows, changes.times, np.full(n_rows, OPEN), copies)


def _filtered(given: Timed, condition: object, slab: Slab) -> Timed:
    return given.where(true_rows(condition, given, slab)) if len(given) else given  # type: ignore[arg-type]


def _projected(given: Timed, node: Project, slab: Slab) -> Timed:
    n_rows = len(given)
    columns = [
        as_array(evaluate(each.value, given.rows, slab.functions), n_rows)
        for each in node.outputs
    ]
    return given.with_rows(rows_of(columns, [each.name for each in node.outputs], n_rows))


def _as_columns(given: Timed, schema: pa.Schema) -> Timed:
    """Name and type columns as another relation has them."""
    columns = [
        column.cast(wanted.type)
        for column, wanted in zip(given.rows.columns, schema, strict=True)
    ]
    return given.with_rows(rows_of(columns, schema.names, len(given)))
