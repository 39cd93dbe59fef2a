"""Parquet files, by row groups.

A file that lacks a column, or has it with a type of another kind, is rejected as a whole, in one
reject whose raw value is the path: NULLs in its place would be wrong in silence. Values that are
out of range of a narrower type (a bigint beyond int) are rejected row by row. A file that cannot
be read at all is a SourceError, because what its rows were nobody knows.

The ordinal of a row is its number in the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from millrace.connectors.formats.decoded import Decoded, reject_table
from millrace.connectors.formats.options import ReadOptions
from millrace.connectors.splits import FileSplit, open_parquet, raise_if_passing
from millrace.errors import SchemaError, SourceError
from millrace.kernels.arrays import Bools, Ints
from millrace.schema import Schema, cast_array, castable, conform, type_name


def read_parquet(split: FileSplit, schema: Schema, options: ReadOptions) -> Iterator[Decoded]:
    """Decode the row groups of a split."""
    with open_parquet(split.path) as file:
        if reason := _misfit(file.schema_arrow, schema):
            if split.first == 0:  # one reject for the file, not one for each split
                yield Decoded.nothing(schema, [(0, reason, split.path.encode())])
            return
        ordinal = _n_rows_before(file, split.first)
        for batch in _batches(file, split, schema, options.piece_rows):
            ordinals = np.arange(ordinal, ordinal + batch.num_rows)
            ordinal += batch.num_rows
            yield fit_rows(batch, schema, ordinals)


def _misfit(arrow: pa.Schema, schema: Schema) -> str:
    """Say why no row of the file can fit, or nothing."""
    for column in schema:
        at = arrow.get_field_index(column.name)
        if at < 0:
            return f"the file lacks the column {column.name}; it has {', '.join(arrow.names)}"
        if not castable(arrow.field(at).type, column.type):
            ours = type_name(column.type)
            return f"column {column.name} is {arrow.field(at).type} in the file and not {ours}"
    return ""


def _n_rows_before(file: pq.ParquetFile, group: int) -> int:
    return sum(file.metadata.row_group(index).num_rows for index in range(group))


def _batches(
    file: pq.ParquetFile, split: FileSplit, schema: Schema, piece_rows: int
) -> Iterator[pa.RecordBatch]:
    groups = list(range(split.first, min(split.stop, file.metadata.num_row_groups)))
    if not groups:
        return
    pieces = file.iter_batches(
        piece_rows, row_groups=groups, columns=list(schema.names), use_threads=False
    )
    try:
        yield from pieces
    except (OSError, pa.ArrowException) as cause:
        raise_if_passing(cause, split.path)
        raise SourceError(
            f'Parquet file "{split.path}" cannot be read',
            detail=f"The reader says: {cause}",
            hint="Remove the file or write it again; the stream cannot know its rows.",
        ) from cause


def fit_rows(batch: pa.RecordBatch, schema: Schema, ordinals: Ints) -> Decoded:
    """Make a batch conform, and reject the rows that hold a value out of range."""
    try:
        return Decoded(conform(batch, schema), ordinals, reject_table([]))
    except SchemaError:
        pass
    reasons: dict[int, str] = {}
    for column in schema:
        array = batch.column(batch.schema.get_field_index(column.name))
        for row in _out_of_range(array, column.type, 0):
            shown = _shown(array[row])
            fact = f"column {column.name}: {shown} is outside the range of {type_name(column.type)}"
            reasons.setdefault(row, fact)
    keep: Bools = np.ones(batch.num_rows, np.bool_)
    keep[list(reasons)] = False
    rejects = [(int(ordinals[row]), reasons[row], _raw(batch, row)) for row in sorted(reasons)]
    fitting = conform(batch.filter(pa.array(keep)), schema)
    return Decoded(fitting, ordinals[keep], reject_table(rejects))


def _out_of_range(array: pa.Array, arrow: pa.DataType, base: int) -> list[int]:
    """Find the values that do not cast, by halving: each costs about log2(rows) casts."""
    try:
        cast_array(array, arrow)
    except pa.ArrowInvalid:
        if len(array) == 1:
            return [base]
        half = len(array) // 2
        left = _out_of_range(array.slice(0, half), arrow, base)
        return left + _out_of_range(array.slice(half), arrow, base + half)
    return []


def _raw(batch: pa.RecordBatch, row: int) -> bytes:
    cells = (
        f"{json.dumps(name)}: {_shown(batch.column(name)[row])}" for name in batch.schema.names
    )
    return f"{{{', '.join(cells)}}}".encode("utf-8", "replace")


def _shown(value: pa.Scalar) -> str:
    """Spell a value as JSON; a time beyond Python's calendar as its number."""
    try:
        plain = value.as_py()
    except (OverflowError, ValueError):
        plain = value.value
    return json.dumps(plain, default=str, ensure_ascii=False)
