"""How joins by bands are spread, in words: how wide ranges are, and how far rows are copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from millrace.engine import facts
from millrace.engine.feeds import FeedSpec
from millrace.engine.laying import Ranges, ranges_of
from millrace.plan.bands import Laid

if TYPE_CHECKING:
    from millrace.session.session import Session


def range_line(session: Session, feed: FeedSpec) -> str:
    """Say by what rows are in ranges, and into which others they are copied as a halo."""
    assert feed.plan is not None, "only plans have ranges"
    engine = session.engine
    known = facts.ranges(engine.manifest, engine.registry.catalog)
    ranges = None
    if feed.plan.parameters is None or feed.name in known:
        ranges = ranges_of(feed, known)
    columns = ", ".join(f"{each.stream}.{each.column}" for each in feed.plan.laid)
    return "; ".join([f"of {columns}", _width(ranges), *_halos(feed.plan.laid, ranges)])


def _width(ranges: Ranges | None) -> str:
    if ranges is None:
        return "how wide they are is decided with the first queries"
    if not ranges.width:
        return f"numbers are dealt to {ranges.n_slots}, as bands have one end only"
    return f"each is {ranges.width:,.15g} wide, and they are dealt to {ranges.n_slots} slots"


def _halos(laid: tuple[Laid, ...], ranges: Ranges | None) -> Iterator[str]:
    for each in laid:
        if not each.paths:
            yield f"{each.stream} is in its own"
        elif ranges is None:
            yield f"{each.stream} is copied as far as the bands of queries reach"
        else:
            low, high = ranges.reaches[each.stream]
            reach = f"those from {low:+,.15g} to {high:+,.15g}"
            if not np.isfinite([low, high]).all():
                reach = "nowhere" if low > high else "all"
            yield f"{each.stream} is copied into {reach}, as a halo"
