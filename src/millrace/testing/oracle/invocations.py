"""What it means to invoke a query that was registered before, in slow plain Python.

A query stands from one epoch on until it is dropped. Each row that comes meanwhile and that it
keeps is an answer, with the row's time. To invoke it is to ask which answers lie in a window, among
those that are within its retention: not older than the watermark less the retention.

    snapshot   begin and end are instants
    landmark   begin is an instant, end is NOW
    sliding    begin is NOW less something, end is NOW

NOW is right behind the newest time that a row of the streams has had, or behind their watermark if
that is greater. A window is half-open.

A query that is more than a selection tells what its relation gains, loses or is at an instant, of
the punctual rows that came since it stands. It begins where all its streams were complete then, or
with the first of those rows, and tells an instant in the epoch in which all of them have passed it.

Whoever has seen all epochs up to some has missed nothing if no punctual row of a later epoch is
older than the retention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from millrace.plan.declared import Declared
from millrace.plan.relations import Relation, StreamKind, StreamOf
from millrace.testing.oracle.epochs import Outcome, Row
from millrace.testing.oracle.instants import DefinitionFrom, Instants

Answer = tuple[int, int, bool, tuple[object, ...]]
"""The epoch in which it came, its time, whether it was late, and its values."""


@dataclass(frozen=True, slots=True)
class Edge:
    """One end of a window: an instant, or so much before NOW."""

    at: int | None = None
    ago: int | None = None

    def instant(self, now: int | None) -> int | None:
        """Return the instant; None if there is no NOW yet, or the window has no such end."""
        if self.ago is None:
            return self.at
        return None if now is None else now - self.ago


def now_of(outcome: Outcome, streams: Sequence[str]) -> int | None:
    """Return NOW of some streams; None before their first row."""
    seen = [time for stream in streams for time in outcome.clocks.get(stream, {}).values()]
    marks = [outcome.watermarks[stream] for stream in streams if stream in outcome.watermarks]
    return max([*seen, *marks]) + 1 if seen else None


def horizon_of(outcome: Outcome, streams: Sequence[str], retain: int) -> int | None:
    """Return the time before which answers have expired; None before there is a watermark."""
    mark = passed(outcome.watermarks, streams)
    return None if mark is None else mark - retain


def passed(marks: Mapping[str, int], streams: Sequence[str]) -> int | None:
    """Return up to where all of some streams are complete; None if one has had no row."""
    known = [marks[stream] for stream in streams if stream in marks]
    return min(known) if len(known) == len(streams) else None


def invoked(
    outcome: Outcome, query: str, streams: Sequence[str], retain: int, begin: Edge, end: Edge
) -> list[Answer]:
    """Return the answers of a query over some streams in a window."""
    now, horizon = now_of(outcome, streams), horizon_of(outcome, streams, retain)
    low, high = begin.instant(now), end.instant(now)
    return [
        answer
        for answer in outcome.answers.get(query, [])
        if (low is None or answer[1] >= low)
        and (high is None or answer[1] < high)
        and (horizon is None or answer[1] >= horizon)
    ]


@dataclass(frozen=True, slots=True)
class Came:
    """What came: the punctual rows of streams with their epochs and times, and what was complete.

    `marks` are the watermarks after each epoch.
    """

    declared: Declared
    rows: Mapping[str, Sequence[tuple[int, int, Row]]]
    marks: Sequence[Mapping[str, int]]


def told_by_plan(
    plan: Relation | StreamOf, streams: Sequence[str], came: Came, first: int
) -> list[Answer]:
    """Return what a query over some streams has told that stands from the epoch `first` on.

    Of a relation, what comes (1) and what goes (-1) is told, which the values begin with.
    """
    reached = [passed(marks, streams) for marks in came.marks]
    elements = {
        stream: [(time, dict(row)) for epoch, time, row in came.rows[stream] if epoch >= first]
        for stream in streams
    }
    begins = [time for some in elements.values() for time, _ in some]
    begin = reached[first - 1] if 0 < first <= len(reached) else None
    begin = min(begins, default=None) if begin is None else begin
    end = reached[-1] if reached else None
    if begin is None or end is None or begin >= end:
        return []
    instants = Instants({name: [at for at, _ in some] for name, some in elements.items()},
                        begin, end)  # fmt: skip
    definition = DefinitionFrom(came.declared, elements, begin=begin, instants=instants)
    kinds: dict[StreamKind, tuple[int, ...]] = {"istream": (1,), "dstream": (-1,)}
    if isinstance(plan, StreamOf):
        kinds = {plan.kind: ()}
    found = []
    for kind, change in kinds.items():
        stream = plan if isinstance(plan, StreamOf) else StreamOf(kind, plan)
        for at in instants.of_stream(stream):
            epoch = next(e for e, mark in enumerate(reached) if mark is not None and mark > at)
            told = definition.told(stream, at)
            found += [(epoch, at, False, (*change, *row.values())) for row in told]
    return found


def oldest_cursor(rows: Sequence[Answer], horizon: int | None) -> int:
    """Return the least cursor with which nothing is missed; `rows` are all that came."""
    gone = [
        epoch
        for epoch, time, late, _ in rows
        if not late and horizon is not None and time < horizon
    ]
    return max(gone, default=-1)
