"""Looking keys up in a store: the blocks of all its runs side by side, by their fences.

Whoever reads a few keys asks which blocks may hold them once for all runs, and looks only into
those. A lookup is made once for a state of a store, and goes with it; blocks are mapped when they
are first looked into.

Cost: about 20 us for each block that holds a key; 1 us for 100 that do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from millrace.kernels.sorted_keys import rows_of_keys
from millrace.state.order import Keys
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run_file import StoredRun, opened
from millrace.state.store_state import StoreState

ANY_TIME = -(1 << 63)


class Lookup:
    """The live rows of a store, by key."""

    def __init__(self, root: Root, state: StoreState) -> None:
        self._blocks: list[_Block] = []
        fences: list[tuple[int, int, int, int]] = []
        for run in state.runs:
            for piece in run.pieces:
                stored = opened(root, piece.file).run(piece.run)
                known = stored.blocks
                first = int(np.searchsorted(known.bounds, piece.first, side="right")) - 1
                stop = int(np.searchsorted(known.bounds, piece.stop, side="left"))
                for at in range(first, stop):
                    self._blocks.append(_Block(stored, at, piece))
                    ends = int(known.first_keys[at]), int(known.last_keys[at])
                    fences.append((*ends, int(known.max_times[at]), run.epoch))
        lows, highs, newest, epochs = zip(*fences, strict=True) if fences else ((), (), (), ())
        self._lows, self._highs = np.array(lows, np.uint64), np.array(highs, np.uint64)
        self._newest, self._epochs = np.array(newest, np.int64), np.array(epochs, np.int64)

    def find(
        self, keys: Keys, *, begin: int = ANY_TIME, first: int = 0
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of some keys, ascending, in the order of runs.

        Rows older than `begin`, and those of epochs before `first`, may be left out.
        """
        low = np.searchsorted(keys, self._lows, side="left")
        high = np.searchsorted(keys, self._highs, side="right")
        chosen = (high > low) & (self._newest >= begin) & (self._epochs >= first)
        for at in np.flatnonzero(chosen).tolist():
            found = self._blocks[at].find(keys[low[at] : high[at]])
            if found is not None:
                yield found


class _Block:
    """The part of one block that a piece names."""

    def __init__(self, stored: StoredRun, ordinal: int, piece: Piece) -> None:
        self._stored, self._ordinal, self._piece = stored, ordinal, piece

    @cached_property
    def _rows(self) -> tuple[pa.RecordBatch, Keys]:
        batch, start = self._stored.block(self._ordinal), self._stored.blocks.bounds[self._ordinal]
        first = max(self._piece.first - int(start), 0)
        stop = min(self._piece.stop - int(start), batch.num_rows)
        mine = batch.slice(first, stop - first)
        return mine, mine.column(0).to_numpy()

    def find(self, keys: Keys) -> pa.RecordBatch | None:
        """Return the rows of some keys; those of one key are side by side, and not copied."""
        batch, column = self._rows
        if keys.size == 1:
            first = int(np.searchsorted(column, keys[0], side="left"))
            stop = int(np.searchsorted(column, keys[0], side="right"))
            return batch.slice(first, stop - first) if stop > first else None
        times = batch.column(1).to_numpy()
        at = rows_of_keys(column, times, keys, 0, column.size, ANY_TIME)
        return batch.take(pa.array(at)) if at.size else None


_lookups: WeakKeyDictionary[StoreState, tuple[str, Lookup]] = WeakKeyDictionary()


def lookup(root: Root, state: StoreState) -> Lookup:
    """Return the lookup of a store as it is in one manifest; made when it is first asked for."""
    known = _lookups.get(state)
    if known is None or known[0] != root.uri:
        known = _lookups[state] = (root.uri, Lookup(root, state))
    return known[1]
