"""Elements of streams in runs: what has come ahead of time, and what plans read again.

They are stored without the stream's column of times, which their own time says, and with the epoch
in which they have come (`plan_stores`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.plan_stores import EPOCH, ElementStore, element_schema
from millrace.engine.streams import StreamSpec
from millrace.kernels.arrays import Bools, Hashes
from millrace.operators.relational.slab import Elements
from millrace.plan.bands import Laid
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import note_keys, read_due, read_keys, read_piece

Range = tuple[int, int]


def stored(rows: pa.Table, spec: StreamSpec, laid: Laid | None, epoch: int) -> pa.Table:
    """Return rows of a stream, with keys and times, as they are stored."""
    return with_epoch(rows, epoch).select(element_schema(spec, laid).names)


def with_epoch(rows: pa.Table, epoch: int) -> pa.Table:
    """Return rows with the epoch in which they have come."""
    return rows.append_column(EPOCH, pa.array(np.full(rows.num_rows, epoch, np.uint32)))


@dataclass(frozen=True, slots=True)
class StoredElements:
    """The elements that one plan sees in one shard: those that came when it had `entered`.

    What is before the instant `begin` it has seen already.
    """

    root: Root
    held: Mapping[str, Sequence[Piece]]
    catalog: Catalog
    stores: Mapping[str, ElementStore]
    keys: Range
    entered: int
    begin: int

    def waiting(self, stream: str, end: int) -> pa.Table:
        """Return what waited for a slab, with the columns `_time` and `_epoch`."""
        return self._seen(stream, self._read(stream, (self.begin, end)))

    def between(self, stream: str, begin: int, end: int) -> Elements:
        """Return those before the slab whose time is in [begin, end)."""
        return as_elements(self.before(stream, begin, end))

    def before(self, stream: str, begin: int, end: int) -> pa.Table:
        """Return what `between` does, with the columns `_time` and `_epoch`."""
        return self._seen(stream, self._read(stream, (begin, min(end, self.begin))))

    def of(self, stream: str, keys: Hashes, after: int) -> Elements:
        """Return those before the slab of some keys, whose time is greater than `after`."""
        return as_elements(self.keyed(stream, keys, after))

    def keyed(self, stream: str, keys: Hashes, after: int) -> pa.Table:
        """Return what `of` does, with the columns `_time` and `_epoch`."""
        pieces = [each for each in self._pieces(stream) if each.max_time > after]
        tables = [read_keys(self.root, piece, keys, after) for piece in pieces]
        past = [each.filter(pa.array(_times(each) < self.begin)) for each in tables]
        return self._seen(stream, past)

    def having(self, stream: str, keys: Hashes, after: int) -> Bools:
        """Say which of some keys there may be elements of whose time is greater than `after`."""
        noted = np.zeros(len(keys), np.bool_)
        for piece in self._pieces(stream):
            if piece.max_time > after:
                note_keys(self.root, piece, keys, after, noted)
        return noted

    def _pieces(self, stream: str) -> Sequence[Piece]:
        return self.held.get(self.stores[stream].name, ())

    def _read(self, stream: str, times: Range) -> list[pa.Table]:
        read = read_due if self.stores[stream].order == "time" else read_piece
        return [
            read(self.root, piece, keys=self.keys, times=times)
            for piece in self._pieces(stream)
            if piece.min_time < times[1] and piece.max_time >= times[0]
        ]

    def _seen(self, stream: str, tables: Sequence[pa.Table]) -> pa.Table:
        """Leave out what came before the plan; give the rows of the stream, with their times."""
        spec, laid = self.catalog.stream(stream), self.stores[stream].laid
        table = pa.concat_tables([element_schema(spec, laid).empty_table(), *tables])
        if table.num_rows:
            seen = table.column(EPOCH).to_numpy() >= self.entered
            table = table if seen.all() else table.filter(pa.array(seen))
        stamps = table.column("_time").cast(spec.schema.type_of(spec.time))
        names = ["_time", EPOCH, *spec.schema.names, *laid_names(laid)]
        return table.append_column(spec.time, stamps).select(names)


def laid_names(laid: Laid | None) -> list[str]:
    """Return the columns that rows have where they are laid out over ranges."""
    return [] if laid is None else [each.name for each in laid.columns]


def _times(table: pa.Table) -> np.ndarray:
    times: np.ndarray = table.column("_time").to_numpy()
    return times


def as_elements(table: pa.Table) -> Elements:
    """Return rows of a stream, with the time and the epoch of each, as operators take them."""
    batches = table.combine_chunks().to_batches()
    rows = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
    names = [each for each in rows.schema.names if each not in ("_time", EPOCH)]
    return Elements(rows.select(names), rows.column("_time").to_numpy())
