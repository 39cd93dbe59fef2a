"""Changes of the registry that tests make: streams, feeds and queries, as a session spells them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millrace.engine.feeds import KEPT_ROWS, Family, FeedSpec, Kind
from millrace.engine.parameters import parameter_schema
from millrace.engine.registry import Registry
from millrace.engine.streams import StreamSpec
from millrace.plan.bind import bind_selection, output_schema
from millrace.plan.lifting import lift_constants
from millrace.plan.nodes import Selection, select
from millrace.plan.term import col
from millrace.schema import Schema

SCHEMA = Schema.of("symbol text, price double, ts timestamp")

Change = dict[str, Any]


def add_stream(name: str = "trades", schema: Schema = SCHEMA) -> Change:
    """Declare a stream."""
    return {"do": "add stream", "stream": StreamSpec(name, schema, "ts").to_json()}


def above(low: float, stream: str = "trades") -> Selection:
    """Ask for the symbols of trades above a price."""
    return select(stream, "symbol", where=col("price") > low)


def add_feed(
    name: str,
    asked: Selection,
    kind: Kind = "query",
    *,
    keep: int = KEPT_ROWS,
    schema: Schema = SCHEMA,
) -> Change:
    """Make a feed for answers like those of a query."""
    bound = bind_selection(asked, schema, {})
    answer = output_schema(bound, schema, {})
    feed = FeedSpec(name, asked.stream, answer, kind, keep=keep)
    return {"do": "add feed", "feed": feed.to_json()}


def add_queries(
    feed: str,
    *asked: Selection,
    names: Sequence[str] | None = None,
    schema: Schema = SCHEMA,
    rows: int = 0,
) -> tuple[Change, pa.RecordBatch]:
    """Spell queries of one family; what they differ in becomes the table."""
    lifted = [lift_constants(bind_selection(each, schema, {})) for each in asked]
    types = tuple(lifted[0].types)
    assert all((each.selection, tuple(each.types)) == (lifted[0].selection, types)
               for each in lifted), "queries of one family"  # fmt: skip
    change = {
        "do": "add queries",
        "family": Family(feed, lifted[0].selection, types).to_json(),
        "n_rows": len(asked),
        "rows": rows,
    }
    if names is not None:
        change["names"] = list(names)
    return change, constants(types, [each.values for each in lifted])


def constants(types: tuple[str, ...], values: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Return a table of constants, a row for each query."""
    if not types:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(values), pa.struct([])))
    columns = [
        pa.array([row[at] for row in values], field.type)
        for at, field in enumerate(parameter_schema(types))
    ]
    return pa.RecordBatch.from_arrays(columns, schema=parameter_schema(types))


def ids(*qids: int) -> pa.RecordBatch:
    """Return the table that names queries."""
    return pa.record_batch({"qid": pa.array(qids, pa.uint64())})


def ask(
    registry: Registry,
    name: str,
    asked: Selection,
    *,
    keep: int = KEPT_ROWS,
    schema: Schema = SCHEMA,
) -> int:
    """Register one query with a feed of its own; return its id."""
    change, table = add_queries(name, asked, names=[name], schema=schema)
    feed = add_feed(name, asked, keep=keep, schema=schema)
    [qid] = registry.record([feed, change], [table])
    return qid


def ask_many(
    registry: Registry, feed: str, *asked: Selection, names: Sequence[str] | None = None
) -> list[int]:
    """Register queries of one family into a feed that exists; return their ids."""
    change, table = add_queries(feed, *asked, names=names)
    [first] = registry.record([change], [table])
    return list(range(first, first + len(asked)))
