"""What a plan may name: declared streams, tables and functions, and rows around a subquery."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from millrace.plan.bind import type_of
from millrace.plan.calls import Functions
from millrace.plan.expressions import Expression
from millrace.schema import Column, Columns, Schema


@dataclass(frozen=True, slots=True)
class Declared:
    """The streams, tables and functions that a plan may name.

    Inside a subquery its expressions may also name the columns of `outer`, the rows that it is
    asked about. A column of the same name within hides them; case does not count.

    What is answered `once`, and does not stand, may read columns that have names of ours, and give
    its rows an order.
    """

    streams: Mapping[str, Schema]
    tables: Mapping[str, Schema] = field(default_factory=dict)
    functions: Functions = field(default_factory=dict)
    outer: Schema | None = None
    once: bool = False

    def schema(self, columns: Iterable[Column]) -> Schema:
        """Return columns of a plan as a schema."""
        return (Columns if self.once else Schema)(tuple(columns))

    def visible(self, schema: Schema) -> Schema:
        """Return the columns that an expression over rows of these columns may name."""
        if self.outer is None:
            return schema
        near = {each.name.casefold() for each in schema}
        far = [each for each in self.outer if each.name.casefold() not in near]
        return self.schema((*schema, *far))

    def about(self, schema: Schema) -> Declared:
        """Return what a subquery may name that is asked about rows of these columns."""
        return replace(self, outer=self.visible(schema))

    def apart(self) -> Declared:
        """Return what a stream may name: it is told to everyone, and about no row of another."""
        return replace(self, outer=None)

    def type_of(self, node: Expression, schema: Schema) -> pa.DataType:
        """Return the type of an expression over rows of these columns, or refuse it."""
        return type_of(node, self.visible(schema), self.functions)
