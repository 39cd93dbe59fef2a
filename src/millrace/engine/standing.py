"""Which standing queries a task answers: the index files of a stream, and who of them is out.

An index file is mapped once in a process and remembered by its name, which is never used twice.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millrace.engine.backfill import Ranges, members
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.row_ids import query_of_key
from millrace.index.match import Source
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools
from millrace.state.container import Container
from millrace.state.root import Root

REMEMBERED = 64


def sources_of(root: Root, catalog: Catalog, decision: Decision, stream: str) -> list[Source]:
    """Return the index files over a stream, as an epoch sees them."""
    files = catalog.index.get(stream, ())
    masks = Container.open(root, catalog.file) if any(each.masked for each in files) else None
    found = []
    for file in files:
        run = index_file(root, file.name)
        out = np.zeros(run.n, np.bool_)
        if file.masked and masks is not None:
            packed = np.frombuffer(masks.section(file.masked), np.uint8)
            out = np.unpackbits(packed, count=run.n).astype(np.bool_)
        _silence(run, out, decision)
        found.append(Source(run, out if out.any() else None))
    return found


def without_queries(source: Source, queries: Ranges) -> Source:
    """Return an index file of which some queries are out."""
    mine = members(queries, source.run.qids)
    return Source(source.run, mine if source.out is None else mine | source.out)


def of_queries(source: Source, queries: Ranges) -> Source:
    """Return an index file of which all but some queries are out."""
    others = ~members(queries, source.run.qids)
    return Source(source.run, others if source.out is None else others | source.out)


def _silence(run: IndexRun, out: Bools, decision: Decision) -> None:
    """Mark queries that are suspended, and in a probe all but the families it is about."""
    if decision.suspended and run.n:
        qids = np.array(decision.suspended, np.uint64)
        at = np.minimum(np.searchsorted(run.qids, qids), run.n - 1)
        out[at[run.qids[at] == qids]] = True
    if decision.families is not None:
        mine = np.array([each.key in decision.families for each in run.families])
        out |= ~mine[run.owners(np.arange(run.n, dtype=np.int32))]


def families_in(root: Root, catalog: Catalog) -> tuple[str, ...]:
    """Return the keys of all families that a published catalog has queries of."""
    names = [each.name for files in catalog.index.values() for each in files]
    runs = [index_file(root, name) for name in names]
    return tuple(dict.fromkeys(family.key for run in runs for family in run.families))


def members_of(root: Root, catalog: Catalog, decision: Decision, family: str) -> list[int]:
    """Return the ids of a family's queries that an epoch answers."""
    alone = replace(decision, families=(family,))
    found: list[int] = []
    for stream in catalog.index:
        for each in sources_of(root, catalog, alone, stream):
            qids = each.run.qids
            found += (qids if each.out is None else qids[~each.out]).tolist()
    return sorted(found)


def of_standing(sets: pa.Table, root: Root, catalog: str) -> pa.Table:
    """Leave out sets of rows whose queries no index file holds any more."""
    files = Container.open(root, catalog).meta.get("index", {}).values()
    keys = sets.column("_key").to_numpy()
    new = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1]))) if keys.size else keys
    qids = query_of_key(keys[new])
    stands = np.zeros(qids.size, np.bool_)
    for run in (index_file(root, each[0]) for some in files for each in some):
        if run.n:
            at = np.minimum(np.searchsorted(run.qids, qids), run.n - 1)
            stands |= run.qids[at] == qids
    if stands.all():
        return sets
    return sets.filter(pa.array(np.repeat(stands, np.diff(np.append(new, keys.size)))))


_open: OrderedDict[tuple[str, str], IndexRun] = OrderedDict()
_lock = threading.Lock()


def index_file(root: Root, name: str) -> IndexRun:
    """Map an index file, or give the one this process has mapped."""
    place = (root.uri, name)
    with _lock:
        run = _open.get(place)
        if run is not None:
            _open.move_to_end(place)
            return run
    run = IndexRun.open(root, name)
    with _lock:
        run = _open.setdefault(place, run)
        while len(_open) > REMEMBERED:
            _open.popitem(last=False)
    return run
