"""Our types in DuckDB: values go there in a form whose order and equality are ours.

Instants go as whole numbers, because DuckDB takes the ends of their range for infinities, and has
calendars and time zones of its own. All other values are the same there.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as kinds

from millrace.operators.vectors import Datum

_WORDS = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
}


def stored_type(arrow: pa.DataType) -> pa.DataType:
    """Return the type in which values of a type are given to DuckDB."""
    if kinds.is_list(arrow):
        return pa.list_(stored_type(arrow.value_type))
    if kinds.is_timestamp(arrow):
        return pa.int64()
    return pa.int32() if kinds.is_date(arrow) else arrow


def type_word(arrow: pa.DataType) -> str:
    """Return DuckDB's name of the type in which values of a type are given to it.

    >>> type_word(pa.list_(pa.date32())), type_word(pa.decimal128(5, 2))
    ('INTEGER[]', 'DECIMAL(5,2)')
    """
    stored = stored_type(arrow)
    if kinds.is_list(stored):
        return f"{type_word(stored.value_type)}[]"
    if kinds.is_struct(stored):
        return f"STRUCT({', '.join(f'{each.name} {type_word(each.type)}' for each in stored)})"
    if kinds.is_decimal(stored):
        return f"DECIMAL({stored.precision},{stored.scale})"
    return _WORDS[stored]


def to_stored(values: Datum) -> Datum:
    """Return values as they are given to DuckDB."""
    return values.cast(stored_type(values.type))


def from_stored(values: Datum, arrow: pa.DataType) -> Datum:
    """Return values that DuckDB gave as values of our type."""
    return values if values.type == arrow else values.cast(arrow)
