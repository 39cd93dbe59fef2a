"""Which stores an engine keeps, what they are called, and which columns they have.

A store belongs to one stream or feed for life: its name ends in a number that is never given
again, so what is dropped and declared anew under the same name starts empty.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millrace.connectors.sinks.sink import FANOUTS, FanOut
from millrace.engine.catalog import Catalog
from millrace.engine.feeds import FeedSpec
from millrace.engine.plan_stores import plan_stores
from millrace.engine.resting import marks_stores
from millrace.engine.retention import retained
from millrace.engine.streams import StreamSpec
from millrace.operators.query_sets import SETS
from millrace.remembering import remembered
from millrace.state.store_state import StoreSpec

_ORDER = [("_key", pa.uint64()), ("_time", pa.int64())]

_PREFIXES: dict[FanOut, tuple[str, str]] = {
    "rows": ("results", "matches"),  # of one query; of several, told apart by `_key`
    "counts": ("counts", "counts"),
    "sets": ("sets", "sets"),
}
_TOGETHER = "told"
"""Rows with the sets of their queries, of which both rows and sets are made."""
BACKFILL = "_backfill"
"""The column of answers that says whether they are about history; of feeds that see it."""
ASKED = "_asked"
"""The column of kept rows that says which queries stood when a row came: those of lower ids."""

SEEN_COLUMNS = [*_ORDER, ("_late", pa.bool_()), (ASKED, pa.uint64())]
FOUND_COLUMNS = pa.schema(
    [*_ORDER, ("block", pa.uint64()), ("n_rows", pa.int32()), ("places", pa.binary())]
)

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


def seen_store(spec: StreamSpec) -> str:
    """Name the store of a stream's rows that answers are made of, by row id."""
    return f"seen/{spec.name}.{spec.born}"


def found_store(spec: StreamSpec, retain: int) -> str:
    """Name the store that says which rows are answers of queries that retain them for so long."""
    return f"found/{spec.name}.{spec.born}/{retain}"


def is_found(store: str) -> bool:
    """Say whether a store is of sets of rows by query."""
    return store.startswith("found/")


def retained_in(store: str) -> int:
    """Return for how long the sets of a store are kept."""
    return int(store.rpartition("/")[2])


def answer_store(feed: FeedSpec, fan_out: FanOut) -> str:
    """Name the store of a feed's answers, in one of their forms, that wait for their sinks."""
    return f"{_prefix(feed, fan_out)}/{feed.name}.{feed.number}"


def answers_in(store: str) -> tuple[tuple[FanOut, ...], str] | None:
    """Return the forms and the feed of the answers that a store holds, None for other stores."""
    prefix, _, rest = store.partition("/")
    forms: tuple[FanOut, ...] = tuple(each for each in FANOUTS if prefix in _PREFIXES[each])
    if holds_sets(store):
        forms = ("rows", "sets")
    return (forms, rest.rpartition(".")[0]) if forms else None


def holds_sets(store: str) -> bool:
    """Say whether both forms, rows and sets, are made of the rows of a store."""
    return store.startswith(f"{_TOGETHER}/")


def tells_queries_apart(store: str) -> bool:
    """Say whether the rows of a store are of several queries."""
    return not store.startswith("results/")


def store_specs(catalog: Catalog) -> Iterator[tuple[str, StoreSpec]]:
    """Give every store that the catalog calls for."""
    yield DEAD_LETTERS, StoreSpec(DEAD_LETTER_COLUMNS)
    for stream in catalog.streams.values():
        columns = list(stream.schema.to_arrow())
        if stream.retain is not None:
            yield rows_store(stream), StoreSpec(pa.schema([*_ORDER, *columns]))
        aside = [*_ORDER, ("_source", pa.string()), ("_position", pa.int64())]
        yield late_store(stream), StoreSpec(pa.schema([*aside, *columns]))
    for name, kept in retained(catalog).items():
        stream = catalog.streams[name]
        yield seen_store(stream), StoreSpec(pa.schema([*SEEN_COLUMNS, *stream.schema.to_arrow()]))
        for retain in kept.lazy:
            yield found_store(stream, retain), StoreSpec(FOUND_COLUMNS)
    for feed in catalog.feeds.values():
        yield from store_specs_of(feed)
    for feed in catalog.plans():
        yield from plan_stores(feed, catalog)
    yield from marks_stores(catalog)


@remembered
def store_specs_of(feed: FeedSpec) -> tuple[tuple[str, StoreSpec], ...]:
    """Give the stores of a feed's answers, one for each form."""
    late = [*_ORDER, ("_late", pa.bool_())]
    if feed.history is not None:
        late.append((BACKFILL, pa.bool_()))
    columns = {
        "rows": [*late, *feed.answer],
        "counts": [*_ORDER, ("n_rows", pa.int64())],
        "sets": [*late, *feed.answer, (SETS, pa.binary())],
    }
    if feed.stores_sets:
        columns["rows"] = columns["sets"]
    specs = {
        answer_store(feed, form): StoreSpec(pa.schema(columns[form]), queue=True)
        for form in FANOUTS
    }
    return tuple(specs.items())


def _prefix(feed: FeedSpec, fan_out: FanOut) -> str:
    together = feed.stores_sets and fan_out != "counts"
    return _TOGETHER if together else _PREFIXES[fan_out][feed.shared]
