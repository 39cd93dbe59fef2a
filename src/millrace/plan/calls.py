"""Calls of functions: which one is meant, whether its arguments fit, and its type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millrace.errors import PlanError, UnknownNameError
from millrace.plan.expressions import Call, Expression, Literal
from millrace.plan.foreign_functions import INSTEAD
from millrace.plan.nearest import nearest
from millrace.plan.patterns import FORMATS, LONGEST, format_fault, regex_fault
from millrace.plan.signatures import IN_UNITS, SIGNATURES, UNITS
from millrace.plan.types import shown

Functions = Mapping[str, pa.DataType]
"""The registered functions: each one's name and the type of what it returns."""

_REGISTER = "Register it with Session.function before the query."


def call_type(node: Call, types: Sequence[pa.DataType], functions: Functions) -> pa.DataType:
    """Return the type of a call; a registered function hides one of ours."""
    if node.function in functions:
        return functions[node.function]
    signature = SIGNATURES.get(node.function)
    if signature is None:
        raise UnknownNameError(
            f'function "{node.function}" does not exist',
            detail=f"The registered functions are {', '.join(functions)}." if functions else "",
            hint=INSTEAD.get(node.function) or _like(node.function, functions),
        )
    if not signature.accepts(types):
        given = ", ".join(map(shown, types))
        raise PlanError(
            f'function "{node.function}" does not take ({given})',
            detail=f"It takes {signature.describe(node.function)}.",
        )
    check_constants(node)
    return signature.returns(types)


def _like(name: str, functions: Functions) -> str:
    return f"{nearest(name, [*functions, *SIGNATURES])} {_REGISTER}".strip()


def check_constants(node: Call) -> None:
    """Refuse constants that the function could not work with: patterns, units, flags."""
    constants = [each.value if isinstance(each, Literal) else None for each in node.arguments]
    if node.function in IN_UNITS and isinstance(constants[0], str):
        if constants[0].lower() not in UNITS:
            raise PlanError(
                f'"{constants[0]}" is not a unit of time',
                detail=f"The units are {', '.join(UNITS)}.",
                hint=nearest(constants[0].lower(), UNITS),
                node=node.arguments[0],
            )
    elif node.function == "strftime" and isinstance(constants[1], str):
        _check_format(node, constants[1])
    elif node.function in ("regexp_replace", "regexp_extract"):
        if isinstance(constants[1], str):
            require_regex(constants[1], node.arguments[1])
        check = _check_replacement if node.function == "regexp_replace" else _check_group
        check(node, constants)


def _check_format(node: Call, text: str) -> None:
    unknown = format_fault(text)
    if unknown is not None:
        raise PlanError(
            f"strftime does not know %{unknown}",
            detail=f"It knows {', '.join(f'%{each}' for each in FORMATS)}.",
            node=node.arguments[1],
        )


def require_regex(pattern: str, node: Expression) -> None:
    """Refuse a regular expression that RE2 does not take."""
    fault = regex_fault(pattern)
    if fault is not None:
        text = pattern if len(pattern) <= 60 else pattern[:60] + "…"
        raise PlanError(
            f"'{text}' is not a regular expression",
            detail=fault,
            hint="The syntax is RE2's, without backreferences and lookaround.",
            node=node,
        )


def _check_replacement(node: Call, constants: Sequence[object]) -> None:
    flags = constants[3] if len(constants) > 3 else None
    if isinstance(flags, str) and not set(flags) <= set("gi"):
        raise PlanError(
            f"'{flags}' are not flags of regexp_replace",
            detail="The flags are g (replace every match) and i (ignore case).",
            node=node.arguments[3],
        )
    pattern, replacement = constants[1], constants[2]
    if isinstance(pattern, str) and isinstance(replacement, str):
        try:
            pc.replace_substring_regex(pa.array([""]), pattern=pattern, replacement=replacement)
        except pa.ArrowInvalid as cause:
            raise PlanError(
                f"'{replacement}' does not replace what the pattern finds",
                detail=f"RE2 says: {cause}.",
                node=node.arguments[2],
            ) from cause


def _check_group(node: Call, constants: Sequence[object]) -> None:
    group = constants[2] if len(constants) > 2 else None
    if isinstance(constants[1], str) and len(constants[1]) > LONGEST - 40:
        raise PlanError("the pattern is too long to extract with", node=node.arguments[1])
    if isinstance(group, int) and not 0 <= group <= 8:
        raise PlanError(
            f"group {group} cannot be extracted",
            detail="Groups are numbered from 1 to 8; 0 is all that was found.",
            node=node.arguments[2],
        )
