"""Lateness of the rows of one task: which of them come behind their partition's clock.

`tally.py` has the definition and the law. Here the definition meets batches: partitions become
small integers, clocks an array, and the running maximum a kernel. A stream that declares no
order has one partition, whose clock stands still within an epoch.

The stream's watermark at the start of the epoch is a floor under every verdict: a partition
that is new, or was idle while the others went on, cannot reopen time that has been closed. For
every other partition the watermark is behind its own clock, so the floor changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from millrace.engine.decision import Decision
from millrace.engine.streams import StreamSpec
from millrace.engine.tally import NEVER, Position, Segment, clock_at
from millrace.kernels.running import running_max_before


class Lateness:
    """Judges the rows of one task's share of a stream, batch after batch."""

    def __init__(self, spec: StreamSpec, decision: Decision) -> None:
        self._spec = spec
        self._exact = spec.exact and spec.name not in decision.unordered
        self._start = decision.clocks.get(spec.name, {})
        self._known = decision.segments.get(spec.name, {})
        self._floor = decision.watermarks.get(spec.name, NEVER)
        self._codes: dict[str, int] = {}
        self._begins: list[Position] = []
        self._clocks = np.empty(0, np.int64)
        self._newest = np.empty(0, np.int64)
        self._earliest: list[int | None] = []

    def judge(
        self, rows: pa.RecordBatch, times: np.ndarray, partition: str, begin: Position | None
    ) -> np.ndarray:
        """Return a mask of the rows that are late, and remember what the others reached."""
        if rows.num_rows == 0:
            return np.zeros(0, bool)
        if self._spec.partition is None:
            groups = np.zeros(rows.num_rows, np.int32)
            groups += self._code(partition, begin or self._first_position(rows, 0))
        else:
            groups = self._group(rows)
        n_groups = len(self._codes)
        before, newest = running_max_before(times, groups, n_groups, self._clocks)
        if not self._exact:
            before = self._clocks[groups]
        # A clock so early that the delay does not fit below it makes nothing late.
        reached = np.maximum(before, NEVER + self._spec.delay) - self._spec.delay
        behind = times < reached
        late = behind | (times < self._floor)
        self._remember(groups, times, late, newest)
        return late

    def segments(self) -> Iterator[Segment]:
        """Yield what this task saw of each partition."""
        for partition, code in self._codes.items():
            if self._newest[code] != NEVER:
                newest, earliest = int(self._newest[code]), self._earliest[code]
                exact = earliest if self._exact else None
                yield Segment(partition, self._begins[code], newest, exact)

    @property
    def least(self) -> int | None:
        """The least time of a punctual row; None if there was none."""
        return min((each for each in self._earliest if each is not None), default=None)

    def _remember(
        self, groups: np.ndarray, times: np.ndarray, late: np.ndarray, newest: np.ndarray
    ) -> None:
        if self._exact:
            self._clocks = newest
        for code in np.flatnonzero(np.bincount(groups)):
            mine = groups == code
            self._newest[code] = max(self._newest[code], int(times[mine].max()))
            punctual = times[mine & ~late]
            if punctual.size:
                least, known = int(punctual.min()), self._earliest[code]
                self._earliest[code] = least if known is None else min(known, least)

    def _group(self, rows: pa.RecordBatch) -> np.ndarray:
        column = rows.column(self._spec.partition).cast(pa.string()).fill_null("")
        encoded = column.dictionary_encode()
        local = encoded.indices.to_numpy()
        firsts = np.unique(local, return_index=True)[1]
        codes = np.empty(len(encoded.dictionary), np.int32)
        for at, name in enumerate(encoded.dictionary.to_pylist()):
            codes[at] = self._code(name, self._first_position(rows, int(firsts[at])))
        grouped: np.ndarray = codes[local]
        return grouped

    def _code(self, partition: str, begin: Position) -> int:
        if partition not in self._codes:
            self._codes[partition] = len(self._codes)
            clock = self._start.get(partition, NEVER)
            clock = clock_at(clock, self._known.get(partition, []), begin)
            self._clocks = np.append(self._clocks, clock)
            self._newest = np.append(self._newest, NEVER)
            self._begins.append(begin)
            self._earliest.append(None)
        return self._codes[partition]

    def _first_position(self, rows: pa.RecordBatch, at: int) -> Position:
        return [_comparable(rows.column(name)[at]) for name in self._spec.order]


def _comparable(value: pa.Scalar) -> int | str:
    """Return an order column's value in a form that JSON keeps; NULL comes before all others."""
    if pa.types.is_string(value.type):
        return value.as_py() or ""
    if not value.is_valid:
        return NEVER
    if pa.types.is_date(value.type):
        value = value.cast(pa.int32())
    return int(value.cast(pa.int64()).as_py())


def watermark(
    clocks: dict[str, int], idle: list[str], *, delay: int, previous: int | None, ahead: int = 0
) -> int | None:
    """Return the instant up to which a stream is complete; it never goes back.

    It is the least clock of the partitions that are not idle, less the delay; if all are idle,
    the greatest, and as much more as the stream's time has gone on since by itself.
    """
    live = [clock for name, clock in clocks.items() if name not in idle and clock != NEVER]
    if live:
        reached = min(live) - delay
    elif clocks and max(clocks.values()) != NEVER:
        reached = max(clocks.values()) - delay + ahead
    else:
        return previous
    return reached if previous is None else max(previous, reached)
