"""Rows that a root has set aside, newest first: dead letters, and rows that came too late."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.registry import Registry
from millrace.engine.stores import DEAD_LETTERS, late_store
from millrace.schema import TIMESTAMP
from millrace.state.root import Root
from millrace.state.run_store import load_manifest
from millrace.state.store import scan

RAW_CHARACTERS = 120
CAME = "came"


def dead_letters(root: Root, most: int) -> pa.Table:
    """Return the newest dead letters: when they came, from where, why, and their first bytes."""
    table = _newest(root, DEAD_LETTERS, most)
    if "raw" not in table.schema.names:
        return table
    raw = pa.array([_words(each) for each in table["raw"].to_pylist()], pa.string())
    return table.set_column(table.schema.get_field_index("raw"), "raw", raw)


def late_rows(root: Root, most: int) -> Iterator[tuple[str, pa.Table]]:
    """Give the newest late rows of each stream that has any: when they came, and the rows."""
    for name, spec in Registry.open(root).catalog.streams.items():
        table = _newest(root, late_store(spec), most)
        if table.num_rows:
            yield name, table


def as_json(table: pa.Table) -> list[dict[str, Any]]:
    """Spell a table for JSON: instants in ISO 8601, and what JSON has no form for as text."""
    plain = (bool, int, float, str, type(None))
    return [
        {name: value if isinstance(value, plain) else _spelt(value) for name, value in row.items()}
        for row in table.to_pylist()
    ]


def _newest(root: Root, store: str, most: int) -> pa.Table:
    """Return the newest rows of a store by when they came; of one epoch, the last first."""
    state = load_manifest(root).stores.get(store)
    if state is None:
        return pa.table({CAME: pa.array([], TIMESTAMP)})
    table = scan(root, state).drop_columns(["_key"])
    order = pc.sort_indices(table, sort_keys=[("_time", "ascending")])
    newest = order.slice(max(len(order) - most, 0))[::-1]
    found = table.take(newest)
    at = found.schema.get_field_index("_time")
    return found.set_column(at, CAME, found["_time"].cast(TIMESTAMP))


def _words(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    words = raw[: 4 * RAW_CHARACTERS].decode(errors="replace")
    return words if len(words) <= RAW_CHARACTERS else f"{words[:RAW_CHARACTERS]}..."


def _spelt(value: Any) -> str:  # noqa: ANN401  whatever Arrow has types for
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
