"""What decoding gives, whatever the format: rows that fit the schema, and those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.schema import Schema

REJECTS = pa.schema([("ordinal", pa.int64()), ("reason", pa.string()), ("raw", pa.binary())])


@dataclass(frozen=True, slots=True, eq=False)
class Decoded:
    """One piece of a source, decoded.

    Attributes
    ----------
    rows
        The rows that fit, with exactly the schema's Arrow form.
    ordinals
        Where each of them stands in its source; ascending. The byte offset of the line for
        NDJSON, else the number of the row, of those rejected too.
    rejects
        The others: ordinal, the reason in words, and the original bytes.
    """

    rows: pa.RecordBatch
    ordinals: Ints
    rejects: pa.Table

    def __post_init__(self) -> None:
        assert self.rows.num_rows == self.ordinals.size, "one ordinal a row"

    @classmethod
    def nothing(cls, schema: Schema, rejects: Sequence[tuple[int, str, bytes]] = ()) -> Self:
        """Return no rows, and these rejects."""
        rows = pa.RecordBatch.from_pylist([], schema=schema.to_arrow())
        return cls(rows, np.empty(0, np.int64), reject_table(rejects))


def reject_table(rejects: Sequence[tuple[int, str, bytes]]) -> pa.Table:
    """Make the table of rejects from (ordinal, reason, raw)."""
    ordinals, reasons, raws = zip(*rejects, strict=True) if rejects else ((), (), ())
    columns = [
        pa.array(values, field.type)
        for values, field in zip((ordinals, reasons, raws), REJECTS, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=REJECTS)


def join(pieces: Sequence[Decoded]) -> Decoded:
    """Make one of several pieces, in their order."""
    if len(pieces) == 1:
        return pieces[0]
    return Decoded(
        pa.concat_batches([each.rows for each in pieces]),
        np.concatenate([each.ordinals for each in pieces]),
        pa.concat_tables([each.rejects for each in pieces]),
    )
