"""Rows and values in JSON, as events carry them, to Arrow, and values back.

JSON has no form for most types. Timestamps are ISO 8601 in UTC with microseconds, decimals and
integers beyond 2^53 are strings, binary is base64, NaN and the infinities are strings.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.types as kinds

from millrace.errors import SourceError
from millrace.schema import type_named
from millrace.time import print_instant, to_instant

EXACT = 2**53
"""The greatest integer up to which every reader of JSON is exact."""
_UNBOUNDED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}

Reader: TypeAlias = Callable[[Any], Any]


def table_of_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows, each an object by column, as a table of a schema.

    >>> schema = pa.schema({"price": pa.decimal128(5, 2), "size": pa.int64()})
    >>> table_of_rows([{"price": "1.50", "size": None}], schema).to_pylist()
    [{'price': Decimal('1.50'), 'size': None}]
    """
    listed = list(rows)
    columns = [_array([row.get(field.name) for row in listed], field) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def table_of_lists(
    rows: Iterable[Sequence[Any] | Mapping[str, Any]], columns: Sequence[Any]
) -> pa.Table:
    """Return rows of an outcome, which says its columns and their types, as a table."""
    schema = pa.schema([_field(each) for each in columns])
    names = schema.names
    return table_of_rows(
        (row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)) for row in rows),
        schema,
    )


def _field(column: Any) -> pa.Field:  # noqa: ANN401  a name and a type, in some form
    if isinstance(column, Mapping):
        return pa.field(str(column["name"]), arrow_type(str(column.get("type", "text"))))
    name, kind = column
    return pa.field(str(name), arrow_type(str(kind)))


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow form of a type that a server names, such as `text[]`."""
    if name.endswith("[]"):
        return pa.list_(arrow_type(name[:-2]))
    return _PLAIN[name] if name in _PLAIN else type_named(name)


_PLAIN = {"uint64": pa.uint64(), "ubigint": pa.uint64(), "null": pa.null()}


def _array(values: list[Any], field: pa.Field) -> pa.Array:
    read = reader_of(field.type)
    try:
        found = [None if value is None else read(value) for value in values]
        return pa.array(found, _integers(field.type)).cast(field.type)
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException) as cause:
        raise SourceError(
            f'the server sent a value of column "{field.name}" that is not {field.type}',
            detail=f"{cause}.",
            hint="Do the client and the server have the same version?",
        ) from cause


def _integers(kind: pa.DataType) -> pa.DataType:
    """Return the type to build an array as: instants are integers, beyond any calendar too."""
    return pa.int64() if kinds.is_timestamp(kind) else kind


def reader_of(kind: pa.DataType) -> Reader:
    """Return what makes a Python value of a type out of its JSON."""
    if kinds.is_list(kind):
        inner = reader_of(kind.value_type)
        return lambda values: [None if each is None else inner(each) for each in values]
    return next((read for test, read in _READERS if test(kind)), lambda value: value)


def _instant(text: str | int) -> int:
    if isinstance(text, int):
        return text
    return int(text.removesuffix(" us")) if text.endswith(" us") else to_instant(text)


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Reader], ...] = (
    (kinds.is_integer, int),
    (kinds.is_floating, float),
    (kinds.is_decimal, lambda value: Decimal(str(value))),
    (kinds.is_binary, base64.b64decode),
    (kinds.is_date, date.fromisoformat),
    (kinds.is_timestamp, _instant),
)


def json_value(value: object) -> object:
    """Spell a value in JSON.

    >>> json_value(Decimal("1.50")), json_value(float("nan")), json_value(2**60), json_value(b"x")
    ('1.50', 'NaN', '1152921504606846976', 'eA==')
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if abs(value) <= EXACT else str(value)
        case float():
            return value if math.isfinite(value) else _UNBOUNDED[str(value)]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return print_instant(to_instant(value))
        case date():
            return value.isoformat()
        case list() | tuple():
            return [json_value(each) for each in value]
        case _:
            return str(value)
