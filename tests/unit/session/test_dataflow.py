"""The dataflow as a graph: every feed is reached, sharing is seen, others are only counted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.session.dataflow import Dataflow
from millrace.state.memory_root import MemoryRoot


@pytest.fixture
def session() -> Iterator[millrace.Session]:
    with millrace.Session(MemoryRoot(), threads=False) as made:
        made.stream("trades", millrace.Feed("symbol text, price double, ts timestamp"), time="ts")
        made.table("limits", "symbol text, most double")
        made.query("SELECT symbol FROM trades WHERE price > 1", name="cheap")
        made.queries([f"SELECT * FROM trades WHERE price > {n}" for n in range(20)], into="many")
        counted = "SELECT symbol, count(*) AS n FROM trades [RANGE 10 SECONDS] GROUP BY symbol"
        made.query(counted, name="counts")
        made.query(counted.replace("count(*)", "max(price)"), name="highest")
        made.query(
            "SELECT t.symbol, l.most FROM trades [NOW] t, limits l WHERE t.symbol = l.symbol",
            name="over",
        )
        made.sink(millrace.MemorySink())
        run = made.start()
        assert isinstance(run, LocalRun)
        for second in range(5):
            at = datetime.fromtimestamp(1_000 + second, UTC)
            run.feed(trades=[{"symbol": f"S{n}", "price": 1.0 * n, "ts": at} for n in range(10)])
        yield made


def reached(graph: dict[str, Any], begin: str) -> set[str]:
    found, waiting = set[str](), [begin]
    while waiting:
        node = waiting.pop()
        found.add(node)
        waiting += [e["to"] for e in graph["edges"] if e["from"] == node and e["to"] not in found]
    return found


def test_every_feed_and_sink_is_reached_from_its_stream(session: millrace.Session) -> None:
    graph = Dataflow(session).graph()

    ids = {node["id"] for node in graph["nodes"]}
    assert {edge[end] for edge in graph["edges"] for end in ("from", "to")} <= ids
    feeds = {f"feed:{name}" for name in ("cheap", "many", "counts", "highest", "over")}
    assert feeds <= reached(graph, "stream:trades")
    assert any(each.startswith("sink:") for each in reached(graph, "stream:trades"))


def test_plans_share_the_rows_that_they_read(session: millrace.Session) -> None:
    graph = Dataflow(session).graph()

    stores = [n["properties"] for n in graph["nodes"] if n["kind"] == "store"]
    assert sum(each["readers"] for each in stores) == 3
    assert max(each["readers"] for each in stores) == 2
    family = [n for n in graph["nodes"] if n["kind"] == "family" and n["properties"]["queries"] > 1]
    assert [each["properties"]["queries"] for each in family] == [20]


def test_operators_tell_what_they_did(session: millrace.Session) -> None:
    graph = Dataflow(session).graph()

    by_query = {
        (n["properties"]["query"], n["properties"]["operator"].partition(" ")[0]): n["properties"]
        for n in graph["nodes"]
        if n["kind"] == "operator"
    }
    counts = by_query["counts", "aggregate"]
    assert counts["rows_in"] == 40  # of five epochs, the last is not complete
    assert counts["state_bytes"] > 0


def test_what_is_not_visible_is_counted_and_not_named(session: millrace.Session) -> None:
    graph = Dataflow(session).graph(lambda feed: feed == "cheap")

    text = str(graph)
    assert "feed:cheap" in text
    assert "highest" not in text
    assert [n["label"] for n in graph["nodes"] if n["kind"] == "others"] == ["23 queries of others"]
    assert not [n for n in graph["nodes"] if n["kind"] in ("more", "sink")]


def test_a_sink_gets_the_feeds_that_it_wants(session: millrace.Session) -> None:
    session.sink(millrace.MemorySink(name="few", queries=["cheap", "over"]))

    graph = Dataflow(session).graph()

    given = {edge["from"] for edge in graph["edges"] if edge["to"] == "sink:few"}
    assert given == {"feed:cheap", "feed:over"}


def kinds(graph: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [node["properties"] for node in graph["nodes"] if node["kind"] == kind]


def test_the_index_and_its_families_tell_what_passes_them(session: millrace.Session) -> None:
    graph = Dataflow(session).graph()

    [index] = kinds(graph, "index")
    assert index["selectivity"] == pytest.approx(index["results"] / index["rate"])
    assert index["bytes"] > 0
    assert index["busy"] > 0
    cheap, many = (
        next(each for each in kinds(graph, "family") if each["query"] == name)
        for name in ("cheap", "many")
    )
    assert 0 < cheap["selectivity"] < 1 < many["selectivity"]
    [table] = kinds(graph, "table")
    assert (table["table"], table["rows"]) == ("limits", 0)


def test_one_query_or_what_has_a_word_in_it_is_drawn_alone(session: millrace.Session) -> None:
    wide = [f"SELECT {'- ' * n}price AS p FROM trades WHERE price > 3" for n in range(15)]
    session.queries(wide, into="wide")
    like = "SELECT price AS p FROM trades WHERE symbol LIKE 'x%'"
    query = session.query(like, name="alike", into="wide")
    flow = Dataflow(session)

    alone = flow.graph(find="HIGH")
    assert reached(alone, "stream:trades") == {node["id"] for node in alone["nodes"]}
    assert {each["query"] for each in kinds(alone, "feed")} == {"highest"}
    assert flow.graph(find="limits")["nodes"]
    assert {each["query"] for each in kinds(flow.graph(find="limits"), "feed")} == {"over"}
    assert flow.graph(find="nothing has this") == {"nodes": [], "edges": []}
    assert kinds(flow.graph(), "more")

    [family] = kinds(flow.graph(find=" LIKE "), "family")
    [index] = kinds(flow.graph(find=" LIKE "), "index")
    assert "LIKE" in family["text"]
    assert (index["queries"], index["families"]) == (37, 18)  # who shares it is told
    assert family["results"] is None  # they are not told apart from those of other families
    [family] = kinds(flow.graph(find="alike", query=query.id), "family")
    assert "LIKE" in family["text"]


def test_a_query_that_is_run_with_others_is_drawn_with_what_runs_it(
    session: millrace.Session,
) -> None:
    asked = "SELECT symbol, max(price) AS m FROM trades [RANGE 9 SECONDS]"
    queries = [
        session.query(f"{asked} WHERE price > {number} GROUP BY 1", name=f"high_{number}")
        for number in range(20)
    ]

    graph = Dataflow(session).graph(find="high_17", query=queries[17].id)

    assert [each["query"] for each in kinds(graph, "feed")] == ["high_17"]
    assert {each["query"] for each in kinds(graph, "operator")} == {"high_17"}
    assert "feed:high_17" in reached(graph, "stream:trades")
