"""Printing expressions for DuckDB: what it computes as we do, as it is; all else as a function.

An expression is printed from its leaves up. Where DuckDB might mean something else, the expression
is left as a whole to a function of its columns, which our operators evaluate (`Function`); what has
no columns is evaluated at once and printed as a constant.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal

import pyarrow as pa

from millrace.operators.evaluate import Function as Registered
from millrace.operators.evaluate import evaluate
from millrace.plan.calls import Functions
from millrace.plan.expressions import (
    Both,
    Case,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Literal,
    Not,
    Scalar,
    walk,
)
from millrace.plan.fold import depth, fold
from millrace.plan.spelling import to_json
from millrace.plan.types import kind_of, literal_type
from millrace.plan.typing import Scope, node_type
from millrace.reading.duckdb_types import to_stored, type_word
from millrace.schema import Schema

DEEPEST = 100
"""On how many levels an expression may nest that DuckDB parses."""


@dataclass(frozen=True, slots=True)
class Function:
    """An expression that our operators evaluate, the columns that it names, and its type."""

    node: Expression
    columns: tuple[tuple[str, pa.DataType], ...]
    arrow: pa.DataType


@dataclass(frozen=True, slots=True)
class _Term:
    """A node and its type, and what writes it, if DuckDB computes it as we do.

    It is written only when it is known that nothing around it is left to a function.
    """

    node: Expression
    arrow: pa.DataType
    write: Callable[[], str] | None


@dataclass
class Terms:
    """Prints expressions, and gathers the functions and parameters that they need."""

    types: Functions
    registered: Mapping[str, Registered]
    functions: list[Function] = field(default_factory=list)
    parameters: list[str | bytes] = field(default_factory=list)
    _columns: dict[str, str] = field(default_factory=dict)
    _known: dict[str, str] = field(default_factory=dict)

    def column(self, name: str) -> str:
        """Return what a column of the plan is called there."""
        return self._columns.setdefault(name, f"c{len(self._columns)}")

    def text(self, node: Expression, schema: Schema) -> str:
        """Print an expression over rows of these columns."""
        if isinstance(node, Column):
            return self.column(node.name)
        scope = Scope(schema, self.types)
        found = fold(node, lambda each, operands: self._term(each, operands, scope))
        if found.write is None or depth(node) > DEEPEST:
            return self._function(found, schema)
        return found.write()

    def _term(self, node: Expression, operands: list[_Term], scope: Scope) -> _Term:
        arrow = node_type(node, [each.arrow for each in operands], scope)
        if not self._alike(node, operands):
            return _Term(node, arrow, None)

        def write() -> str:
            return self._written(node, [
                self._function(each, scope.schema) if each.write is None else each.write()
                for each in operands
            ])  # fmt: skip

        return _Term(node, arrow, write)

    def _alike(self, node: Expression, operands: Sequence[_Term]) -> bool:
        """Say whether DuckDB means the same by a node."""
        types = [each.arrow for each in operands]
        match node:
            case Column() | Literal() | Both() | Either() | Not() | IsNull():
                return True
            case Compare():
                return _comparable(types)
            case In(_, options):
                return bool(options) and _comparable(types)
            case Case():
                return len({each for each in (*types[1:-1:2], types[-1]) if each != pa.null()}) == 1
            case _:
                return False

    def _written(self, node: Expression, texts: list[str]) -> str:
        match node:
            case Column(name):
                return self.column(name)
            case Literal(value):
                return self.constant(value, literal_type(value))
            case Both() | Either():
                word = "AND" if isinstance(node, Both) else "OR"
                return f"({texts[0]} {word} {texts[1]})"
            case Not():
                return f"(NOT {texts[0]})"
            case IsNull():
                return f"({texts[0]} IS NULL)"
            case Compare(operator, _, _):
                return f"({texts[0]} {operator} {texts[1]})"
            case In():
                return f"({texts[0]} IN ({', '.join(texts[1:])}))"
            case Case():
                pairs = zip(texts[:-1:2], texts[1:-1:2], strict=True)
                branches = "".join(f" WHEN {where} THEN {value}" for where, value in pairs)
                return f"(CASE{branches} ELSE {texts[-1]} END)"
            case _:
                message = f"not alike: {node}"
                raise AssertionError(message)

    def constant(self, value: Scalar, arrow: pa.DataType) -> str:
        """Print a constant of a type."""
        if value is None:
            return "NULL" if arrow == pa.null() else f"CAST(NULL AS {type_word(arrow)})"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, str | bytes):
            self.parameters.append(value)
            return f"CAST(${len(self.parameters)} AS {type_word(arrow)})"
        number = to_stored(pa.scalar(value, arrow)).as_py() if isinstance(value, date) else value
        return f"CAST('{_number_text(number)}' AS {type_word(arrow)})"

    def _function(self, term: _Term, schema: Schema) -> str:
        """Return a call of our own operators."""
        named = sorted({each.name for each in walk(term.node) if isinstance(each, Column)})
        if not named:
            nothing = pa.RecordBatch.from_pydict({"nothing": [0]})
            value = evaluate(term.node, nothing, self.registered)
            value = value if isinstance(value, pa.Scalar) else value[0]
            return self.constant(value.as_py(), term.arrow)
        columns = tuple((name, schema.type_of(name)) for name in named)
        known = json.dumps([to_json(term.node), [str(arrow) for _, arrow in columns]])
        if known not in self._known:
            self._known[known] = f"f{len(self.functions)}"
            self.functions.append(Function(term.node, columns, term.arrow))
        return f"{self._known[known]}({', '.join(map(self.column, named))})"


def _comparable(types: Sequence[pa.DataType]) -> bool:
    """Say whether values are compared as they are: all of one type, or whole numbers."""
    found = {each for each in types if each != pa.null()}
    return len(found) <= 1 or {kind_of(each) for each in found} == {"integer"}


def _number_text(value: int | float | Decimal) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else repr(value)
