"""Tallies: what a map task saw of a stream, and how tallies move the stream's clocks.

A row is late if its time is behind the running maximum of the earlier rows of its own source
partition, less the delay. A task that reads a stretch of a partition (a *segment*) knows the
maximum at the start of the epoch and the rows before it in its own stretch; it does not know
the stretches that other tasks read at the same time:

    partition "p0"      clock 100     task 0: 101 … 140 | task 1: 120 … 150
                                                          with a delay of 10, 120 is late

So a tally carries, for each segment, where it begins, its maximum, and the least time it took
for punctual. `hidden_lateness` lays the segments of an epoch end to end and finds whether any
of them took a row for punctual that an earlier segment makes late. That is rare: it needs data
more disordered than the delay, cut right there. The epoch is then run again with the segments
known, and every task applies the maximum of the segments before its own.

Law: with the segments known, the verdict on each row equals the verdict of one task that reads
the whole partition in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Self

NEVER = -(2**63)
"""The clock of a partition that has had no row."""

Position = list[int | str]
Segments = dict[str, list[tuple[Position, int]]]
"""For each partition, where its segments of one epoch begin and their greatest times."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one source partition that one task read in order."""

    partition: str
    begin: Position
    newest: int
    earliest_punctual: int | None

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `dataclasses.asdict` spelt."""
        return cls(**spelt)


@dataclass(frozen=True, slots=True)
class Failure:
    """A query's expression failed on some row: from then on the query is suspended."""

    qid: int
    time: int | None
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Tally:
    """What one map task saw of one stream.

    `earliest` is the least time that plans were given, `least` that of all punctual rows. `found`
    counts answers by feed, whether they are told or not, and whether they share rows.
    """

    stream: str
    rows: int = 0
    bytes: int = 0
    late: int = 0
    dead: int = 0
    results: int = 0
    sent: int = 0
    segments: tuple[Segment, ...] = ()
    failures: tuple[Failure, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict)
    earliest: int | None = None
    least: int | None = None
    found: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Spell the tally as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        segments = tuple(Segment.from_json(each) for each in spelt["segments"])
        failures = tuple(Failure(**each) for each in spelt["failures"])
        return cls(**{**spelt, "segments": segments, "failures": failures})


def advanced(clocks: dict[str, int], tallies: Iterable[Tally]) -> dict[str, int]:
    """Return a stream's clocks after an epoch: each partition's greatest time so far."""
    after = dict(clocks)
    for tally in tallies:
        for segment in tally.segments:
            after[segment.partition] = max(after.get(segment.partition, NEVER), segment.newest)
    return after


def segments_of(tallies: Iterable[Tally]) -> Segments:
    """Collect the segments of a stream's tallies by partition, in order of their beginnings."""
    collected: Segments = {}
    for tally in tallies:
        for segment in tally.segments:
            entry = (segment.begin, segment.newest)
            collected.setdefault(segment.partition, []).append(entry)
    return {name: sorted(entries) for name, entries in collected.items()}


def clock_at(clock: int, known: list[tuple[Position, int]], begin: Position) -> int:
    """Return a partition's clock where a segment begins: that of all segments before it."""
    return max([clock, *(newest for start, newest in known if list(start) < list(begin))])


def hidden_lateness(clocks: dict[str, int], tallies: Iterable[Tally], delay: int) -> bool:
    """Say whether a segment took a row for punctual that an earlier segment makes late."""
    listed = list(tallies)
    known = segments_of(listed)
    for segment in (each for tally in listed for each in tally.segments):
        if segment.earliest_punctual is None:
            continue
        start = clocks.get(segment.partition, NEVER)
        clock = clock_at(start, known[segment.partition], segment.begin)
        if clock != NEVER and segment.earliest_punctual < clock - delay:
            return True
    return False
