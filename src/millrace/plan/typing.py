"""Typing rules: the type of a node, given the types of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa

from millrace.errors import PlanError, SchemaError
from millrace.plan.calls import Functions, call_type, require_regex
from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Parameter,
    children,
)
from millrace.plan.nearest import nearest
from millrace.plan.patterns import like_fault
from millrace.plan.spelling import to_text
from millrace.plan.types import (
    BOOLEAN,
    INSTANTS,
    NUMBERS,
    Kind,
    arithmetic_type,
    common_type,
    kind_of,
    literal_type,
    shown,
    widened,
)
from millrace.schema import Schema, type_named

Types = Sequence[pa.DataType]

# From what a cast leads to each kind; NULL and the same kind always can.
_CASTS: dict[Kind, frozenset[Kind]] = {
    "null": frozenset(),
    "boolean": frozenset({"integer", "text"}),
    "integer": NUMBERS | {"boolean", "text"},
    "decimal": NUMBERS | {"boolean", "text"},
    "floating": NUMBERS | {"boolean", "text"},
    "text": NUMBERS | INSTANTS | {"boolean", "binary"},
    "binary": frozenset({"text"}),
    "date": INSTANTS | {"text"},
    "timestamp": INSTANTS | {"text"},
}


@dataclass(frozen=True, slots=True)
class Scope:
    """What an expression may name: the columns of a stream and the registered functions."""

    schema: Schema
    functions: Functions


def node_type(node: Expression, types: Types, scope: Scope) -> pa.DataType:
    """Return the type of a node whose operands have these types, or refuse it."""
    match node:
        case Column(name):
            return _column_type(name, scope.schema)
        case Literal(value):
            return literal_type(value)
        case Parameter(_, type_name, many):
            return pa.list_(type_named(type_name)) if many else type_named(type_name)
        case Arithmetic() | Negative():
            return _number_type(node, types)
        case Case():
            return _case_type(node, types)
        case Cast(_, type_name):
            return _cast_type(node, types[0], type_named(type_name))
        case Call():
            return call_type(node, types, scope.functions)
        case Compare() | Both() | Either() | Not() | IsNull() | In() | Like() | Matches():
            _check_condition(node, types)
            return BOOLEAN
        case _:
            assert_never(node)


def _check_condition(
    node: Compare | Both | Either | Not | IsNull | In | Like | Matches, types: Types
) -> None:
    match node:
        case Compare():
            _require_mixing(node, types)
        case Both() | Either() | Not():
            for side, found in zip(children(node), types, strict=True):
                require_boolean(side, found)
        case IsNull():
            pass
        case In():
            _check_in(node, types)
        case Like() | Matches():
            _check_pattern(node, types)
        case _:
            assert_never(node)


def require_boolean(node: Expression, found: pa.DataType) -> None:
    """Refuse what is no condition."""
    if found not in (BOOLEAN, pa.null()):
        raise PlanError(
            f"{brief(node)} is {shown(found)} where a condition is needed",
            hint="Compare it with something.",
            node=node,
        )


def brief(node: Expression) -> str:
    """Print a node for a message, without the middle if it is long."""
    text = to_text(node)
    return text if len(text) <= 120 else f"{text[:80]} … {text[-30:]}"


def _column_type(name: str, schema: Schema) -> pa.DataType:
    if name not in schema:
        raise SchemaError(
            f'column "{name}" does not exist',
            detail=f"The columns are {', '.join(schema.names)}.",
            hint=nearest(name, schema.names),
        )
    return schema.type_of(name)


def _require_mixing(node: Expression, types: Types, verb: str = "compares") -> pa.DataType:
    found = common_type(types)
    if found is None:
        first = next(each for each in types if each != pa.null())
        other = next(each for each in types if common_type([first, each]) is None)
        raise PlanError(
            f"{brief(node)} {verb} {shown(first)} with {shown(other)}",
            hint="Compare values of one kind." if verb == "compares" else "Cast one of them.",
        )
    return found


def _check_in(node: In, types: Types) -> None:
    sets = [each for each in types[1:] if pa.types.is_list(each)]
    if sets and len(node.options) > 1:
        raise PlanError(f"{brief(node)} mixes a set with other options")
    _require_mixing(node, [types[0], types[1].value_type] if sets else types)


def _check_pattern(node: Like | Matches, types: Types) -> None:
    for side, found in zip(children(node), types, strict=True):
        if kind_of(found) not in ("text", "null"):
            raise PlanError(
                f"{brief(side)} is {shown(found)} where a text is needed",
                hint="Cast it to text.",
                node=side,
            )
    pattern = node.pattern.value if isinstance(node.pattern, Literal) else None
    if isinstance(node, Like):
        _check_like(node, pattern if isinstance(pattern, str) else "")
    elif isinstance(pattern, str):
        require_regex(pattern, node.pattern)


def _check_like(node: Like, pattern: str) -> None:
    if node.escape is not None and len(node.escape) != 1:
        raise PlanError(f"'{node.escape}' is not one character", hint="ESCAPE takes just one.")
    fault = like_fault(pattern, node.escape)
    if fault is not None:
        raise PlanError(f"'{pattern[:60]}' is not a pattern", detail=fault, node=node.pattern)


def _number_type(node: Arithmetic | Negative, types: Types) -> pa.DataType:
    if isinstance(node, Negative):
        found = widened(types[0]) if kind_of(types[0]) in NUMBERS | {"null"} else None
        operator = "-"
    else:
        operator = node.operator
        found = arithmetic_type(operator, *types)
    if found is None:
        given = " and ".join(map(shown, types))
        message = f"{brief(node)} computes {operator} of {given}"
        raise PlanError(message, hint=_takes(operator, types))
    return found


def _takes(operator: str, types: Types) -> str:
    if operator == "||":
        return "|| takes texts. Write concat(a, b), which takes any values."
    if operator in ("+", "-") and INSTANTS & {kind_of(each) for each in types}:
        return "Write ts + INTERVAL '5 minutes', or date_add('minute', n, ts)."
    return f"{operator} takes numbers."


def _case_type(node: Case, types: Types) -> pa.DataType:
    for side, found in zip(children(node)[:-1:2], types[:-1:2], strict=True):
        require_boolean(side, found)
    return _require_mixing(node, [*types[1:-1:2], types[-1]], "mixes")


def _cast_type(node: Cast, source: pa.DataType, target: pa.DataType) -> pa.DataType:
    kinds = kind_of(source), kind_of(target)
    if kinds[0] != kinds[1] and kinds[0] != "null" and kinds[1] not in _CASTS[kinds[0]]:
        raise PlanError(f"{shown(source)} cannot be cast to {shown(target)}", node=node)
    return target
