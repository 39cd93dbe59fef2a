r"""How long rows of answers are kept: until every sink has them, and for readers as long as asked.

    queue of a feed   [merged] [merged]  0 1 2 3 4 5 6 7      runs of epochs, the newest last
                      \_ old _/\__ settled __/\_ awaited _/
                                       newest `keep` rows of the feed

What sinks still await is left alone. What they have passed is *settled* as long as it belongs to
the newest rows that the feed keeps for readers, or to those that are within its retention. What is
*old* is dropped.

A feed with few answers keeps those of thousands of epochs, each in the file of its commit. So
neighbouring settled runs are merged, 16 of a level into one of the next (fewer if they make it
full), or what there is once a commit file has been held for 64 epochs. Sinks never read what was
merged: it was settled before.

Bounds, which tests assert: beside what sinks await there are at most `keep` rows, a quarter more
and one epoch's (what is retained by time goes when all of its run has expired); about 16 runs a
level; at most 64 merges an epoch. A row is rewritten once a level, and when its file has been held
for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from weakref import WeakKeyDictionary

from millrace.connectors.sinks.sink import FanOut
from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.feeds import FeedSpec
from millrace.engine.retention import horizon_of
from millrace.engine.stores import answer_store, answers_in
from millrace.state.expiry import expired, overdue
from millrace.state.manifest import Manifest, Run, StoreState
from millrace.state.merge import MergeInput, MergeStep

Consumed = Callable[[str, FanOut], int | None]
"""For a feed and a form, the least epoch that a sink still needs; None if no sink wants it."""

FEWEST_RUNS = 16
FEWEST_FULL = 4
MOST_RUNS = 1_024
MOST_ROWS = 65_536
MOST_MERGES = 64
ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True)
class Kept:
    """The runs of a queue that no sink waits for, the oldest first; `keep` rows are kept.

    Where answers are retained by time, that is `ENDLESS`.
    """

    old: tuple[Run, ...]
    settled: tuple[Run, ...]
    keep: int


def old_runs(
    manifest: Manifest, catalog: Catalog, consumed: Consumed, decision: Decision
) -> dict[str, tuple[int, ...]]:
    """Return the runs that nobody needs, and that no merge of the epoch reads."""
    merging = {(merge.store, each.run) for merge in decision.merges for each in merge.inputs}
    found = {
        store: tuple(run.id for run in kept.old if (store, run.id) not in merging)
        for store, kept in passed_runs(manifest, catalog, consumed).items()
    }
    return {store: runs for store, runs in found.items() if runs}


def kept_merges(manifest: Manifest, catalog: Catalog, consumed: Consumed) -> tuple[MergeStep, ...]:
    """Choose what the next epoch merges of what is kept for readers: where most is to be saved."""
    found = [
        (store, window)
        for store, kept in passed_runs(manifest, catalog, consumed).items()
        if (window := _window(kept, manifest.epoch + 1))
    ]
    found.sort(key=lambda each: (-len(each[1]), each[1][0].epoch, each[0]))
    return tuple(_step(store, manifest.stores[store], each) for store, each in found[:MOST_MERGES])


def passed_runs(manifest: Manifest, catalog: Catalog, consumed: Consumed) -> dict[str, Kept]:
    """Part the runs of answers that every sink has passed, by store."""
    keeping = {answer_store(feed, "rows"): feed for feed in catalog.feeds.values()}
    passed, marks = {}, facts.watermarks(manifest, catalog)
    for store, state in manifest.stores.items():
        found = answers_in(store)
        if found is not None and state.runs:
            forms, feed = found
            needed = [consumed(feed, each) for each in forms]
            stop = state.runs[-1].epoch + 1
            before = min([stop, *(each for each in needed if each is not None)])
            passed[store] = _kept(state, before, keeping.get(store), marks)
    return passed


_known: WeakKeyDictionary[StoreState, tuple[int, Kept]] = WeakKeyDictionary()


def _kept(state: StoreState, passed: int, feed: FeedSpec | None, marks: Mapping[str, int]) -> Kept:
    """Part the runs before the epoch `passed` as their feed says; one that is gone keeps none."""
    if feed is not None and feed.retain is not None and "eager" in feed.policies:
        horizon = horizon_of(feed, marks)
        before = [run for run in state.runs if run.epoch < passed]
        old = tuple(run for run in before if expired(run, horizon))
        return Kept(old, tuple(run for run in before if not expired(run, horizon)), ENDLESS)
    return _newest(state, passed, 0 if feed is None else feed.keep)


def _newest(state: StoreState, passed: int, keep: int) -> Kept:
    """Part runs by how many rows are kept; what has not changed is not looked at again."""
    known = _known.get(state)
    if known is None or (known[0], known[1].keep) != (passed, keep):
        first = _first_kept(state.runs, keep)
        before = [run for run in state.runs if run.epoch < passed]
        kept = Kept(
            tuple(run for run in before if run.epoch < first),
            tuple(run for run in before if run.epoch >= first),
            keep,
        )
        known = _known[state] = (passed, kept)
    return known[1]


def _first_kept(runs: Sequence[Run], keep: int) -> int:
    """Return the epoch from which on the newest runs have `keep` rows together."""
    first, n_rows = runs[-1].epoch + 1, 0
    for run in reversed(runs):
        if n_rows >= keep and run.epoch < first:
            break
        first, n_rows = run.epoch, n_rows + run.rows
    return first


def _window(kept: Kept, epoch: int) -> Sequence[Run]:
    """Choose neighbours to be merged, or a run alone whose file has been held for too long.

    A run is no larger than a quarter of what is kept, so that little more is kept than asked.
    """
    largest = min(max(kept.keep // 4, 1), MOST_ROWS)
    for _, stretch in groupby(kept.settled, lambda run: run.level):
        runs = list(stretch)
        late = next((at for at, run in enumerate(runs) if overdue(run, epoch)), None)
        first = 0 if late is None else late
        n_rows = accumulate(run.rows for run in runs[first : first + MOST_RUNS])
        window = runs[first : first + sum(total <= largest for total in n_rows)]
        full = first + len(window) < len(runs)  # the next run does not fit into it
        if len(window) >= (FEWEST_FULL if full else FEWEST_RUNS):
            return window
        if late is not None:
            return window or runs[first : first + 1]
    return ()


def _step(store: str, state: StoreState, window: Sequence[Run]) -> MergeStep:
    inputs = tuple(
        MergeInput(run.id, run.pieces, epoch=run.epoch if run.level == 0 else None)
        for run in window
    )
    return MergeStep(store, state.next_id, window[0].level + (len(window) > 1), inputs)
