"""Looking keys up in a store: the blocks of all its runs side by side, by their fences.

Whoever reads a few keys asks which blocks may hold them once for all runs, and looks only into
those. A lookup is made once for a state of a store, and goes with it; blocks are mapped when they
are first looked into.

Cost: about 20 us for each block that holds a key; 1 us for 100 that do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.state.order import Keys
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run_file import StoredRun, opened
from millrace.state.store_state import StoreState

ANY_TIME = -(1 << 63)

_WIDTHS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


class Lookup:
    """The live rows of a store, by key."""

    def __init__(self, root: Root, state: StoreState) -> None:
        self._blocks: list[Block] = []
        fences: list[tuple[int, int, int, int]] = []
        for run in state.runs:
            for piece in run.pieces:
                stored = opened(root, piece.file).run(piece.run)
                known = stored.blocks
                first = int(np.searchsorted(known.bounds, piece.first, side="right")) - 1
                stop = int(np.searchsorted(known.bounds, piece.stop, side="left"))
                for at in range(first, stop):
                    self._blocks.append(Block(stored, at, piece))
                    ends = int(known.first_keys[at]), int(known.last_keys[at])
                    fences.append((*ends, int(known.max_times[at]), run.epoch))
        lows, highs, newest, epochs = zip(*fences, strict=True) if fences else ((), (), (), ())
        self._lows, self._highs = np.array(lows, np.uint64), np.array(highs, np.uint64)
        self._newest, self._epochs = np.array(newest, np.int64), np.array(epochs, np.int64)

    def take(self, keys: Keys, fields: Sequence[pa.Field]) -> pa.Table:
        """Return some columns of the rows of some keys, ascending, no two rows of one key.

        Plain numbers are gathered by NumPy, which costs a small part of what Arrow takes for few
        rows of many columns.
        """
        low = keys.searchsorted(self._lows, side="left")
        high = keys.searchsorted(self._highs, side="right")
        found: list[tuple[Block, NDArray[np.int64]]] = []
        for at in np.flatnonzero(high > low).tolist():
            places = self._blocks[at].places(keys[low[at] : high[at]])
            if places.size:
                found.append((self._blocks[at], places))
        columns = [_gathered(found, field) for field in fields]
        return pa.Table.from_arrays(columns, schema=pa.schema(fields))

    def stretches(
        self, keys: Keys, *, begin: int = ANY_TIME, first: int = 0
    ) -> Iterator[tuple[Block, slice]]:
        """Yield where the rows of some keys stand, ascending, in the order of runs.

        Blocks without a row as late as `begin`, or of an epoch from `first` on, are left out.
        """
        low = keys.searchsorted(self._lows, side="left")
        high = keys.searchsorted(self._highs, side="right")
        chosen = (high > low) & (self._newest >= begin) & (self._epochs >= first)
        for at in np.flatnonzero(chosen).tolist():
            block = self._blocks[at]
            mine = keys[low[at] : high[at]]
            starts = block.keys.searchsorted(mine, side="left")
            stops = block.keys.searchsorted(mine, side="right")
            for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
                if stop > start:
                    yield block, slice(start, stop)


class Block:
    """The part of one block that a piece names."""

    def __init__(self, stored: StoredRun, ordinal: int, piece: Piece) -> None:
        self._stored, self._ordinal, self._piece = stored, ordinal, piece

    @cached_property
    def rows(self) -> pa.RecordBatch:
        """The rows, pointing into the mapped file."""
        batch, start = self._stored.block(self._ordinal), self._stored.blocks.bounds[self._ordinal]
        first = max(self._piece.first - int(start), 0)
        stop = min(self._piece.stop - int(start), batch.num_rows)
        return batch.slice(first, stop - first)

    @cached_property
    def keys(self) -> Keys:
        """The keys of the rows, ascending."""
        keys: Keys = self.rows.column(0).to_numpy()
        return keys

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What a reader has made of the columns, and wants to find again."""
        return {}

    def plain(self, name: str) -> NDArray[Any] | None:
        """Return a column of numbers, times or truths without NULL as an array; else None."""
        known = self.kept.get(name, self)
        if known is self:
            known = self.kept[name] = _plain(self.rows.column(name))
        found: NDArray[Any] | None = known
        return found

    def places(self, keys: Keys) -> NDArray[np.int64]:
        """Return the places of the rows of some keys, at most one each, within their fences."""
        at = np.minimum(self.keys.searchsorted(keys), len(self.keys) - 1)
        there = self.keys[at] == keys
        return at if there.all() else at[there]


def _plain(column: pa.Array) -> NDArray[Any] | None:
    kind = column.type
    if column.null_count:
        return None
    if pa.types.is_boolean(kind):
        truths: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return truths
    width = kind.bit_width // 8 if pa.types.is_primitive(kind) else 0
    if width not in _WIDTHS:
        return None
    return np.frombuffer(column.buffers()[1], _WIDTHS[width], len(column), column.offset * width)


def _gathered(found: Sequence[tuple[Block, NDArray[np.int64]]], field: pa.Field) -> pa.Array:
    """Return a column of rows that stand at some places of blocks."""
    arrays = [block.plain(field.name) for block, _ in found]
    parts = [array[at] for array, (_, at) in zip(arrays, found, strict=True) if array is not None]
    if len(parts) == len(found) and found:
        whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if pa.types.is_boolean(field.type):
            return pa.array(whole)
        return pa.Array.from_buffers(field.type, len(whole), [None, pa.py_buffer(whole)])
    taken = [block.rows.column(field.name).take(pa.array(at)) for block, at in found]
    return pa.concat_arrays(taken) if taken else pa.array([], field.type)


_lookups: WeakKeyDictionary[StoreState, tuple[str, Lookup]] = WeakKeyDictionary()


def lookup(root: Root, state: StoreState) -> Lookup:
    """Return the lookup of a store as it is in one manifest; made when it is first asked for."""
    known = _lookups.get(state)
    if known is None or known[0] != root.uri:
        known = _lookups[state] = (root.uri, Lookup(root, state))
    return known[1]
