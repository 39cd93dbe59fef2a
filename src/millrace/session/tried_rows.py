"""Rows that a query is tried on: histories of streams, oldest first, in loads that fit into memory.

    ── time ──►  │ load │  load  │ load │      each of all streams, and of about as many rows

Histories are stored by key, so a load reads what its stretch of time has in all files. How long the
stretch is follows from how many rows the last one had; one with far too many is made shorter before
it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.stores import rows_store
from millrace.errors import ReadLimitError
from millrace.reading.history import history, retained_since
from millrace.reading.room import Room, certain_rows
from millrace.state.manifest import Manifest, Run
from millrace.state.merge import LAST_TIME
from millrace.state.order import TIME
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import Range, read_piece

LOAD_ROWS = 200_000


class TriedRows:
    """What some streams retain from an instant on."""

    def __init__(
        self,
        root: Root,
        manifest: Manifest,
        catalog: Catalog,
        names: Sequence[str],
        begin: int | None,
    ) -> None:
        self._read, self._names = (root, manifest, catalog), names
        self._root, self._since = root, {}
        self._runs: dict[str, tuple[Run, ...]] = {}
        for name in names:
            spec = catalog.streams[name]
            least = retained_since(spec, manifest, catalog)
            self._since[name] = least if begin is None else max(least, begin)
            state = manifest.stores.get(rows_store(spec))
            self._runs[name] = () if state is None else state.runs

    def count(self) -> int:
        """Count the rows; of files that are wanted in part, only their times are read."""
        return sum(self._count(name) for name in self._names)

    def loads(self, n_rows: int) -> Iterator[dict[str, pa.Table]]:
        """Yield the rows of all streams, which are so many, stretch by stretch of time.

        If too many have one time, that is the end.
        """
        first, stop = self._span()
        length = max((stop - first) * LOAD_ROWS // max(n_rows, 1), 1)
        while first < stop:
            room, end = Room(2 * LOAD_ROWS), min(first + length, stop)
            try:
                load = {name: history(*self._read, name, max(first, self._since[name]), end,
                                      room=room) for name in self._names}  # fmt: skip
            except ReadLimitError:
                if length == 1:
                    return
                length = max(length // 4, 1)
                continue
            yield load
            first = end
            if 2 * room.n_rows < LOAD_ROWS:
                length *= 2

    def _count(self, name: str) -> int:
        times = self._since[name], LAST_TIME
        n_rows = certain_rows(self._runs[name], times)
        for piece in self._pieces(name):
            if piece.min_time < times[0] <= piece.max_time:
                n_rows += read_piece(self._root, piece, times=times, columns=[TIME]).num_rows
        return n_rows

    def _span(self) -> Range:
        """Return the time of the first row, and one behind the last, as far as pieces know it."""
        ends = [(max(piece.min_time, self._since[name]), piece.max_time + 1)
                for name in self._names for piece in self._pieces(name)]  # fmt: skip
        firsts, stops = zip(*ends, strict=True) if ends else ((0,), (0,))
        return min(firsts), max(stops)

    def _pieces(self, name: str) -> Iterator[Piece]:
        for run in self._runs[name]:
            yield from run.pieces
