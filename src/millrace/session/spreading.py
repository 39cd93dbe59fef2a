"""How a plan is spread over shards, where no column of its streams does that by itself.

Rows travel in stages (`plan.stages`); joins by bands are by ranges (`plan.bands`), for one query
or for all queries of a family that is one join (`plan.joining`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from millrace.engine.settings import Settings
from millrace.plan.bands import CELL, Laid, banded, laid_declared
from millrace.plan.declared import Declared
from millrace.plan.expressions import Column
from millrace.plan.joining import Joining, Sharing, joining
from millrace.plan.relations import StreamOf
from millrace.plan.stages import Staging, Way


@dataclass(frozen=True, slots=True)
class Spread:
    """The streams of a plan as they run: by which columns their sources are spread, if by any.

    Rows may travel on `hops` times, and those of streams may be `laid` out over ranges.
    """

    streams: tuple[StreamOf, ...]
    columns: Mapping[str, str] | None = None
    hops: int = 0
    laid: tuple[Laid, ...] = ()


def shared_join(
    streams: tuple[StreamOf, ...], declared: Declared, times: Mapping[str, str], settings: Settings
) -> tuple[Sharing, Spread] | None:
    """Return how all queries of a family are one join, and spread, if they are."""
    found = joining(streams[0], declared) if settings.sharing else None
    if found is None:
        return None
    sharing = Sharing.of(found, times, settings.strategy, sets=settings.sets)
    spread = Spread(streams, sharing.columns(streams[0], declared))
    if spread.columns is None and settings.bands:
        return sharing, _by_ranges(streams, declared, found, sharing) or spread
    return sharing, spread


def _by_ranges(
    streams: Sequence[StreamOf], declared: Declared, found: Joining, sharing: Sharing
) -> Spread | None:
    """Return the joins of a family by ranges, if they are by bands.

    Equal rows that come and go meet in the range of the anchor, if they have its number. If there
    are none, it does not matter.
    """
    values = [each.value for each in found.outputs]
    told = {each.name for each in values if isinstance(each, Column)}
    made = banded(streams, declared, None if sharing.distinct else told)
    if made is None:
        return None
    assert len(made.leaves) == len(found.leaves), "a family is joins of windows, and nothing else"
    columns = dict.fromkeys((each.stream for each in made.laid), CELL)
    return Spread(made.streams, columns, laid=made.laid)


def in_stages(streams: tuple[StreamOf, ...], declared: Declared, settings: Settings) -> Spread:
    """Return how a plan that no one column places is cut into stages, or is in one shard."""
    if not settings.hops:
        return Spread(streams)
    way = Staging(declared).cut(streams[0].relation)
    made = banded(streams, declared) if settings.bands else None
    if made is not None:
        more = Staging(laid_declared(declared, made.laid)).cut(made.streams[0].relation)
        if more is not None and _is_better(more, way):
            return _cut(made.streams, more, made.laid)
    return Spread(streams) if way is None else _cut(streams, way)


def _is_better(way: Way, known: Way | None) -> bool:
    """Say whether a way is by ranges, and gathers less than another one."""
    by_ranges = {column for _, column in way.spread.leaves} == {CELL}
    return by_ranges and (known is None or way.cost < known.cost)


def _cut(streams: Sequence[StreamOf], way: Way, laid: tuple[Laid, ...] = ()) -> Spread:
    stages = tuple(replace(each, relation=way.node) for each in streams)
    return Spread(stages, way.spread.columns(), way.number, laid)
