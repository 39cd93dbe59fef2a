r"""Values in `.slt` files: how they are read, by their type, and how they are written.

text        word or 'quoted ''text'''; e'\t\u00e9' has Python's escapes
binary      x'00ff'
numbers     12, -1.5, NaN, inf
others      true, 2024-02-29, 2024-02-29T12:00:00Z; a bare number is a timestamp in seconds
NULL        of any type; 'NULL' is a text
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from millrace.plan.types import Kind, kind_of
from millrace.time import SECOND

_PLAIN = re.compile(r"[^\W\d][\w.-]*")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_RESERVED = ("NULL", "true", "false")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_value(token: str, arrow: pa.DataType) -> Any:  # noqa: ANN401
    """Read a value of a type; raises `ValueError` if it is none."""
    if token == "NULL":
        return None
    kind = kind_of(arrow)
    if token.startswith("x'"):
        return bytes.fromhex(token[2:-1])
    if token.startswith("e'"):
        token = token[2:-1].encode("latin-1", "backslashreplace").decode("unicode_escape")
    elif token.startswith("'"):
        token = token[1:-1].replace("''", "'")
    return token if kind == "text" else _READERS[kind](token)


def read_array(tokens: Sequence[str], arrow: pa.DataType) -> pa.Array:
    """Read the values of a column."""
    return pa.array([read_value(each, arrow) for each in tokens], arrow)


def micros_of(text: str) -> int | None:
    """Return an instant, written in seconds, in microseconds."""
    return None if text == "NULL" else round(Decimal(text) * SECOND)


def write_value(value: object) -> str:
    """Write a value so that `read_value` reads it again."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case str():
            return _text(value)
        case bytes():
            return f"x'{value.hex()}'"
        case float():
            return "NaN" if value != value else repr(value)  # noqa: PLR0124  only NaN does
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case _:
            return str(value)


def write_row(values: Sequence[object]) -> str:
    """Write a row."""
    return " ".join(write_value(each) for each in values)


def _text(value: str) -> str:
    if _PLAIN.fullmatch(value) and value not in _RESERVED and value.isprintable():
        return value
    if value.isprintable():
        doubled = value.replace("'", "''")
        return f"'{doubled}'"
    escaped = value.encode("unicode_escape").decode("ascii").replace("'", "\\x27")
    return f"e'{escaped}'"


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(f"{text} is neither true nor false")
    return text == "true"


def _timestamp(text: str) -> datetime:
    if _NUMBER.fullmatch(text):
        return _EPOCH + timedelta(microseconds=round(Decimal(text) * SECOND))
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


_READERS: dict[Kind, Callable[[str], object]] = {
    "boolean": _boolean,
    "integer": int,
    "decimal": Decimal,
    "floating": float,
    "binary": str.encode,
    "date": date.fromisoformat,
    "timestamp": _timestamp,
}
