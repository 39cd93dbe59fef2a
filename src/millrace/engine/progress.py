"""Progress: how far time has come in an epoch, by what its map tasks saw, and how far plans can go.

Every shard hears every tally and comes to the same. Shards of later stages are told the sum of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Self

from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.feeds import FeedSpec
from millrace.engine.lateness import watermark
from millrace.engine.tally import Tally, advanced


@dataclass(frozen=True, slots=True)
class Progress:
    """Up to where each stream is complete, and the least time of it that plans were given."""

    marks: Mapping[str, int]
    earliest: Mapping[str, int]

    @classmethod
    def of(cls, catalog: Catalog, decision: Decision, tallies: Iterable[Tally]) -> Self:
        """Add up what all tasks saw."""
        listed, earliest = list(tallies), dict[str, int]()
        for each in listed:
            if each.earliest is not None:
                known = earliest.get(each.stream, each.earliest)
                earliest[each.stream] = min(known, each.earliest)
        return cls(marks_after(catalog, decision, listed), earliest)

    def pack(self) -> bytes:
        """Spell it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Read what `pack` wrote."""
        return cls(**json.loads(packed))


def marks_after(catalog: Catalog, decision: Decision, tallies: Iterable[Tally]) -> dict[str, int]:
    """Return up to where each stream is complete after an epoch."""
    listed = list(tallies)
    found = {}
    for name, stream in catalog.streams.items():
        mine = [each for each in listed if each.stream == name]
        had_rows = {segment.partition for tally in mine for segment in tally.segments}
        idle = [each for each in decision.idle.get(name, []) if each not in had_rows]
        clocks = advanced(decision.clocks.get(name, {}), mine)
        previous = decision.watermarks.get(name)
        ahead = decision.ahead.get(name, 0)
        mark = watermark(clocks, idle, delay=stream.delay, previous=previous, ahead=ahead)
        if mark is not None:
            found[name] = mark
    return found


def frontier(feed: FeedSpec, marks: Mapping[str, int]) -> int | None:
    """Return up to where all streams of a plan are complete; None if one has not begun."""
    found = [marks.get(name) for name in feed.sources]
    known = [each for each in found if each is not None]
    return min(known) if len(known) == len(found) else None


def earliest(feed: FeedSpec, decision: Decision, given: Mapping[str, int]) -> int | None:
    """Return the least time that a plan which has not begun was given, before or just now."""
    found = [given.get(name) for name in feed.sources]
    found.append(decision.earliest.get(feed.name))
    return min((each for each in found if each is not None), default=None)


def can_begin(earliest: int | None, reached: int | None) -> bool:
    """Say whether a plan can begin with its first element: it is complete there."""
    return earliest is not None and reached is not None and earliest < reached
