"""A scanned block: the cells of many rows in a block of bytes, and what becomes of them.

This is where JSON and CSV meet. A scanner has found each row's cells and each row's fault; here
columns are read, rows with a fault or with a cell that does not fit are set apart with their
original bytes, and the rest is a batch. Python runs once a column, and once a rejected row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.connectors.formats.columns import Cells, describe, read_column
from millrace.connectors.formats.decoded import Decoded, reject_table
from millrace.kernels.arrays import Bytes, Ints
from millrace.schema import Schema

NO_FAULT, BLANK = 0, 1  # the same for every scanner; what is above rejects the row


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows `data[row_firsts[i]:row_stops[i]]` and their cells, by column and row."""

    data: Bytes
    row_firsts: Ints
    row_stops: Ints
    firsts: Ints
    stops: Ints
    kinds: Bytes
    faults: Bytes
    describe_fault: Callable[[int], str]
    quote: int = 0
    loose: bool = False

    def column(self, index: int) -> Cells:
        """Return the cells of one column."""
        spans = self.firsts[index], self.stops[index], self.kinds[index]
        return Cells(self.data, *spans, self.loose, self.quote)

    def raw(self, row: int) -> bytes:
        """Return the original bytes of a row, without the newline."""
        return self.data[self.row_firsts[row] : self.row_stops[row]].tobytes().rstrip(b"\r\n")


def decode_block(block: Block, schema: Schema, ordinals: Ints) -> Decoded:
    """Turn a scanned block into rows and rejects."""
    arrays, states = [], np.zeros(block.kinds.shape, np.uint8)
    for index, column in enumerate(schema):
        array, states[index] = read_column(block.column(index), column.type)
        arrays.append(array)
    rows = pa.RecordBatch.from_arrays(arrays, schema=schema.to_arrow())

    bad = (block.faults > BLANK) | states.any(axis=0)
    keep = ~bad & (block.faults != BLANK)
    if not keep.all():
        rows, kept = rows.filter(pa.array(keep)), ordinals[keep]
    else:
        kept = ordinals
    rejects = [
        (int(ordinals[row]), _reason(block, schema, states[:, row], row), block.raw(row))
        for row in np.flatnonzero(bad).tolist()
    ]
    return Decoded(rows, kept, reject_table(rejects))


def _reason(block: Block, schema: Schema, states: Bytes, row: int) -> str:
    if block.faults[row] != NO_FAULT:
        return block.describe_fault(row)
    index = int(np.flatnonzero(states)[0])
    column = schema.columns[index]
    return describe(column.name, column.type, block.column(index), row, int(states[index]))
