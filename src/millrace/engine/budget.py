"""The memory of an epoch (`Settings.memory`): what is cut to it, and what is not.

    rows that come       sources hand over as many as fit, by the width of those of late (`pace`)
    slices of history    queries that catch up get as many rows as fit, by their width in files
    what joins prepare   of the queries of their families, between epochs: half of it in a process

What an operator makes of the rows of a slab is as large as it is; who has too little memory for it
takes fewer rows. It may change between epochs: decisions say what holds in each.
"""

from __future__ import annotations

from millrace.engine.catalog import Catalog
from millrace.engine.settings import Settings
from millrace.engine.stores import rows_store
from millrace.state.manifest import Manifest


def history_rows(manifest: Manifest, catalog: Catalog, settings: Settings) -> int:
    """Return how many rows of histories an epoch may answer for queries that catch up."""
    if not catalog.historic:
        return settings.backfill_rows
    read = {name for feed in catalog.historic for name in catalog.feeds[feed].sources}
    widest = max((_width(manifest, rows_store(catalog.streams[name])) for name in read), default=0)
    return max(min(settings.backfill_rows, settings.memory // max(widest, 1)), 1)


def kept_between_epochs(memory: int) -> int:
    """Return how many bytes a process may keep of what it has prepared."""
    return memory // 2


def _width(manifest: Manifest, store: str) -> int:
    """Return how many bytes a row of a store takes, on average."""
    state = manifest.stores.get(store)
    pieces = [piece for run in (() if state is None else state.runs) for piece in run.pieces]
    n_rows = sum(piece.rows for piece in pieces)
    return sum(piece.bytes for piece in pieces) // max(n_rows, 1)
