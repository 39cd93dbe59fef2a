"""Retention by time: which answers readers may still ask for, and since when a reader was away.

The time of an answer is that of the row, or the instant, that it is about; the time now is the
watermark of the feed's streams, the least of them. What is older than the feed retains is not
told any more, whether a merge has met it yet or not, so what a reader gets depends on the input
alone. What comes late is told for as long as its time is within retention.

A reader that comes back names the last epoch it has seen. It has missed nothing if no punctual row
of a later epoch has expired. So for each stream the manifest keeps the least times of epochs, as
*spans*: neighbours whose times are close together become one, so that there are never more than 64.

    epochs   0 … 17   18 … 31   32 … 40   41 … 43
    least      100       160       215       240          horizon 180: go on behind epoch 31
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from millrace.engine.catalog import Catalog
from millrace.engine.feeds import FeedSpec

Span: TypeAlias = Sequence[int]
"""The last epoch of some, and the least time of a punctual row in them."""

MOST_SPANS = 64


@dataclass(frozen=True, slots=True)
class Retained:
    """What is kept of one stream's rows for readers of answers.

    `longest` is for how long, in us; `lazy` are the retentions of feeds whose answers are sets of
    rows, or were before their policy changed; `everything` says that some feed finds its answers
    among all rows.
    """

    longest: int
    lazy: tuple[int, ...] = ()
    everything: bool = False


def retained(catalog: Catalog) -> dict[str, Retained]:
    """Return what is kept of the rows of streams, for those of which anything is."""
    return _of(catalog).rows


def horizon_of(feed: FeedSpec, watermarks: Mapping[str, int]) -> int | None:
    """Return the time before which answers have expired; None if there is none yet."""
    marks = [watermarks[each] for each in feed.sources if each in watermarks]
    if feed.retain is None or len(marks) < len(feed.sources):
        return None
    return min(marks) - feed.retain


def spanned(catalog: Catalog) -> dict[str, int]:
    """Return the streams that need spans, and the longest retention of a feed that reads each."""
    return _of(catalog).spans


def grown(
    spans: Sequence[Span], epoch: int, least: int | None, horizon: int | None
) -> list[list[int]]:
    """Return the spans after an epoch; those that have expired for everybody become one."""
    found = [list(each) for each in spans]
    if least is not None:
        found.append([epoch, least])
    if horizon is not None:
        gone = [each for each in found if each[1] < horizon]
        found = gone[-1:] + [each for each in found if each[1] >= horizon]
        found.sort()
    while len(found) > MOST_SPANS:
        at = min(range(len(found) - 1), key=lambda each: abs(found[each + 1][1] - found[each][1]))
        found[at : at + 2] = [[found[at + 1][0], min(found[at][1], found[at + 1][1])]]
    return found


def last_expired(spans: Iterable[Span], horizon: int | None) -> int | None:
    """Return the last epoch of which a punctual row has expired; None if none has."""
    if horizon is None:
        return None
    return max((epoch for epoch, least in spans if least < horizon), default=None)


@dataclass(frozen=True, slots=True)
class _Retentions:
    """What all feeds of a catalog retain, of selections; `feeds` says of which catalog."""

    feeds: Mapping[str, FeedSpec]
    rows: dict[str, Retained]
    spans: dict[str, int]


_known = _Retentions({}, {}, {})


def _of(catalog: Catalog) -> _Retentions:
    """Go through the feeds of a catalog, unless they are those of the last time."""
    global _known  # noqa: PLW0603  an epoch asks several times, and there may be many feeds
    known = _known
    if known.feeds is not catalog.feeds:
        known = _known = _collected(catalog)
    return known


def _collected(catalog: Catalog) -> _Retentions:
    kinds = {
        (feed.stream, feed.retain, policy)
        for feed in map(catalog.feeds.__getitem__, catalog.retained)
        if feed.plan is None and feed.retain is not None
        for policy in feed.policies
    }
    anew = {feed.stream for feed in map(catalog.feeds.__getitem__, catalog.retained)
            if feed.plan is None and feed.policy == "none"}  # fmt: skip
    rows: dict[str, Retained] = {}
    for stream in {stream for stream, _, policy in kinds if policy != "eager"}:
        mine = [(retain, policy) for each, retain, policy in kinds if each == stream]
        lazy = sorted(retain for retain, policy in mine if policy == "lazy")
        shared = [retain for retain, policy in mine if policy != "eager"]
        rows[stream] = Retained(max(shared), tuple(lazy), stream in anew)
    spans: dict[str, int] = {}
    for stream, retain, _ in kinds:
        spans[stream] = max(spans.get(stream, 0), retain)
    return _Retentions(catalog.feeds, dict(sorted(rows.items())), dict(sorted(spans.items())))
