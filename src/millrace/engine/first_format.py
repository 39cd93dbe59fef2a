"""The first form of registry, catalogs and decisions, read as the present one.

In that form each query stood in the catalog by itself:

    change       add query, drop query; pause and resume by name
    snapshot     and catalog: `queries`, each with its id, generation and whether it is paused
    decision     without who wants answers; every query was answered, a row for each match

What was one change stays one step of `sequence`, since streams and catalogs are known by it. A
query's feed gets the query's id for its number, so the stores of answers keep their names. Nothing
is written in this form any more; a catalog of it that an epoch still needs is published anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.parameters import parameter_schema
from millrace.engine.population import Population
from millrace.engine.streams import StreamSpec
from millrace.plan.lifting import lift_constants
from millrace.plan.nodes import Selection
from millrace.schema import type_named
from millrace.state.container import Container
from millrace.state.root import Root

Change = dict[str, Any]


def is_first_change(change: Change) -> bool:
    """Say whether a change of the registry is in the first form."""
    by_name = change["do"] in ("pause", "resume") and "name" in change
    return by_name or change["do"] in ("add query", "drop query")


def is_first_catalog(meta: Mapping[str, Any]) -> bool:
    """Say whether a catalog, or a snapshot of the registry, is in the first form."""
    return "queries" in meta


def steps(
    change: Change, names: Mapping[str, int], number: int
) -> tuple[list[Change], list[pa.RecordBatch]]:
    """Return what a change of the first form is now; `number` is the next of a feed."""
    match change["do"]:
        case "add query":
            feed, family, rows = _query({**change["query"], "qid": number})
            queries = {"family": family.to_json(), "n_rows": 1, "rows": 0, "names": [feed.name]}
            added = {"do": "add feed", "feed": feed.to_json()}
            return [added, {"do": "add queries", **queries}], [rows]
        case "drop query":
            return [{"do": "drop feed", "name": change["name"]}], []
        case do:
            return [{"do": do, "qids": [names[change["name"]]]}], []


def restored(meta: Mapping[str, Any]) -> tuple[Catalog, Population]:
    """Read a snapshot of the registry, or a catalog, of the first form."""
    streams = [StreamSpec.from_json(each) for each in meta["streams"]]
    feeds: dict[str, FeedSpec] = {}
    families: dict[str, Family] = {}
    population = Population()
    for spelt in meta["queries"]:
        feed, family, rows = _query(spelt)
        feeds[feed.name], families[family.key] = feed, family
        population.add(feed.stream, family, spelt["qid"], rows, [feed.name])
        if spelt["paused"]:
            population.paused.add(spelt["qid"])
        if spelt["generation"]:
            population.generations[spelt["qid"]] = spelt["generation"]
    catalog = Catalog(
        meta["sequence"],
        meta["next_qid"],
        meta["next_qid"],
        {each.name: each for each in streams},
        feeds,
        families,
    )
    return catalog, population


def decision(root: Root, spelt: dict[str, Any]) -> dict[str, Any]:
    """Return a logged decision in the present form."""
    if "wanted" in spelt:
        return spelt
    catalog = Container.open(root, spelt["catalog"]).meta
    names = [each["name"] for each in catalog.get("queries", catalog.get("feeds", []))]
    quarantined = {qid: [None, *verdict] for qid, verdict in spelt["quarantined"].items()}
    added = {"wanted": {name: ["rows"] for name in names}, "families": None, "access": "auto"}
    return {**spelt, "quarantined": quarantined, **added}


def _query(spelt: Mapping[str, Any]) -> tuple[FeedSpec, Family, pa.RecordBatch]:
    """Return a query's feed, its family and its constants."""
    selection = Selection.from_json(spelt["selection"])
    answer = pa.schema([(name, type_named(kind)) for name, kind in spelt["answer"]])
    text, number = str(selection), spelt["qid"]
    feed = FeedSpec(spelt["name"], selection.stream, answer, text=text, number=number)
    lifted = lift_constants(selection)
    types = tuple(lifted.types)
    family = Family(feed.name, lifted.selection, types, number)
    if not types:
        return feed, family, pa.RecordBatch.from_struct_array(pa.array([{}], pa.struct([])))
    schema = parameter_schema(types)
    columns = [
        pa.array([value], field.type) for value, field in zip(lifted.values, schema, strict=True)
    ]
    return feed, family, pa.RecordBatch.from_arrays(columns, schema=schema)
