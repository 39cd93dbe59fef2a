"""What is declared, as clients see it: streams, tables, templates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from millrace.engine import facts
from millrace.engine.feeds import FeedSpec
from millrace.reading.reader import Reader
from millrace.schema import Schema, type_name
from millrace.server.json_rows import instant_text
from millrace.server.principals import Principal, owner_of
from millrace.time import print_duration

QUERY = "_query"


def streams(reader: Reader) -> list[dict[str, Any]]:
    """List the streams."""
    catalog, manifest = reader.catalog, reader.manifest
    marks = facts.watermarks(manifest, catalog)
    return [
        {
            "name": each.name,
            "columns": columns(each.schema),
            "time": each.time,
            "delay": print_duration(each.delay),
            "retain": None if each.retain is None else print_duration(each.retain),
            "key": list(each.key),
            "watermark": instant_text(marks.get(each.name)),
        }
        for each in catalog.streams.values()
    ]


def tables(reader: Reader) -> list[dict[str, Any]]:
    """List the tables."""
    return [
        {"name": each.name, "columns": columns(each.schema), "key": list(each.key)}
        for each in reader.catalog.tables.values()
    ]


def table_rows(reader: Reader, name: str, limit: int) -> pa.Table:
    """Return rows of a table."""
    return reader.table_rows(name).slice(0, limit)


def templates(reader: Reader, who: Principal) -> list[dict[str, Any]]:
    """List the templates that somebody sees."""
    with reader.registered() as (catalog, _, queries):
        sizes = queries.sizes()
        return [template(each, sizes.get(each.name, 0), who) for each in catalog.feeds.values()
                if each.kind == "template" and who.sees(each.name)]  # fmt: skip


def template(feed: FeedSpec, n_queries: int, who: Principal) -> dict[str, Any]:
    """Describe a template."""
    return {
        "name": who.shown(feed.name),
        "parameters": [{"name": name, "type": kind} for name, kind in feed.parameters],
        "text": feed.text,
        "queries": n_queries,
        "keep": feed.keep,
        "owner": owner_of(feed.name),
        "retain": None if feed.retain is None else print_duration(feed.retain),
        "policy": None if feed.retain is None else feed.policy,
    }


def template_rows(reader: Reader, feed: FeedSpec, after: int, limit: int) -> pa.Table:
    """Return the parameters of a template's queries behind an id, with their ids."""
    families = [
        each for each in reader.catalog.families.values()
        if each.feed == feed.name and each.parameters
    ]  # fmt: skip
    names = [name for name, _ in feed.parameters]
    if not families:
        return pa.table({QUERY: pa.array([], pa.int64())})
    ids, constants = reader.constants(families[0])
    first = int(np.searchsorted(ids, after, side="right"))
    rows = constants.slice(first, limit)
    shown = pa.array(ids[first : first + limit].astype(np.int64))
    return pa.table([shown, *rows.columns], names=[QUERY, *names])


def columns(schema: Schema) -> list[dict[str, str]]:
    """Describe columns."""
    return [{"name": each.name, "type": type_name(each.type)} for each in schema]
