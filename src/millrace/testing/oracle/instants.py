"""The definition at the instants that matter: where a relation may change, and nowhere else.

The definition looks at every instant, of which a minute has 60 million. Between two instants at
which elements come into a window or leave it nothing changes, so it is enough to look at those. A
relation begins with the first element of its streams, where all of it is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from millrace.plan.relations import (
    Asked,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Window,
    Windowed,
)
from millrace.plan.scopes import inputs
from millrace.testing.oracle.bags import Row
from millrace.testing.oracle.relations import Definition, Element


@dataclass(frozen=True, slots=True)
class Instants:
    """Finds the instants in [begin, end) at which something may happen, from those of streams."""

    streams: Mapping[str, Sequence[int]]
    begin: int
    end: int
    tables: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """When each table changes."""

    def of_stream(self, stream: Stream) -> list[int]:
        """Return the instants at which a stream may have elements."""
        if isinstance(stream, Source):
            return self._within(self.streams[stream.name])
        if stream.every is not None:
            first = -(-self.begin // stream.every) * stream.every
            return list(range(first, self.end, stream.every))
        return self.of_relation(stream.relation)

    def of_relation(self, node: Relation) -> list[int]:
        """Return the instants at which a relation may be other than just before."""
        if isinstance(node, Table):
            return self._within(self.tables[node.name])
        if isinstance(node, Windowed):
            elements = self.of_stream(node.stream)
            return self._within([each for at in elements for each in _ends(node.window, at)])
        below = [*inputs(node), *([node.subquery] if isinstance(node, Asked) else [])]
        return self._within([at for each in below for at in self.of_relation(each)])

    def _within(self, instants: Sequence[int]) -> list[int]:
        kept = {at for at in instants if self.begin <= at < self.end}
        return sorted(kept | {self.begin} if self.begin < self.end else kept)


def _ends(window: Window, at: int) -> Iterator[int]:
    """Yield when an element may come into a window, and when it may leave."""
    ends = [at, at + window.lag]
    if window.kind == "range" and isinstance(window.size, int):
        ends += [at + window.size, at + window.size + 1]
    yield from ends
    if window.kind == "range" and isinstance(window.slide, int):
        yield from (-(-each // window.slide) * window.slide for each in ends)


@dataclass
class DefinitionFrom(Definition):
    """Answers what plans mean from the first of their elements on, at some instants only."""

    instants: Instants | None = None

    def stream(self, stream: Stream, until: int) -> list[Element]:
        """Return the elements of a stream up to an instant, in order."""
        if isinstance(stream, Source):
            return super().stream(stream, until)
        assert self.instants is not None, "the instants are known"
        found = []
        for at in self.instants.of_stream(stream):
            if at <= until:
                if (stream, at) not in self._told:
                    self._told[stream, at] = [(at, row) for row in self.told(stream, at)]
                found += self._told[stream, at]
        return found

    def told(self, stream: StreamOf, at: int) -> list[Row]:
        """Return what a derived stream tells at one instant; nothing was there before the first."""
        assert self.instants is not None, "the instants are known"
        if at > self.instants.begin or stream.kind == "rstream":
            return super().told(stream, at)
        if stream.kind == "dstream":
            return []
        return super().told(StreamOf("rstream", stream.relation), at)
