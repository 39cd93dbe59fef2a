"""The catalog: a change that fits makes the next one; one that does not changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.engine.catalog import Catalog, QuerySpec
from millrace.engine.streams import StreamSpec
from millrace.errors import MillraceError, NameTakenError, PlanError, UnknownNameError
from millrace.plan.bind import bind_selection, output_schema
from millrace.plan.term import col
from millrace.plan.nodes import select
from millrace.schema import Schema

SCHEMA = Schema.of("symbol text, price double, ts timestamp")


def stream(name: str = "trades") -> dict[str, Any]:
    return {"do": "add stream", "stream": StreamSpec(name, SCHEMA, "ts", 5).to_json()}


def query(name: str = "big", of: str = "trades") -> dict[str, Any]:
    bound = bind_selection(select(of, "symbol", where=col("price") > 1.5), SCHEMA, {})
    spec = QuerySpec(0, name, bound, output_schema(bound, SCHEMA, {}))
    return {"do": "add query", "query": spec.to_json()}


def after(*changes: dict[str, Any]) -> Catalog:
    catalog = Catalog()
    for change in changes:
        catalog = catalog.apply(change)
    return catalog


def test_every_change_is_counted_and_a_query_id_is_never_given_again() -> None:
    drop = {"do": "drop query", "name": "big"}
    catalog = after(stream(), query(), drop, query())

    assert (catalog.sequence, catalog.file) == (4, "catalogs/000000000004")
    assert catalog.query("big").qid == 2
    assert catalog.stream("trades").born == 1
    again = after(stream(), {"do": "drop stream", "name": "trades"}, stream())
    assert again.stream("trades").born == 3


def test_resuming_begins_a_new_generation() -> None:
    paused = after(stream(), query(), {"do": "pause", "name": "big"})
    resumed = paused.apply({"do": "resume", "name": "big"})

    assert (paused.query("big").paused, paused.query("big").generation) == (True, 0)
    assert (resumed.query("big").paused, resumed.query("big").generation) == (False, 1)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (stream(), NameTakenError, 'stream "trades" exists already'),
        (query(), NameTakenError, 'query "big" exists already'),
        ({"do": "drop stream", "name": "trade"}, UnknownNameError, 'Did you mean "trades"?'),
        ({"do": "drop stream", "name": "trades"}, PlanError, '1 queries read it, such as "big"'),
        ({"do": "drop query", "name": "bigg"}, UnknownNameError, 'Did you mean "big"?'),
        ({"do": "pause", "name": "small"}, UnknownNameError, 'query "small" does not exist'),
        ({"do": "resume", "name": "small"}, UnknownNameError, "There are 1 queries."),
    ],
)
def test_a_change_that_does_not_fit_says_why_and_changes_nothing(
    change: dict[str, Any], error: type[MillraceError], words: str
) -> None:
    catalog = after(stream(), query())
    before = catalog.to_json()

    with pytest.raises(error) as refused:
        catalog.apply(change)

    assert words in str(refused.value)
    assert catalog.to_json() == before


def test_a_catalog_survives_json() -> None:
    catalog = after(stream(), stream("quotes"), query(), {"do": "pause", "name": "big"})

    assert Catalog.from_json(catalog.to_json()) == catalog
