"""What epochs mean, in slow plain Python: one row after the other, and nothing else.

A row without a time is a dead letter. A row is late if its time is behind the greatest time of
the earlier rows of its own source partition, less the delay, or behind the watermark that its
stream had when the epoch began. Where a source has no order, "earlier" means earlier epochs.
A late row is answered and flagged, and it is not kept in history.

The watermark is the least clock of the partitions, less the delay; idle ones do not count
unless all are idle, when the greatest clock counts. It never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from millrace.engine.streams import StreamSpec

Row: TypeAlias = Mapping[str, object]
Arrivals: TypeAlias = Mapping[str, Mapping[str, Sequence[Row]]]
"""For each stream and source partition, the rows of one epoch in the order of the source."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query that runs in the epochs `[first, stop)`."""

    name: str
    stream: str
    keeps: Callable[[Row], bool]
    shows: Callable[[Row], tuple[object, ...]]
    first: int = 0
    stop: int = 1 << 60


@dataclass(frozen=True, slots=True)
class Epoch:
    """The input of one epoch, and the wall clock when it was decided."""

    arrivals: Arrivals
    clock: int = 0


@dataclass(slots=True)
class Outcome:
    """What is there after some epochs.

    An answer is (epoch, time, late, values); a dead letter and a late row is (partition, row).
    """

    answers: dict[str, list[tuple[int, int, bool, tuple[object, ...]]]] = field(
        default_factory=dict
    )
    dead: dict[str, list[tuple[str, Row]]] = field(default_factory=dict)
    late: dict[str, list[tuple[str, Row]]] = field(default_factory=dict)
    history: dict[str, list[Row]] = field(default_factory=dict)
    clocks: dict[str, dict[str, int]] = field(default_factory=dict)
    seen: dict[str, dict[str, int]] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)


def outcome_of(
    streams: Sequence[StreamSpec], epochs: Sequence[Epoch], queries: Sequence[Asked]
) -> Outcome:
    """Run all epochs, the first of which has the number 0."""
    outcome = Outcome()
    for number, epoch in enumerate(epochs):
        for spec in streams:
            asked = [q for q in queries if q.stream == spec.name and q.first <= number < q.stop]
            _run(outcome, spec, number, epoch, asked)
    return outcome


def _run(
    outcome: Outcome, spec: StreamSpec, number: int, epoch: Epoch, asked: Sequence[Asked]
) -> None:
    clocks = outcome.clocks.setdefault(spec.name, {})
    seen = outcome.seen.setdefault(spec.name, {})
    idle = {
        name
        for name, when in seen.items()
        if spec.idle is not None and epoch.clock - when >= spec.idle
    }
    floor = outcome.watermarks.get(spec.name)
    before = dict(clocks)
    for partition, rows in epoch.arrivals.get(spec.name, {}).items():
        for row in rows:
            time = row[spec.time]
            if not isinstance(time, int):
                outcome.dead.setdefault(spec.name, []).append((partition, row))
                continue
            clock = (clocks if spec.exact else before).get(partition)
            late = (clock is not None and time < clock - spec.delay) or (
                floor is not None and time < floor
            )
            clocks[partition] = max(clocks.get(partition, time), time)
            seen[partition] = epoch.clock
            idle.discard(partition)
            _place(outcome, spec, partition, row, late=late)
            for query in asked:
                if query.keeps(row):
                    answer = (number, time, late, query.shows(row))
                    outcome.answers.setdefault(query.name, []).append(answer)
    _pass_time(outcome, spec, idle)


def _place(outcome: Outcome, spec: StreamSpec, partition: str, row: Row, *, late: bool) -> None:
    if late:
        outcome.late.setdefault(spec.name, []).append((partition, row))
    elif spec.retain is not None:
        outcome.history.setdefault(spec.name, []).append(row)


def _pass_time(outcome: Outcome, spec: StreamSpec, idle: set[str]) -> None:
    clocks = outcome.clocks[spec.name]
    if not clocks:
        return
    live = [clock for name, clock in clocks.items() if name not in idle]
    reached = (min(live) if live else max(clocks.values())) - spec.delay
    mark = max(outcome.watermarks.get(spec.name, reached), reached)
    outcome.watermarks[spec.name] = mark
    if spec.retain is not None:
        kept = outcome.history.get(spec.name, [])
        expired = mark - spec.retain
        outcome.history[spec.name] = [row for row in kept if time_of(spec, row) >= expired]


def time_of(spec: StreamSpec, row: Row) -> int:
    """Return the event time of a row that has one."""
    time = row[spec.time]
    assert isinstance(time, int), "a row without a time is in no history"
    return time
