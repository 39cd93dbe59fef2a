"""Reading whole stores: history, late rows and dead letters, without what has expired."""

from __future__ import annotations

import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.decide import horizons
from millrace.engine.stores import store_specs
from millrace.state.manifest import Manifest
from millrace.state.merge import LAST_TIME
from millrace.state.root import Root
from millrace.state.store import scan


def unexpired(
    root: Root, manifest: Manifest, catalog: Catalog, store: str, keep_rejected: int, now: int
) -> pa.Table:
    """Return the rows of a store that have not expired, whether merged away yet or not."""
    state = manifest.stores.get(store)
    if state is None:
        return dict(store_specs(catalog))[store].schema.empty_table().drop_columns(["_key"])
    horizon = horizons(manifest, catalog, keep_rejected, now)
    times = (horizon[store], LAST_TIME) if store in horizon else None
    return scan(root, state, times=times).drop_columns(["_key"])
