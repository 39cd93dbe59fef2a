"""Reading what a stream retains: rows of a stretch of its time, as they were committed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.stores import rows_store
from millrace.engine.streams import StreamSpec
from millrace.reading.room import Room, certain_rows
from millrace.reading.window import FIRST_TIME
from millrace.state.manifest import Manifest
from millrace.state.merge import LAST_TIME
from millrace.state.order import TIME
from millrace.state.root import Root
from millrace.state.store import scan


def retained_since(spec: StreamSpec, manifest: Manifest, catalog: Catalog) -> int:
    """Return the instant from which on a stream retains its rows."""
    mark = facts.watermarks(manifest, catalog).get(spec.name)
    if mark is None or spec.retain is None:
        return FIRST_TIME
    return mark - spec.retain


def newest_time(names: tuple[str, ...], manifest: Manifest, catalog: Catalog) -> int:
    """Return up to where the time of some streams has come, by their rows or by itself; or 0."""
    clocks, marks = facts.clocks(manifest, catalog), facts.watermarks(manifest, catalog)
    rows = [time for name in names for time in clocks.get(name, {}).values()]
    return max(rows + [marks[name] for name in names if name in marks], default=0)


def history(  # noqa: PLR0913  a window has as many words as in SQL
    root: Root,
    manifest: Manifest,
    catalog: Catalog,
    stream: str,
    begin: int | None = None,
    end: int | None = None,
    *,
    columns: Sequence[str] | None = None,
    room: Room | None = None,
) -> pa.Table:
    """Return the rows that a stream retains of [begin, end), oldest first, with `_time`.

    Whether rows beyond retention are still in files or not cannot be seen. What is read takes its
    room.
    """
    spec = catalog.streams[stream]
    state = manifest.stores.get(rows_store(spec))
    if state is None:
        schema = pa.schema([(TIME, pa.int64()), *spec.schema.to_arrow()])
        return schema.empty_table()
    first = max(retained_since(spec, manifest, catalog), FIRST_TIME if begin is None else begin)
    times = (first, LAST_TIME if end is None else end)
    names = [TIME, *(spec.schema.names if columns is None else columns)]
    room = room or Room()
    room.require_rows(certain_rows(state.runs, times))
    rows = scan(root, state, times=times, columns=names, taking=room.take)
    order = np.argsort(rows.column(TIME).to_numpy(), kind="stable")
    return rows.take(pa.array(order))
