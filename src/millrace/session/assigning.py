"""Values that rows are given by expressions over themselves: `UPDATE ... SET n = n + 1`.

Every value is computed of the row as it was, before any column is changed. The kind of an
expression must be that of its column; a number may be of another type if it fits, row by row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from millrace.engine.parameters import SET
from millrace.errors import PlanError
from millrace.lang.queries import Parsed
from millrace.operators.evaluate import Memo, evaluate
from millrace.operators.vectors import as_array
from millrace.plan.bind import bind_expression
from millrace.plan.expressions import Expression
from millrace.plan.term import Term
from millrace.plan.types import NUMBERS, kind_of, shown
from millrace.schema import Column, Columns, type_name, type_named

if TYPE_CHECKING:
    from millrace.session.session import Session

Computed: TypeAlias = "Mapping[str, Term | Parsed]"
"""Columns, and the expressions that give them their values."""


def computed_values(
    session: Session, rows: pa.Table, values: Computed, kinds: Mapping[str, str], of: str
) -> pa.Table:
    """Return the values of expressions over rows.

    Parameters
    ----------
    kinds
        The names of the types that columns, or parameters, have.
    of
        Whose rows they are.
    """
    plain = rows.select([each.name for each in rows.schema if not pa.types.is_list(each.type)])
    columns = Columns(tuple(Column(each.name, each.type) for each in plain.schema))
    bound = {name: _bound(session, value, columns, of) for name, value in values.items()}
    for name, (_, found) in bound.items():
        require_kind(name, found, kinds[name])
    batch = pa.RecordBatch.from_arrays(
        [_whole(each) for each in plain.columns], names=plain.column_names
    )
    memo = Memo()
    found = [
        as_array(evaluate(node, batch, session.functions, memo=memo), batch.num_rows)
        for node, _ in bound.values()
    ]
    return pa.Table.from_arrays(found, names=list(bound))


def _bound(
    session: Session, value: Term | Parsed, columns: Columns, of: str
) -> tuple[Expression, pa.DataType]:
    from millrace.lang.binder import bind_value  # noqa: PLC0415  slow to import

    if isinstance(value, Term):
        return bind_expression(value.node, columns, session.function_types)
    named = {each.name: type_name(each.type) for each in columns}
    return bind_value(value, named, session.function_types, of=of)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else whole.chunk(0)


def require_kinds(
    names: Sequence[str], found: Sequence[pa.DataType], kinds: Mapping[str, str]
) -> None:
    """Refuse values of a query for columns of other kinds."""
    for name, each in zip(names, found, strict=True):
        require_kind(name, each, kinds[name])


def require_kind(name: str, found: pa.DataType, kind: str) -> None:
    """Refuse values for a column that is of another kind."""
    member = kind.removesuffix(SET)
    many = pa.types.is_list(found)
    of_one = kind_of(found.value_type if many else found)
    wanted = kind_of(type_named(member))
    both_numbers = {of_one, wanted} <= NUMBERS
    if (of_one == "null" or many == (member != kind)) and (
        of_one in ("null", wanted) or both_numbers or (of_one, wanted) == ("date", "timestamp")
    ):
        return
    many_of = f"a list of {shown(found.value_type)}" if many else shown(found)
    raise PlanError(
        f'"{name}" is {kind} and its value {many_of}',
        hint=f"Write CAST(... AS {kind})." if not many and member == kind else "",
        node=("value", name),
    )
