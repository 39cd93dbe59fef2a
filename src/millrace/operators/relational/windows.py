"""Windows: when each element of a stream is in the relation that a window makes of it.

Windows of time know both ends at once. Windows of rows know the end of a row only when the rows
that push it out have come; until then it is open, and is remembered with its position.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.sorted_keys import distinct
from millrace.operators.evaluate import evaluate
from millrace.operators.relational.equal import hashes_of, numbered
from millrace.operators.relational.state import State, state_rows, state_schema
from millrace.operators.relational.timed import OPEN, Timed, concat_rows, take_rows
from millrace.operators.vectors import as_array
from millrace.plan.expressions import Expression
from millrace.plan.relations import Window


def ceiling(values: Ints, step: int | Ints) -> Ints:
    """Round up to multiples of `step`, or of each its own."""
    rounded: Ints = -(-values // step) * step
    return rounded


def sizes_of(window: Window, rows: pa.RecordBatch) -> Ints:
    """Return how large the window is for each element."""
    assert window.size is not None, "the window has a size"
    return _whole(window.size, rows)


def slides_of(window: Window, rows: pa.RecordBatch) -> Ints:
    """Return by how much the window slides for each element; 0 if it moves all the time."""
    return _whole(0 if window.slide is None else window.slide, rows)


def _steps(slide: int | Expression, rows: pa.RecordBatch) -> int | Ints:
    return slide if isinstance(slide, int) else _whole(slide, rows)


def _whole(value: int | Expression, rows: pa.RecordBatch) -> Ints:
    if isinstance(value, int):
        return np.full(rows.num_rows, value)
    values = as_array(evaluate(value, rows, {}), rows.num_rows)
    found: Ints = values.cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def by_time(window: Window, rows: pa.RecordBatch, times: Ints) -> Timed:
    """Return the relation of a window of time over elements."""
    seen = np.ones(len(times), np.bool_)
    if window.since is not None:
        seen &= times >= window.since
    if window.until is not None:
        seen &= times <= window.until
    starts, ends = times + window.lag, np.full(len(times), OPEN)
    if window.size is not None:
        both_ends = window.slide is None
        ends = times + sizes_of(window, rows) + both_ends
    if window.slide is not None:
        slides = _steps(window.slide, rows)
        starts = ceiling(starts, slides)
        ends = ends if window.size is None else ceiling(ends, slides)
    seen &= starts < ends
    return Timed(rows, starts, ends, np.ones(len(times), np.int64)).where(seen)


@dataclass(frozen=True, slots=True)
class RowsWindow:
    """A window of the last rows, of each value of some columns.

    Positions count from 1 in each part. With N rows and a slide of m, the row at position p is
    seen from when position m⌈p/m⌉ comes until position m⌈(p+N)/m⌉ comes.
    """

    name: str
    window: Window
    schema: pa.Schema
    place: str | None = None

    @property
    def _stored(self) -> pa.Schema:
        return state_schema(_remembered(self.schema), "n")

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {self.name: self._stored}

    def step(self, rows: pa.RecordBatch, times: Ints, state: State) -> Timed:
        """Take the elements of a slab, in order."""
        stored = self._stored
        keys = rows.select(list(self.window.by))
        hashes = hashes_of(keys, self.place)
        before = state.of(self.name, stored, distinct(hashes), -1)
        before = _alive(before)
        old_rows = before.select(self.schema.names)
        everything = concat_rows([old_rows, rows], self.schema)
        n_old = old_rows.num_rows
        parts, _ = numbered(everything.select(list(self.window.by)))
        old_positions = before.column("_position").to_numpy()
        instants = np.concatenate((before.column("_at").to_numpy(), times))
        highest = np.zeros(int(parts.max(initial=-1)) + 1, np.int64)
        np.maximum.at(highest, parts[:n_old], old_positions)
        positions = np.concatenate((old_positions, _counted(parts[n_old:], highest)))
        starts, ends = self._ends(parts, positions, instants, everything)

        new = np.arange(len(parts)) >= n_old
        slide = _steps(self.window.slide or 1, everything)
        was_open = ~new & (ceiling(positions, slide) <= highest[parts])
        appears = ~was_open & (starts < OPEN) & (starts < ends)
        closes = was_open & (ends < OPEN)
        told = [
            Timed(
                take_rows(everything, np.flatnonzero(appears)),
                starts[appears],
                ends[appears],
                np.ones(int(appears.sum()), np.int64),
            ),
            Timed(
                take_rows(everything, np.flatnonzero(closes)),
                ends[closes],
                np.full(int(closes.sum()), OPEN),
                np.full(int(closes.sum()), -1),
            ),
        ]
        kept = ends == OPEN
        if self.window.size is None:  # only the count has to be known, and what is to appear
            np.maximum.at(highest, parts, positions)
            kept = (starts == OPEN) | (positions == highest[parts])
        change = np.where(new & kept, 1, 0) - np.where(~new & ~kept, 1, 0)
        at = np.flatnonzero(change)
        if len(at):
            remembered = pa.RecordBatch.from_arrays(
                [
                    *take_rows(everything, at).columns,
                    pa.array(instants[at]),
                    pa.array(positions[at]),
                ],
                schema=_remembered(self.schema),
            )
            forever = np.full(len(at), OPEN)
            by = take_rows(everything.select(list(self.window.by)), at)
            key_hashes = hashes_of(by, self.place)
            state.add(self.name, state_rows(stored, key_hashes, forever, remembered, change[at]))
        return Timed.concat(told, self.schema)

    def _ends(
        self, parts: Ints, positions: Ints, instants: Ints, rows: pa.RecordBatch
    ) -> tuple[Ints, Ints]:
        """Return when each row appears and when it is pushed out, OPEN if not yet."""
        order = np.lexsort((positions, parts))
        n_parts = int(parts.max(initial=-1)) + 1
        begins = np.searchsorted(parts[order], np.arange(n_parts + 1))
        least = np.zeros(n_parts, np.int64)
        most = np.full(n_parts, -1)
        held = np.flatnonzero(np.diff(begins))
        least[held] = positions[order[begins[held]]]
        most[held] = positions[order[begins[held + 1] - 1]]

        def instant_of(position: Ints) -> Ints:
            come = position <= most[parts]
            at = np.where(come, begins[parts] + position - least[parts], 0)
            found: Ints = np.where(come, instants[order[at]], OPEN)
            return found

        slide = _steps(self.window.slide or 1, rows)
        starts = instant_of(ceiling(positions, slide))
        if self.window.size is None:
            return starts, np.full(len(parts), OPEN)
        sizes = sizes_of(self.window, rows)
        return starts, instant_of(ceiling(positions + sizes, slide))


def _remembered(schema: pa.Schema) -> pa.Schema:
    return pa.schema([*schema, pa.field("_at", pa.int64()), pa.field("_position", pa.int64())])


def _alive(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Leave out rows that were taken back: they are there once more, with a count of -1."""
    if not rows.num_rows:
        return rows
    names = [name for name in rows.schema.names if name not in ("_time", "+n")]
    numbers, firsts = numbered(rows.select(names))
    counts = np.zeros(len(firsts), np.int64)
    np.add.at(counts, numbers, rows.column("+n").to_numpy())
    return take_rows(rows, firsts[counts > 0])


def _counted(parts: Ints, highest: Ints) -> Ints:
    """Return the position of each new row in its part; they are in order."""
    order = np.argsort(parts, kind="stable")
    ordered = parts[order]
    first: Bools = np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(parts)]
    begins = np.flatnonzero(first)
    place = np.arange(len(parts)) - np.repeat(begins, np.diff(np.append(begins, len(parts))))
    positions = np.empty(len(parts), np.int64)
    positions[order] = highest[ordered] + place + 1
    return positions
