r"""How long answers are kept: until every sink has them, and for readers the newest of each feed.

    queue of a feed   [merged] [merged]  0 1 2 3 4 5 6 7      runs of epochs, the newest last
                      \_ old _/\__ settled __/\_ awaited _/
                                       newest `keep` rows of the feed

What sinks still await is left alone. What they have passed is *settled* as long as it belongs to
the newest rows that the feed keeps for readers: small runs of many epochs are then merged, so that
they do not keep a file for each epoch. What is *old* is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from millrace.connectors.sinks.sink import FanOut
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.stores import answer_store, answers_in
from millrace.state.manifest import Manifest, Run, StoreState

Consumed = Callable[[str, FanOut], int | None]
"""For a feed and a form, the least epoch that a sink still needs; None if no sink wants it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The runs of a queue that no sink waits for: the ids of old and of settled ones."""

    old: tuple[int, ...]
    settled: tuple[int, ...]


def passed_runs(manifest: Manifest, catalog: Catalog, consumed: Consumed) -> dict[str, Kept]:
    """Part the runs of answers that every sink has passed, by store."""
    return dict(_passed_runs(manifest, catalog, consumed))


def old_runs(
    manifest: Manifest, catalog: Catalog, consumed: Consumed, decision: Decision
) -> dict[str, tuple[int, ...]]:
    """Return the runs that nobody needs, and that no merge of the epoch is about."""
    merging = {(merge.store, each.run) for merge in decision.merges for each in merge.inputs}
    merging |= {(merge.store, merge.output) for merge in decision.merges}
    found = {
        store: tuple(run for run in kept.old if (store, run) not in merging)
        for store, kept in _passed_runs(manifest, catalog, consumed)
    }
    return {store: runs for store, runs in found.items() if runs}


def _passed_runs(
    manifest: Manifest, catalog: Catalog, consumed: Consumed
) -> Iterator[tuple[str, Kept]]:
    keep = {answer_store(feed, "rows"): feed.keep for feed in catalog.feeds.values()}
    for store, state in manifest.stores.items():
        found = answers_in(store)
        if found is not None and state.runs:
            fan_out, feed = found
            stop, needed = state.runs[-1].epoch + 1, consumed(feed, fan_out)
            passed = stop if needed is None else min(needed, stop)
            yield store, _kept(state, passed, keep.get(store, 0))


_known: WeakKeyDictionary[StoreState, tuple[tuple[int, int], Kept]] = WeakKeyDictionary()


def _kept(state: StoreState, passed: int, keep: int) -> Kept:
    """Part the runs before the epoch `passed`; what has not changed is not looked at again."""
    known = _known.get(state)
    if known is None or known[0] != (passed, keep):
        first = _first_kept(state.runs, keep)
        before = [run for run in state.runs if run.epoch < passed]
        kept = Kept(
            tuple(run.id for run in before if run.epoch < first),
            tuple(run.id for run in before if run.epoch >= first),
        )
        known = _known[state] = ((passed, keep), kept)
    return known[1]


def _first_kept(runs: Sequence[Run], keep: int) -> int:
    """Return the epoch from which on the newest runs have `keep` rows together."""
    first, n_rows = runs[-1].epoch + 1, 0
    for run in sorted(runs, key=lambda each: -each.epoch):
        if n_rows >= keep and run.epoch < first:
            break
        first, n_rows = run.epoch, n_rows + run.rows
    return first
