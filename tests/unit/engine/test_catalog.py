"""The catalog and who stands: a change that fits is made; one that does not changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from millrace.engine.catalog import Catalog, IndexFile
from millrace.engine.registry_state import RegistryState, Tables
from millrace.errors import MillraceError, NameTakenError, PlanError, UnknownNameError
from millrace.plan.nodes import select
from millrace.testing.registering import above, add_feed, add_queries, add_stream, ids

Call = tuple[list[dict[str, Any]], Tables]


def own(name: str = "big", low: float = 1.5) -> Call:
    change, table = add_queries(name, above(low), names=[name])
    return [add_feed(name, above(low)), change], [table]


def into(feed: str, *lows: float, names: Sequence[str] | None = None) -> Call:
    change, table = add_queries(feed, *map(above, lows), names=names)
    return [change], [table]


def changed(feed: str, *rows: tuple[int, float]) -> Call:
    change, _ = add_queries(feed, above(0.0))
    qids, lows = zip(*rows, strict=True)
    table = pa.record_batch({"qid": pa.array(qids, pa.uint64()), "p0": pa.array(lows)})
    return [{"do": "change queries", "family": change["family"], "rows": 0}], [table]


def dropped(*qids: int) -> Call:
    return [{"do": "drop queries", "rows": 0}], [ids(*qids)]


def both(*calls: Call) -> Call:
    """Put the changes of several calls into one."""
    changes: list[dict[str, Any]] = []
    tables: Tables = []
    for some, mine in calls:
        moved = [{"rows": each["rows"] + len(tables)} if "rows" in each else {} for each in some]
        changes += [{**each, **at} for each, at in zip(some, moved, strict=True)]
        tables += mine
    return changes, tables


def simple(do: str, **words: Any) -> Call:
    return [{"do": do, **words}], []


def after(*calls: Call) -> RegistryState:
    state = RegistryState()
    for changes, tables in calls:
        state.trial().check(changes, tables)
        state.apply(changes, tables)
    return state


STREAM: Call = ([add_stream()], [])
SHARED: Call = ([add_feed("alerts", above(0.0), "shared")], [])
BEFORE = (STREAM, own(), SHARED, into("alerts", 1.0, 2.0, names=["one", "two"]))
"""The query 1 with a feed of its own, and the queries 2 and 3 in a shared one."""


def said(state: RegistryState) -> tuple[object, ...]:
    """Everything that a change could alter."""
    population, catalog = state.population, state.catalog
    rows = {
        (stream, each.key, qid): constants
        for stream in population.blocks
        for each in population.standing(stream, catalog.families)
        for qid, constants in zip(each.qids.tolist(), each.parameters.to_pylist(), strict=True)
    }
    names, paused = dict(population.names), set(population.paused)
    return catalog, rows, names, paused, dict(population.generations), population.n_rows


def test_every_change_is_counted_and_neither_ids_nor_numbers_are_given_again() -> None:
    state = after(STREAM, own(), simple("drop feed", name="big"), own())

    assert (state.catalog.sequence, state.catalog.file) == (6, "catalogs/000000000006")
    assert (state.population.names, state.population.n_rows) == ({"big": 2}, 1)
    assert state.catalog.feed("big").number == 2
    assert state.catalog.stream("trades").born == 1
    again = after(STREAM, simple("drop stream", name="trades"), STREAM)
    assert again.catalog.stream("trades").born == 3


def test_queries_that_differ_in_constants_are_one_family() -> None:
    state = after(STREAM, SHARED, into("alerts", 1.0), into("alerts", 2.0), own("big", 1.0))

    assert len(state.catalog.families) == 2
    assert state.catalog.families_of("alerts") != state.catalog.families_of("big")
    assert state.population.find(2) == (state.catalog.families_of("alerts")[0], {"p0": 2.0})


def test_resuming_begins_a_new_generation() -> None:
    state = after(*BEFORE, simple("pause", qids=[1, 3]))
    assert (state.population.paused, state.population.generations) == ({1, 3}, {})

    state = after(*BEFORE, simple("pause", qids=[1, 3]), simple("resume", qids=[3]))
    assert (state.population.paused, state.population.generations) == ({1}, {3: 1})


def test_of_what_is_dropped_nothing_is_left() -> None:
    paused = simple("pause", qids=[1, 2, 3]), simple("resume", qids=[1, 2, 3])
    state = after(*BEFORE, *paused, paused[0], dropped(2), simple("drop feed", name="big"))

    assert (state.population.names, state.population.n_rows) == ({"two": 3}, 1)
    assert (state.population.paused, state.population.generations) == ({3}, {3: 1})
    assert len(state.catalog.families) == 1
    assert state.population.find(2) is None


def test_a_query_with_other_constants_keeps_its_id_and_its_name() -> None:
    state = after(*BEFORE, changed("alerts", (3, 9.0), (2, 8.0)))

    assert state.population.names == {"big": 1, "one": 2, "two": 3}
    assert state.population.n_rows == 3
    found = state.population.find(2), state.population.find(3)
    assert [each and each[1] for each in found] == [{"p0": 8.0}, {"p0": 9.0}]


@pytest.mark.parametrize(
    "call",
    [
        both(simple("drop feed", name="big"), own()),
        both(simple("drop feed", name="alerts"), own("one")),
        both(dropped(2), into("alerts", 5.0, names=["one"])),
        both(own("other"), into("alerts", 5.0, names=["another"])),
        both(changed("alerts", (2, 4.0)), dropped(2)),
        both(simple("drop feed", name="alerts"), SHARED, into("alerts", 5.0, names=["two"])),
    ],
    ids=["its own name", "a name in a feed", "a name", "two", "changed, dropped", "a feed anew"],
)
def test_changes_of_one_call_are_checked_one_after_the_other(call: Call) -> None:
    assert after(*BEFORE, call).catalog.sequence == after(*BEFORE).catalog.sequence + len(call[0])


REFUSED: dict[str, tuple[Call, type[MillraceError], str]] = {
    "stream twice": (STREAM, NameTakenError, 'stream "trades" exists already'),
    "feed twice": (own(), NameTakenError, 'query "big" exists already'),
    "feed named like a query": (own("one"), NameTakenError, 'query "one" exists already'),
    "query named like a feed": (
        into("alerts", 3.0, names=["big"]), NameTakenError, 'query "big" exists already'),
    "query named like a query": (
        into("alerts", 3.0, names=["two"]), NameTakenError, 'query "two" exists already'),
    "name twice in one call": (
        into("alerts", 3.0, 4.0, names=["x", "x"]), NameTakenError, 'query "x" is given twice'),
    "name twice in two changes": (
        both(into("alerts", 3.0, names=["x"]), into("alerts", 4.0, names=["x"])),
        NameTakenError, 'query "x" exists already'),
    "feed and query of one name": (
        both(into("alerts", 3.0, names=["x"]), own("x")), NameTakenError,
        'query "x" exists already'),
    "query in its own feed again": (
        into("big", 3.0, names=["big"]), NameTakenError, 'query "big" exists already'),
    "unknown stream": (
        simple("drop stream", name="trade"), UnknownNameError, 'Did you mean "trades"?'),
    "feed over an unknown stream": (
        ([add_feed("x", select("trade", "symbol"))], []), UnknownNameError,
        'stream "trade" does not exist'),
    "stream in use": (
        simple("drop stream", name="trades"), PlanError,
        '2 queries and templates read it, such as "big"'),
    "unknown feed": (simple("drop feed", name="bigg"), UnknownNameError, 'Did you mean "big"?'),
    "into an unknown feed": (
        into("alert", 1.0), UnknownNameError, 'query "alert" does not exist'),
    "into a feed that was dropped": (
        both(simple("drop feed", name="alerts"), into("alerts", 1.0)), UnknownNameError,
        'query "alerts" does not exist'),
    "unknown id": (dropped(2, 99, 3), UnknownNameError, "query 99 does not exist"),
    "how many do not exist": (
        dropped(98, 2, 99), UnknownNameError, "Of the 3 queries named, 2 do not exist."),
    "dropped twice": (both(dropped(2), dropped(2, 3)), UnknownNameError, "query 2 does not exist"),
    "pause": (simple("pause", qids=[1, 4]), UnknownNameError, "query 4 does not exist"),
    "resume": (simple("resume", qids=[4]), UnknownNameError, "query 4 does not exist"),
    "pause of what was dropped with its feed": (
        both(simple("drop feed", name="big"), simple("pause", qids=[1])), UnknownNameError,
        "query 1 does not exist"),
    "change of what was dropped": (
        both(dropped(2), changed("alerts", (2, 1.0))), UnknownNameError, "query 2 does not exist"),
    "change in a feed that was dropped": (
        both(simple("drop feed", name="alerts"), changed("alerts", (2, 1.0))), UnknownNameError,
        'query "alerts" does not exist'),
    "change of a form that nobody has": (
        ([{**changed("alerts", (2, 1.0))[0][0],
           "family": add_queries("alerts", select("trades", "symbol"))[0]["family"]}], [ids(2)]),
        UnknownNameError, 'no query of "alerts" is of that form'),
    "change twice": (
        changed("alerts", (2, 1.0), (2, 3.0)), PlanError, "query 2 is given twice"),
}  # fmt: skip


@pytest.mark.parametrize("call", REFUSED)
def test_a_change_that_does_not_fit_says_why_and_changes_nothing(call: str) -> None:
    (changes, tables), error, words = REFUSED[call]
    state = after(*BEFORE)
    before, trial = said(state), state.trial()

    with pytest.raises(error) as refused:
        trial.check([add_stream("quotes"), *changes], tables)

    assert words in str(refused.value)
    assert said(state) == before
    trial.check([add_stream("quotes")], [])  # as if the call had not been made


def test_a_catalog_survives_json() -> None:
    catalog = after(*BEFORE, ([add_stream("quotes")], [])).catalog
    named: dict[str, tuple[IndexFile, ...]] = {
        "trades": (IndexFile("queries/a"), IndexFile("queries/b", "out/queries/b"))
    }

    read = Catalog.from_json(
        {**catalog.to_json(), "index": Catalog(index=named).to_json()["index"]}
    )

    assert (read.streams, read.feeds, read.index) == (catalog.streams, catalog.feeds, named)
    assert (read.sequence, read.next_qid, read.next_number) == (6, 4, 3)
