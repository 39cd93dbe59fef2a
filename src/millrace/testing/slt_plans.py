"""Queries of `.slt` files that are more than selections: what the definition says they answer.

Such a query sees the elements that came in time since it is asked, in the order of the file where
instants are equal. It answers for the time in which all its streams are complete. It begins where
they were complete when it was registered, or if they had not begun either, with its first element.
An answer's sign tells its instant too: `7+: -`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from millrace.engine.streams import StreamSpec
from millrace.errors import SeveralRowsError, SumOverflowError
from millrace.lang.relational.bound import BoundRelation
from millrace.plan.declared import Declared
from millrace.plan.relations import StreamOf
from millrace.schema import Schema
from millrace.session.planning import sources_of
from millrace.testing.oracle.epochs import Epoch, Outcome, outcome_of
from millrace.testing.oracle.instants import DefinitionFrom, Instants
from millrace.testing.oracle.relations import Change, Element
from millrace.testing.slt import PLACE, TIME
from millrace.time import SECOND

Answer = tuple[str, tuple[object, ...]]
"""A sign and the values of a row."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_TICKS = 9
_known: dict[str, list[Answer]] = {}  # a file is judged once, in however many ways it is run


@dataclass(slots=True)
class KnownPlan:
    """A standing query: its plan, and in which instants of the file it is asked."""

    bound: BoundRelation
    since: int
    until: int | None = None


@dataclass(slots=True)
class KnownTable:
    """A table: its columns, and its changes, each with the instant of the file that it precedes."""

    schema: Schema
    changes: list[Change] = field(default_factory=list)


def signed(at: int, sign: str) -> str:
    """Spell an instant, in microseconds, and a sign.

    >>> signed(7_000_001, "-")
    '7+: -'
    """
    ticks = at % 1000 if at % 1000 <= _MOST_TICKS else 0
    seconds = f"{Decimal(at - ticks) / SECOND:f}"
    return f"{seconds}{'+' * ticks}: {sign}"


def read_sign(text: str) -> str:
    """Spell an instant and a sign as `signed` does, however a file does.

    >>> read_sign("0.0000030: +"), read_sign("+")
    ('0+++: +', '+')
    """
    time, _, sign = text.rpartition(": ")
    if not time:
        return sign
    plain = time.rstrip("+")
    return signed(round(Decimal(plain) * SECOND) + len(time) - len(plain), sign)


def when(answer: Answer) -> tuple[Decimal, int]:
    """Return what answers are sorted by: their instants."""
    time = answer[0].rpartition(": ")[0]
    plain = time.rstrip("+")
    return Decimal(plain or "0"), len(time) - len(plain)


def answers_of(
    plan: KnownPlan,
    streams: Mapping[str, StreamSpec],
    tables: Mapping[str, KnownTable],
    epochs: Sequence[Epoch],
) -> list[Answer]:
    """Ask the definition what a query answers, `!` if it fails."""
    told = plan.bound.plan
    relation = told.relation if isinstance(told, StreamOf) else told
    sources = sorted(set(sources_of(StreamOf("istream", relation))))
    specs = list(streams.values())
    seen = outcome_of(specs, epochs[: plan.until], ())
    end = _complete(sources, seen)
    if end is None:
        return []
    late = {id(row) for rows in seen.late.values() for _, row in rows}
    elements = {name: _elements(name, epochs[plan.since : plan.until], late) for name in sources}
    times = {name: [at for at, _ in some] for name, some in elements.items()}
    begin = _complete(sources, outcome_of(specs, epochs[: plan.since], ()))
    if begin is None:
        begin = min((at for some in times.values() for at in some if at < end), default=end)

    def frontier(number: int) -> int:
        """Return from when on a change is seen that came before an instant of the file."""
        complete = _complete(sources, outcome_of(specs, epochs[: max(number, plan.since)], ()))
        return begin if complete is None else max(begin, complete)

    changes = {
        name: [(frontier(number), row, copies) for number, row, copies in each.changes]
        for name, each in tables.items()
    }
    schemas = {name: streams[name].schema for name in streams}
    declared = Declared(schemas, {name: each.schema for name, each in tables.items()})
    known = repr((told, elements, changes, begin, end))
    if known not in _known:
        when_changed = {name: [at for at, _, _ in some] for name, some in changes.items()}
        instants = Instants(times, begin, end, when_changed)
        definition = DefinitionFrom(declared, elements, changes, instants=instants)
        _known[known] = _told(told, definition, instants)
    return _known[known]


def _complete(sources: Sequence[str], seen: Outcome) -> int | None:
    """Return up to where all of some streams are complete; None if one has not begun."""
    marks = [seen.watermarks.get(name) for name in sources]
    known = [each for each in marks if each is not None]
    return min(known) if len(known) == len(marks) else None


def _elements(name: str, epochs: Sequence[Epoch], late: set[int]) -> list[Element]:
    rows = [
        row
        for epoch in epochs
        for some in epoch.arrivals.get(name, {}).values()
        for row in some
        if id(row) not in late and row[TIME] is not None
    ]
    timed = [(int(str(row[TIME])), {**row, TIME: _instant(row[TIME])}) for row in rows]
    return sorted(timed, key=lambda each: (each[0], each[1][PLACE]))


def _instant(micros: Any) -> datetime:  # noqa: ANN401
    return _EPOCH + timedelta(microseconds=micros)


def _told(plan: Any, definition: DefinitionFrom, instants: Instants) -> list[Answer]:  # noqa: ANN401
    streams = {"+": plan}
    if not isinstance(plan, StreamOf):
        streams = {"+": StreamOf("istream", plan), "-": StreamOf("dstream", plan)}
    try:
        return [
            (signed(at, sign), tuple(row.values()))
            for sign, stream in streams.items()
            for at in instants.of_stream(stream)
            for row in definition.told(stream, at)
        ]
    except (SeveralRowsError, SumOverflowError):
        return [("!", ("",))]
