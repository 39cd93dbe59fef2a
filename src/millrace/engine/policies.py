"""How a feed keeps answers may change while an engine runs; readers find all of them as before.

    epochs   0 … 17   18 … 40   41 …
    policy   lazy     eager     none

An epoch keeps answers in one way: that of the catalog that it runs under, or the one before while
a plan is not far enough to be found anew (`engine.resting`). What was kept before
stays where it is for as long as it is retained, so the facts of a manifest say which *stretch* of
epochs was kept how, and a reader takes of each what is its own. A stretch is forgotten when its
newest row has expired. Of a feed whose policy never changed nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Clocks, Decision
from millrace.engine.feeds import FeedSpec, Policy
from millrace.engine.resting import cold_plans
from millrace.engine.retention import horizon_of
from millrace.engine.tally import NEVER
from millrace.state.manifest import Manifest

LAST_EPOCH = 1 << 62


class Stretch(NamedTuple):
    """The epochs `[first, stop)`, and how their answers are kept."""

    policy: Policy
    first: int = 0
    stop: int = LAST_EPOCH


def stretches(manifest: Manifest, feed: FeedSpec, first: int = 0) -> tuple[Stretch, ...]:
    """Return how answers of a feed are kept, of the epochs from `first` on."""
    told = manifest.facts.get("policies", {}).get(str(feed.number))
    if told is None:
        return (Stretch(feed.first_policy, first),)
    stops = [*(begin for _, begin, _ in told[1:]), LAST_EPOCH]
    return tuple(
        Stretch(policy, max(begin, first), stop)
        for (policy, begin, _), stop in zip(told, stops, strict=True)
        if stop > first
    )


def policies_now(
    manifest: Manifest, catalog: Catalog, decision: Decision, marks: Mapping[str, int]
) -> dict[str, Any]:
    """Return the fact after an epoch: policy, first epoch and newest time of each stretch."""
    known = manifest.facts.get("policies", {})
    if not catalog.varied:
        return {"policies": {}} if known else {}
    clocks, cold = facts.clocks(manifest, catalog), cold_plans(decision)
    found = {}
    for name in catalog.varied:
        feed, number = catalog.feeds[name], str(catalog.feeds[name].number)
        told = [list(each) for each in known.get(number, [[feed.first_policy, 0, None]])]
        if told[-1][0] != feed.policy and name not in cold:
            told[-1][2] = _newest(feed, clocks, marks)
            told.append([feed.policy, decision.identity.epoch, None])
        horizon = horizon_of(feed, marks)
        found[number] = [
            each for each in told if each[2] is None or horizon is None or each[2] >= horizon
        ]
    return {"policies": found}


def _newest(feed: FeedSpec, clocks: Clocks, marks: Mapping[str, int]) -> int:
    """Return a time that no answer of before is later than: plans tell what goes when time does."""
    seen = [time for stream in feed.sources for time in clocks.get(stream, {}).values()]
    passed = [] if feed.plan is None else [marks.get(stream, NEVER) for stream in feed.sources]
    return max([*seen, *passed], default=NEVER)
