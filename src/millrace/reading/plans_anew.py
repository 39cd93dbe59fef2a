"""Answers of plans for which nothing is stored: the plan is run over the elements that are kept.

    elements   ├─ as far as it depends on them ─┼─ window ─┤    one slab; the window is told
    marks      epoch 17: up to 410, epoch 18: up to 425, ...    in which epoch an instant was

A plan that rests (`engine.resting`) has left its elements in the stores that all plans share. They
carry the epoch in which they came, so it sees what it would have seen, and what it tells in a
window is what it would have told.

Cost: the elements of the window, and of as long before it as answers depend on, are read and go
through the operators, for each reading; if they are more than MOST_ELEMENTS, it is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.elements import StoredElements, as_elements
from millrace.engine.feeds import FeedSpec
from millrace.engine.heard import Heard
from millrace.engine.plan_stores import element_stores, seen_for
from millrace.engine.plans import compiled
from millrace.engine.policies import Stretch
from millrace.engine.registry import read_catalog
from millrace.engine.resting import marks_store
from millrace.engine.tally import NEVER
from millrace.errors import PlanError, StoreError
from millrace.kernels.arrays import Ints
from millrace.operators.relational.passing import Run
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.state import MemoryState
from millrace.operators.select import Function
from millrace.reading.gathered import Answers
from millrace.reading.room import Wanted
from millrace.state.manifest import Manifest
from millrace.state.merge import EPOCH
from millrace.state.root import Root
from millrace.state.run import Range
from millrace.state.store import scan

MOST_ELEMENTS = 5_000_000
EVERY_KEY: Range = (0, 1 << 64)
_REMEMBERED = 64


def plan_answers(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None,
    stretch: Stretch,
    wanted: Wanted,
    functions: Mapping[str, Function] | None,
) -> Iterator[Answers]:
    """Yield what a plan has told in some epochs and times, as stored answers look."""
    times, room = wanted.times, wanted.room
    number = str(feed.number)
    begin, found_from = manifest.facts.get("anew", {}).get(number, (None, None))
    declared = _declared(root, manifest, feed)
    if begin is None or declared is None:
        return
    passed = _passed(root, manifest, feed, declared)
    low = max(times[0], found_from, passed.before(stretch.first))
    high = min(times[1], passed.before(stretch.stop))
    if low >= high:
        return
    entered = manifest.facts["entered"][number]
    slab = _slab(root, manifest, feed, declared, entered, (max(begin, low - seen_for(feed)), high))
    plan, run = compiled(feed, declared), Run(replace(slab, functions=functions or {}))
    assert feed.plan is not None, "only plans are run"
    for each in feed.plan.told:
        try:
            told = plan.stream(each, run)
        except (MemoryError, OSError):
            raise
        except Exception as cause:
            raise StoreError(
                f'answers of "{feed.name}" cannot be computed',
                detail=f"{type(cause).__name__}: {cause}",
                hint="What a query tells is computed when it is asked; drop it, or ask for less.",
            ) from cause
        heard = Heard.of_one(told, qid or 0).since(low)
        room.require_rows(0 if wanted.last else len(heard.times))
        epochs = passed.epochs[np.searchsorted(passed.after, heard.times, side="right")]
        yield {**heard.answers(feed.answer, each), EPOCH: pa.array(epochs)}


def _slab(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    declared: Catalog,
    entered: int,
    times: Range,
) -> Slab:
    """Return the elements of some times as the first slab of a plan."""
    stores = {each.stream: each for each in element_stores(feed, declared)}
    held = {
        each.name: [piece for run in state.runs for piece in run.pieces]
        for each in stores.values()
        if (state := manifest.stores.get(each.name)) is not None
    }
    begin, end = times
    seen = StoredElements(root, held, declared, stores, EVERY_KEY, entered, begin)
    streams = dict[str, Elements]()
    for name in stores:
        streams[name] = as_elements(seen.waiting(name, end))
        _require_few(feed, sum(map(len, streams.values())))
    past = replace(seen, held={})
    return Slab(begin, end, streams, {}, MemoryState(), first=True, past=past)


def _require_few(feed: FeedSpec, n_elements: int) -> None:
    if n_elements > MOST_ELEMENTS:
        raise PlanError(
            f'answers of "{feed.name}" would be found anew among too many rows',
            detail=f"There are more than {MOST_ELEMENTS:,} in the window, and in what it depends "
            "on.",
            hint='Ask for a shorter window, or give the query policy "eager".',
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Passed:
    """How far epochs have brought a plan: up to `after[i]` after `epochs[i]`, both ascending.

    Before the first of them it was at `start`.
    """

    start: int
    epochs: Ints
    after: Ints

    def before(self, epoch: int) -> int:
        """Return how far it was before an epoch."""
        at = int(np.searchsorted(self.epochs, epoch))
        return self.start if at == 0 else int(self.after[at - 1])


def _passed(root: Root, manifest: Manifest, feed: FeedSpec, declared: Catalog) -> _Passed:
    """Return how far epochs have brought a plan, which is where the last of its streams was."""
    noted = []
    for name in feed.sources:
        state = manifest.stores.get(marks_store(declared.streams[name]))
        rows = None if state is None else scan(root, state, columns=["_time", "epoch", "before"])
        if rows is None or not rows.num_rows:
            now = manifest.facts.get("watermarks", {}).get(name, NEVER)
            noted.append((np.zeros(0, np.int64), np.array([now], np.int64)))
            continue
        epochs = rows.column("epoch").to_numpy()
        order = np.argsort(epochs)
        before = rows.column("before").fill_null(NEVER).to_numpy()[order[:1]]
        after = rows.column("_time").to_numpy()[order]
        noted.append((epochs[order], np.concatenate((before, after))))
    every = np.unique(np.concatenate([epochs for epochs, _ in noted]))
    reached = [marks[np.searchsorted(epochs, every, side="right")] for epochs, marks in noted]
    start = min(int(marks[0]) for _, marks in noted)
    after = np.minimum.reduce(reached) if len(every) else every
    moved = np.flatnonzero(np.diff(np.concatenate(([start], after))))
    return _Passed(start, every[moved], after[moved])


def _declared(root: Root, manifest: Manifest, feed: FeedSpec) -> Catalog | None:
    """Return a catalog of the streams that a feed reads; None if an epoch has not known it yet."""
    if str(feed.number) not in manifest.facts.get("entered", {}):
        return None
    born = manifest.facts.get("born", {})
    place = root.uri, tuple((name, born.get(name)) for name in feed.sources)
    with _lock:
        known = _known.get(place)
    if known is None:
        streams = read_catalog(root, manifest.facts["catalog"]).streams
        known = Catalog(streams={name: streams[name] for name in feed.sources})
        with _lock:
            while len(_known) >= _REMEMBERED:
                _known.pop(next(iter(_known)))
            _known[place] = known
    return known


_known: dict[tuple[str, tuple[tuple[str, int | None], ...]], Catalog] = {}
_lock = threading.Lock()
