"""Which stores an engine keeps, what they are called, and which columns they have.

A store belongs to one stream or query for life: its name ends in a number that is never given
again, so what is dropped and declared anew under the same name starts empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millrace.engine.catalog import Catalog, QuerySpec
from millrace.engine.streams import StreamSpec
from millrace.state.store_state import StoreSpec

_RESULTS = "results/"
_ORDER = [("_key", pa.uint64()), ("_time", pa.int64())]

DEAD_LETTERS = "dead letters"
DEAD_LETTER_COLUMNS = pa.schema(
    [
        *_ORDER,
        ("stream", pa.string()),
        ("source", pa.string()),
        ("position", pa.int64()),
        ("reason", pa.string()),
        ("raw", pa.binary()),
    ]
)


def rows_store(spec: StreamSpec) -> str:
    """Name the store of a stream's history."""
    return f"rows/{spec.name}.{spec.born}"


def late_store(spec: StreamSpec) -> str:
    """Name the store of a stream's late rows."""
    return f"late/{spec.name}.{spec.born}"


def results_store(query: QuerySpec) -> str:
    """Name the store of a query's answers that wait for their sinks."""
    return f"{_RESULTS}{query.name}.{query.qid}"


def query_of(store: str) -> str | None:
    """Return the name of the query whose answers a store holds, None for other stores."""
    if not store.startswith(_RESULTS):
        return None
    return store.removeprefix(_RESULTS).rpartition(".")[0]


def store_specs(catalog: Catalog) -> Iterator[tuple[str, StoreSpec]]:
    """Give every store that the catalog calls for."""
    yield DEAD_LETTERS, StoreSpec(DEAD_LETTER_COLUMNS)
    for stream in catalog.streams.values():
        columns = list(stream.schema.to_arrow())
        if stream.retain is not None:
            yield rows_store(stream), StoreSpec(pa.schema([*_ORDER, *columns]))
        aside = [*_ORDER, ("_source", pa.string()), ("_position", pa.int64())]
        yield late_store(stream), StoreSpec(pa.schema([*aside, *columns]))
    for query in catalog.queries.values():
        answer = [*_ORDER, ("_late", pa.bool_()), *query.answer]
        yield results_store(query), StoreSpec(pa.schema(answer), queue=True)
