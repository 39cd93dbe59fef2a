"""What standing queries ask, found in the index files that an epoch was run with.

A reader in another process knows the manifest; that names the catalog, and the catalog the index
files, which hold the selections and the constants of all queries over a stream.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.engine.publication import PAUSED
from millrace.engine.standing import index_file
from millrace.index.match import Source
from millrace.kernels.arrays import Hashes, Ints32
from millrace.plan.nodes import Selection
from millrace.state.container import Container
from millrace.state.manifest import Manifest
from millrace.state.root import Root

REMEMBERED = 8
MOST_ASKED = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """Queries of one feed that ask the same but for constants; `qids` ascend.

    `parameters` has a row for each, if what they show depends on their constants or these were
    wanted; else it is None. `alike` is the same for queries that show the same of a row, and
    `columns` are those of a row that they need for it, and if constants were wanted, to match it.
    What they show `differs` if it depends on their constants.
    """

    feed: str
    selection: Selection
    qids: Hashes
    parameters: pa.RecordBatch | None
    alike: str
    columns: frozenset[str]
    differs: bool


def asking(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qids: Hashes | None = None,
    *,
    constants: bool = False,
) -> Iterator[Asking]:
    """Yield what queries ask: some over the feed's stream, by their ids, or all of the feed."""
    for source in standing(root, manifest, feed.stream):
        run, slots = source.run, _slots(source, feed, qids)
        owners = run.owners(slots)
        for family in np.unique(owners).tolist():
            mine = slots if len(run.families) == 1 else slots[owners == family]
            stored = run.families[family]
            parameters, alike = None, stored.projection
            if stored.outputs_differ:
                alike = f"{run.name} {family}"
            if constants or stored.outputs_differ:
                parameters = run.parameters(family).take(pa.array(run.places(mine)))
            columns = stored.columns_read if constants else stored.columns_shown
            shown, differs = stored.selection, stored.outputs_differ
            yield Asking(stored.feed, shown, run.qids[mine], parameters, alike, columns, differs)


def asking_one(
    root: Root, manifest: Manifest, feed: FeedSpec, qid: int, *, constants: bool = False
) -> tuple[Asking, ...]:
    """Return what one query asks, nothing if it does not stand; remembered for the next time."""
    known = _standing(root, manifest, feed.stream).asked
    found = known.get((qid, constants))
    if found is None:
        qids = np.array([qid], np.uint64)
        found = tuple(asking(root, manifest, feed, qids, constants=constants))
        if len(known) >= MOST_ASKED:
            known.clear()
        known[qid, constants] = found
    return found


def standing_ids(root: Root, manifest: Manifest, feed: FeedSpec) -> Hashes:
    """Return the ids of a feed's queries that stand."""
    sources = standing(root, manifest, feed.stream)
    found = [each.run.qids[_slots(each, feed, None)] for each in sources]
    return np.concatenate([np.zeros(0, np.uint64), *found])


def standing(root: Root, manifest: Manifest, stream: str) -> list[Source]:
    """Return the index files over a stream, and who of them was dropped, as of the last epoch."""
    return _standing(root, manifest, stream).sources


@dataclass(frozen=True, slots=True, eq=False)
class _Standing:
    """The queries over a stream, and what some of them ask, by their ids, with constants or not."""

    sources: list[Source]
    asked: dict[tuple[int, bool], tuple[Asking, ...]]


def _standing(root: Root, manifest: Manifest, stream: str) -> _Standing:
    catalog = manifest.facts.get("catalog")
    place = (root.uri, str(catalog), stream)
    with _lock:
        known = _known.get(place)
    if known is None:
        known = _Standing([] if catalog is None else _read(root, catalog, stream), {})
        with _lock:
            _known[place] = known
            while len(_known) > REMEMBERED:
                _known.popitem(last=False)
    return known


_known: OrderedDict[tuple[str, str, str], _Standing] = OrderedDict()
_lock = threading.Lock()


def _read(root: Root, catalog: str, stream: str) -> list[Source]:
    file = Container.open(root, catalog)
    listed = PAUSED in file.sections
    paused = np.frombuffer(file.section(PAUSED) if listed else b"", np.uint64)
    found = []
    for name, masked in file.meta.get("index", {}).get(stream, []):
        run, out = index_file(root, name), None
        if masked:
            packed = np.frombuffer(file.section(masked), np.uint8)
            out = np.unpackbits(packed, count=run.n).astype(np.bool_)
            out &= ~np.isin(run.qids, paused)
        found.append(Source(run, out))
    return found


def _slots(source: Source, feed: FeedSpec, qids: Hashes | None) -> Ints32:
    """Return the slots of queries of a feed that stand."""
    run = source.run
    if qids is None:
        mine = np.array([each.key.startswith(f"{feed.number}-") for each in run.families])
        slots = np.flatnonzero(mine[run.owners(np.arange(run.n, dtype=np.int32))])
    elif run.n:
        at = np.minimum(np.searchsorted(run.qids, qids), run.n - 1)
        slots = np.sort(at[run.qids[at] == qids])
    else:
        slots = np.zeros(0, np.int64)
    if source.out is not None:
        slots = slots[~source.out[slots]]
    return slots.astype(np.int32)
