"""Which standing queries a task answers: the index files of a stream, and who of them is out.

An index file is mapped once in a process and remembered by its name, which is never used twice.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
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
        run = _remembered(root, file.name)
        out = np.zeros(run.n, np.bool_)
        if file.masked and masks is not None:
            packed = np.frombuffer(masks.section(file.masked), np.uint8)
            out = np.unpackbits(packed, count=run.n).astype(np.bool_)
        _silence(run, out, decision)
        found.append(Source(run, out if out.any() else None))
    return found


def _silence(run: IndexRun, out: Bools, decision: Decision) -> None:
    """Mark queries that are suspended, and in a probe all but the families it is about."""
    if decision.suspended and run.n:
        qids = np.array(decision.suspended, np.uint64)
        at = np.minimum(np.searchsorted(run.qids, qids), run.n - 1)
        out[at[run.qids[at] == qids]] = True
    if decision.families is not None:
        mine = np.array([each.key in decision.families for each in run.families])
        out |= ~mine[run.owners(np.arange(run.n, dtype=np.int32))]




@lru_cache(maxsize=REMEMBERED)
def _remembered(root: Root, name: str) -> IndexRun:
    return IndexRun.open(root, name)
