"""Schemas: the ordered, typed columns of a stream, and how foreign Arrow data is made to fit.

There are twelve types, each with one Arrow form, so that everything behind the sources may
switch on a short list. What a source delivers (large or dictionary strings, nanoseconds,
unsigned integers) is brought into that form once, where it enters:

    text in SQL      boolean tinyint smallint int bigint float double decimal(p, s)
                     text binary date timestamp
    Arrow form       bool int8 int16 int32 int64 float32 float64 decimal128(p, s)
                     string binary date32 timestamp[us, UTC]

A timestamp without a zone is taken as UTC; finer units than microseconds are cut towards 1970.

Invariant: `Schema.from_arrow(schema.to_arrow()) == schema`, and `conform` returns its argument
itself, without a copy, when it has that Arrow schema already.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

import pyarrow as pa
import pyarrow.types as kinds

from millrace.errors import SchemaError

MISFITS = pa.ArrowInvalid, pa.ArrowNotImplementedError
"""What Arrow raises for values that cannot be of a type."""
TIMESTAMP = pa.timestamp("us", tz="UTC")

_SIMPLE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
}
_ALIASES = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "integer": "int",
    "int64": "bigint",
    "long": "bigint",
    "real": "float",
    "float32": "float",
    "float64": "double",
    "string": "text",
    "varchar": "text",
    "bytes": "binary",
}
_NAMES = {arrow: name for name, arrow in _SIMPLE.items()}
_EXIST = ", ".join([*_SIMPLE, "decimal(p, s)"])
_DECIMAL = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_COLUMN = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s",]+))\s+([^,()"]+(?:\([^)]*\))?)\s*(?:,|$)')


def type_named(text: str) -> pa.DataType:
    """Return the Arrow form of the type that `text` names.

    Examples
    --------
    >>> type_named("bigint"), type_named("decimal(10, 2)")
    (DataType(int64), Decimal128Type(decimal128(10, 2)))
    """
    word = " ".join(text.lower().split())
    if match := _DECIMAL.fullmatch(word):
        precision, scale = int(match[1]), int(match[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    found = _SIMPLE.get(_ALIASES.get(word, word))
    if found is None:
        raise SchemaError(
            f'type "{text.strip()}" does not exist',
            detail=f"The types are {_EXIST}, with 1 <= p <= 38 and 0 <= s <= p.",
            hint=_most_like(word),
        )
    return found


def _most_like(word: str) -> str:
    close = difflib.get_close_matches(word, [*_SIMPLE, *_ALIASES, "decimal"], n=1)
    return f'Did you mean "{close[0]}"?' if close else ""


def type_name(arrow: pa.DataType) -> str:
    """Return the SQL name of one of our types; the opposite of `type_named`."""
    if kinds.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    return _NAMES[arrow]


def nearest_type(arrow: pa.DataType) -> pa.DataType | None:
    """Return the type of ours that holds every value of `arrow`, or None if there is none."""
    if arrow in _NAMES:
        return arrow
    if kinds.is_dictionary(arrow):
        return nearest_type(arrow.value_type)
    if kinds.is_decimal(arrow):
        plain = arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision
        return pa.decimal128(arrow.precision, arrow.scale) if plain else None
    return next((ours for test, ours in _NEAREST if test(arrow)), None)


_NEAREST = (
    (kinds.is_uint8, pa.int16()),
    (kinds.is_uint16, pa.int32()),
    (kinds.is_uint32, pa.int64()),
    (kinds.is_uint64, pa.decimal128(20, 0)),
    (kinds.is_float16, pa.float32()),
    (kinds.is_large_string, pa.string()),
    (kinds.is_string_view, pa.string()),
    (kinds.is_large_binary, pa.binary()),
    (kinds.is_binary_view, pa.binary()),
    (kinds.is_fixed_size_binary, pa.binary()),
    (kinds.is_date64, pa.date32()),
    (kinds.is_timestamp, TIMESTAMP),
)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name and the Arrow form of its type."""

    name: str
    type: pa.DataType

    def __str__(self) -> str:
        plain = re.fullmatch(r"[^\s\",()]+", self.name)
        shown = self.name if plain else '"' + self.name.replace('"', '""') + '"'
        return f"{shown} {type_name(self.type)}"


@dataclass(frozen=True, slots=True)
class Schema:
    """The ordered columns of a stream or table.

    Names are unique without regard to case, because SQL looks them up that way, and do not
    start with "_", which is kept for columns that millrace adds.

    Examples
    --------
    >>> schema = Schema.of("symbol text, price double, ts timestamp")
    >>> schema.names
    ('symbol', 'price', 'ts')
    >>> str(schema)
    'symbol text, price double, ts timestamp'
    """

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        if not self.columns:
            raise SchemaError("a schema has no columns", hint="Declare at least one column.")
        seen: dict[str, str] = {}
        for column in self.columns:
            if not column.name or column.name.startswith("_"):
                raise SchemaError(
                    f'column name "{column.name}" is reserved',
                    detail='Names that are empty or start with "_" belong to millrace.',
                    hint="Rename the column.",
                )
            if (folded := column.name.casefold()) in seen:
                raise SchemaError(
                    f'column "{column.name}" is declared twice',
                    detail=f'It clashes with "{seen[folded]}"; case does not count.',
                )
            seen[folded] = column.name

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a declaration such as `symbol text, price double`."""
        columns, position = [], 0
        while position < len(text):
            match = _COLUMN.match(text, position)
            if match is None:
                raise SchemaError(
                    f'"{text[position:].strip()}" is not a column declaration',
                    hint="Write a name and a type, separated by commas: symbol text, price double.",
                )
            name = match[1].replace('""', '"') if match[1] else match[2]
            columns.append(Column(name, type_named(match[3])))
            position = match.end()
        return cls(tuple(columns))

    @classmethod
    def from_arrow(cls, arrow: pa.Schema) -> Self:
        """Return the schema of ours that holds what data of the Arrow schema holds."""
        columns = []
        for field in arrow:
            ours = nearest_type(field.type)
            if ours is None:
                raise SchemaError(
                    f'column "{field.name}" has the Arrow type {field.type}, which has no SQL type',
                    detail=f"The types are {_EXIST}.",
                    hint="Cast or drop the column at the source.",
                )
            columns.append(Column(field.name, ours))
        return cls(tuple(columns))

    def to_arrow(self) -> pa.Schema:
        """Return the Arrow schema that every batch of this schema has."""
        return _to_arrow(self.columns)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return cls(tuple(Column(name, type_named(kind)) for name, kind in json.loads(text)))

    def to_json(self) -> str:
        """Write the columns as a JSON list of [name, type]."""
        return json.dumps([[each.name, type_name(each.type)] for each in self.columns])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(each.name for each in self.columns)

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of the column of exactly that name."""
        for each in self.columns:
            if each.name == name:
                return each.type
        raise SchemaError(
            f'column "{name}" does not exist', detail=f"The columns are {', '.join(self.names)}."
        )

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __str__(self) -> str:
        return ", ".join(str(each) for each in self.columns)


class Columns(Schema):
    """A schema of rows of ours, whose names may be reserved ones."""

    __slots__ = ()

    def __post_init__(self) -> None:
        """Allow every name."""


@lru_cache(maxsize=1024)
def _to_arrow(columns: tuple[Column, ...]) -> pa.Schema:
    return pa.schema([pa.field(each.name, each.type) for each in columns])


_BYTES_AS = {pa.binary(): pa.string()}  # old writers leave the text mark off; UTF-8 is checked


def castable(source: pa.DataType, target: pa.DataType) -> bool:
    """Say whether values of `source` become `target` by their meaning, if they are in range."""
    if source == target or kinds.is_null(source):
        return True
    if kinds.is_dictionary(source):
        return castable(source.value_type, target)
    if kinds.is_integer(source):
        tests = (kinds.is_integer, kinds.is_floating, kinds.is_decimal)
        return any(test(target) for test in tests)
    for test in (kinds.is_decimal, kinds.is_floating):
        if test(source):
            return bool(test(target))
    nearest = nearest_type(source)
    return nearest is not None and target in {nearest, _BYTES_AS.get(nearest)}


def cast_array(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array:
    """Cast to one of our types; raise `pyarrow.ArrowInvalid` if a value is out of range."""
    if kinds.is_dictionary(array.type):
        array = _decoded(array)
    if array.type == target:
        return array
    if kinds.is_decimal(target) and kinds.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))  # else Arrow asks for room for every int64
    lossy = kinds.is_timestamp(target) or kinds.is_floating(target)
    if kinds.is_timestamp(target) and array.type.tz is None:
        array = array.cast(pa.timestamp(array.type.unit, tz="UTC"))
    coarser = kinds.is_timestamp(target) and array.type.unit in {"s", "ms"}
    return array.cast(target, safe=not lossy or coarser)


def _decoded(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    value_type = array.type.value_type
    if kinds.is_string_view(value_type) or kinds.is_binary_view(value_type):
        plain = nearest_type(value_type)  # Arrow has no take() for views
        array = array.cast(pa.dictionary(array.type.index_type, plain))
    return array.cast(array.type.value_type)


def conform(data: pa.RecordBatch | pa.Table, schema: Schema) -> pa.RecordBatch:
    """Return `data` as one batch of exactly this schema; columns it does not name are dropped.

    Raises
    ------
    SchemaError
        If a column is missing, has a type of another kind, or holds a value out of range.
    """
    arrow = schema.to_arrow()
    if isinstance(data, pa.RecordBatch) and data.schema.equals(arrow):
        return data
    columns = [_conform_column(data, each) for each in schema]
    if isinstance(data, pa.Table):
        columns = [_one_chunk(each) for each in columns]
    return pa.RecordBatch.from_arrays(columns, schema=arrow)


def _one_chunk(array: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    return array


def _conform_column(data: pa.RecordBatch | pa.Table, column: Column) -> pa.Array:
    at = data.schema.get_field_index(column.name)
    if at < 0:
        raise SchemaError(
            f'column "{column.name}" is missing',
            detail=f"The data has the columns {', '.join(data.schema.names)}.",
        )
    array = data.column(at)
    if not castable(array.type, column.type):
        raise SchemaError(
            f'column "{column.name}" is {array.type} and not {type_name(column.type)}',
            hint="Declare the column with the type that the source has.",
        )
    try:
        return cast_array(array, column.type)
    except pa.ArrowInvalid as cause:
        raise SchemaError(
            f'column "{column.name}" holds a value that is not a {type_name(column.type)}',
            detail=f"Arrow says: {cause}.",
        ) from cause
