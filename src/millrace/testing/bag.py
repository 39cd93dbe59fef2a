"""Bags: rows without their order, compared by value so that NaN, -0.0 and NULL are themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import pyarrow as pa

Bag: TypeAlias = Counter[tuple[str, ...]]


def bag(rows: Iterable[Sequence[object]]) -> Bag:
    """Count equal rows; values are spelt by `repr`, which tells 0.0 from -0.0 and NaN from all.

    >>> bag([(1.0, None), (1.0, None)]) == bag([(1.0, None)])
    False
    """
    return Counter(tuple(repr(value) for value in row) for row in rows)


def bag_of(table: pa.Table, names: Sequence[str] | None = None) -> Bag:
    """Count the rows of a table; timestamps are taken as microseconds."""
    columns = [table.column(name) for name in names or table.column_names]
    return bag(zip(*(_values(column) for column in columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[object]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    values: list[object] = column.to_pylist()
    return values
