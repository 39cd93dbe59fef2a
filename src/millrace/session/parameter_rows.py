"""Rows of parameters as statements write them: constants, each read by its parameter's type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from millrace.engine.parameters import SET, parameter_schema
from millrace.errors import PlanError, SchemaError
from millrace.lang.clauses import AS_SETS_ARE_WRITTEN
from millrace.lang.constants import NotOfTypeError, converter, hint_for
from millrace.lang.words import Value, value_text
from millrace.plan.expressions import Scalar
from millrace.plan.nearest import nearest
from millrace.session.template import ValueAt

_WIDEST = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}


def constants_table(
    names: Sequence[str],
    rows: Sequence[Sequence[Value]],
    parameters: Iterable[tuple[str, str]],
    *,
    what: str = "parameter",
) -> pa.Table:
    """Return constants as a table with the columns `names`, or say which does not fit, and why.

    `what` they are is a word for messages.
    """
    kinds = dict(parameters)
    columns = []
    for at, name in enumerate(names):
        require_known(name, kinds, what)
        columns.append(_column((what, name), kinds[name], [row[at] for row in rows]))
    return pa.Table.from_arrays(columns, names=list(names))


def require_known(name: str, kinds: Mapping[str, str], what: str) -> None:
    """Refuse a name that no parameter, or column, has."""
    if name not in kinds:
        raise SchemaError(
            f'{what} "{name}" does not exist',
            detail=f"The {what}s are {', '.join(kinds)}.",
            hint=nearest(name, list(kinds)),
            node=("parameter", name),
        )


def _column(named: tuple[str, str], kind: str, values: Sequence[Value]) -> pa.Array:
    what, name = named
    member = kind.removesuffix(SET)
    widest = _WIDEST.get(member, member)
    arrow = parameter_schema((widest + kind[len(member) :],)).field(0).type
    found = []
    for row, value in enumerate(values):
        try:
            converted = _converted(value, widest, many=member != kind)
            found.append(pa.scalar(converted, arrow))
        except (NotOfTypeError, pa.ArrowInvalid, pa.ArrowTypeError) as cause:
            raise PlanError(
                f'{what} "{name}" of row {row + 1} is not {kind}',
                detail=f"It is {value_text(value)}.",
                hint=_hint(value, widest, what, many=member != kind),
                node=ValueAt(row, name),
            ) from cause
    return pa.array(found, arrow)


def _hint(value: Value, kind: str, what: str, *, many: bool) -> str:
    if many and not isinstance(value, tuple):
        return AS_SETS_ARE_WRITTEN
    if isinstance(value, tuple) and not many:
        return f"The {what} takes one value; in brackets there is a set."
    return hint_for(kind) or "No row of this statement was taken."


def _converted(value: Value, kind: str, *, many: bool) -> object:
    if isinstance(value, tuple) != many:
        raise NotOfTypeError("is no set" if many else "is a set")
    if isinstance(value, tuple):
        return [_one(each, kind) for each in value]
    return _one(value, kind)


def _one(value: Scalar, kind: str) -> Scalar:
    if value is None:
        return None
    if kind in ("text", "boolean"):
        if not isinstance(value, str if kind == "text" else bool):
            raise NotOfTypeError(f"is no {kind}")
        return value
    if isinstance(value, bool):
        raise NotOfTypeError("is a boolean")
    return converter(kind)(value)
