"""Names and constants as statements print them: so that they are read back as what they were."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TypeAlias

from millrace.lang.cursor import RESERVED
from millrace.plan.expressions import Scalar
from millrace.schema import Schema, type_name

Value: TypeAlias = Scalar | tuple[Scalar, ...]
"""The value of an option or a parameter: a constant, or several."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def name_text(name: str) -> str:
    """Print a name, quoted if it must be.

    >>> name_text("trades"), name_text("my trades"), name_text("select")
    ('trades', '"my trades"', '"select"')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED:
        return name
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def option_text(name: str) -> str:
    """Print the name of an option, which may be a reserved word."""
    return name if _PLAIN.fullmatch(name) else name_text(name)


def names_text(names: Iterable[str]) -> str:
    """Print names with commas."""
    return ", ".join(map(name_text, names))


def schema_text(schema: Schema) -> str:
    """Print columns and their types."""
    return ", ".join(f"{name_text(each.name)} {type_name(each.type)}" for each in schema)


def value_text(value: Value) -> str:
    """Print the value of an option."""
    if isinstance(value, tuple):
        return f"({', '.join(map(constant_text, value))})"
    return constant_text(value)


def constant_text(value: Scalar) -> str:
    """Print a constant so that it is read back as the same value."""
    match value:
        case None | bool():
            return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
        case str():
            doubled = value.replace("'", "''")
            return f"'{doubled}'"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP '{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float():
            shown = repr(value)
            return shown if "e" in shown else shown + "e0"
        case Decimal():
            return f"{value:f}"
        case _:
            return str(value)
