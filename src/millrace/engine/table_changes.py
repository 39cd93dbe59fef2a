"""How changes of tables reach plans: at one instant, each shard its own rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.tables import COPIES, consolidated, read_changes
from millrace.kernels.arrays import Ints
from millrace.operators.keys import hash_columns
from millrace.operators.relational.slab import Elements
from millrace.operators.relational.timed import empty_rows
from millrace.plan.placement import EVERYWHERE, FIRST
from millrace.state.manifest import Manifest
from millrace.state.root import Root

Place = tuple[str, tuple[int, int]]
"""By which column a table is spread, or what stands in its place, and the keys of a shard."""


def changes_at(
    root: Root, catalog: Catalog, name: str, taken: int | None, at: int, place: Place
) -> Elements:
    """Return what has changed in a table since the change `taken`, as changes at an instant."""
    spec = catalog.table(name)
    files = catalog.table_files.get(name, ())
    table = consolidated(read_changes(root, spec, files, taken))
    batches = table.to_batches()
    batch = batches[0] if batches else empty_rows(spec.changes)
    batch = batch.take(pa.array(of_place(batch, place)))
    copies = batch.column(COPIES).to_numpy()
    times = np.full(batch.num_rows, at, np.int64)
    return Elements(batch.select(list(spec.schema.names)), times, copies)


def of_place(rows: pa.RecordBatch, place: Place) -> Ints:
    """Return which rows of a table belong to a shard."""
    column, (low, high) = place
    if column == EVERYWHERE:
        return np.arange(len(rows))
    keys = np.zeros(len(rows), np.uint64) if column == FIRST else hash_columns(rows, [column])
    return np.flatnonzero((keys >= np.uint64(low)) & (keys <= np.uint64(high - 1)))


def least_taken(manifest: Manifest, catalog: Catalog) -> dict[str, int]:
    """Return for each table up to which change all its plans have seen it, if it has any."""
    found: dict[str, int] = {}
    for name, taken in facts.taken(manifest, catalog).items():
        plan = catalog.feeds[name].plan
        for table in plan.tables if plan is not None else ():
            found[table] = min(taken, found.get(table, taken))
    for name, births in facts.births(manifest, catalog).items():
        joining = births.get("joining")
        found[name] = births["added"] if joining is None else joining
    for name, beside in facts.besides(manifest, catalog).items():
        plan, taken = catalog.feeds[name].plan, beside["taken"]
        for table in plan.tables if plan is not None and taken is not None else ():
            found[table] = min(taken, found.get(table, taken))
    return found
