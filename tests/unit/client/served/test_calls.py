"""The client against a real server: every call does what it does in the process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import millrace
from millrace.client.handles import RemoteQuery, RemoteTemplate
from millrace.connectors.pushed import Pushed
from millrace.errors import (
    AccessError,
    MillraceError,
    NameTakenError,
    PlanError,
    SchemaError,
    UnknownNameError,
)
from millrace.lang.errors import LanguageError
from millrace.plan.relations import Table
from millrace.testing.server_process import ServerProcess

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
COLUMNS = "symbol text, price double, ts timestamp"


def name() -> str:
    return f"n{uuid4().hex[:10]}"


def rows_at(*prices: float, first: int = 0) -> list[dict[str, Any]]:
    return [
        {"symbol": "ACME", "price": price, "ts": NOON + timedelta(seconds=first + at)}
        for at, price in enumerate(prices)
    ]


def until(found: Callable[[], int], wanted: int) -> None:
    """Wait until as many have come as are wanted; more are one too many."""
    ends = time.monotonic() + 20
    while found() < wanted and time.monotonic() < ends:
        time.sleep(0.02)
    assert found() == wanted


@pytest.fixture
def stream(client: millrace.Client) -> str:
    made = name()
    client.stream(made, COLUMNS, time="ts", retain="10 hours")
    return made


def test_a_query_is_asked_rows_are_pushed_and_answers_are_read(
    client: millrace.Client, stream: str
) -> None:
    big = client.query(f"SELECT symbol, price FROM {stream} WHERE price > 100", name=name())

    assert client.push(stream, rows_at(99, 101, 102)) == 3
    until(lambda: len(big.results()), 2)

    assert big.results()["price"].to_pylist() == [101, 102]
    assert big.results(last=1)["price"].to_pylist() == [102]
    assert big.results(last=0).schema == big.results().schema
    later = NOON + timedelta(seconds=2)
    assert big.results(begin=later)["price"].to_pylist() == [102]
    assert big.results(end=later)["price"].to_pylist() == [101]
    assert big.info()["state"] == "running"


@pytest.mark.parametrize(
    "form",
    [
        lambda rows: rows,
        lambda rows: {key: [row[key] for row in rows] for key in rows[0]},
        pa.Table.from_pylist,
        pa.RecordBatch.from_pylist,
        pd.DataFrame,
        pl.DataFrame,
    ],
    ids=["dictionaries", "columns", "table", "batch", "pandas", "polars"],
)
def test_rows_are_pushed_in_any_form(
    client: millrace.Client, stream: str, form: Callable[[Any], Any]
) -> None:
    kept = client.query(f"SELECT * FROM {stream}", name=name())

    client.push(stream, form(rows_at(1, 2, 3)))
    until(lambda: len(kept.results()), 3)

    found = kept.results().to_arrow().select(["symbol", "price", "ts"])
    assert found.to_pylist() == rows_at(1, 2, 3)


def test_rows_that_do_not_fit_are_refused(client: millrace.Client, stream: str) -> None:
    with pytest.raises(MillraceError):
        client.push(stream, [{"symbol": "ACME", "price": "dear", "ts": NOON}])
    with pytest.raises(UnknownNameError):
        client.push("nobody", rows_at(1))


def test_a_key_of_ones_own_counts_once(client: millrace.Client, stream: str) -> None:
    kept = client.query(f"SELECT price FROM {stream}", name=name())
    key = name()

    client.push(stream, rows_at(1, 2), key=key)
    client.push(stream, rows_at(1, 2), key=key)
    client.push(stream, rows_at(3, first=2))
    until(lambda: len(kept.results()), 3)

    assert kept.results()["price"].to_pylist() == [1, 2, 3]


def test_an_error_is_the_one_that_a_session_raises(client: millrace.Client, stream: str) -> None:
    with pytest.raises(MillraceError) as refused:
        client.query(f"SELECT prise\nFROM {stream}", name=name())

    error = refused.value
    assert error.message.startswith('column "prise" does not exist')
    assert "  1 | SELECT prise\n    |        ^^^^^" in str(error)
    assert 'Did you mean "price"?' in error.hint


def test_errors_of_several_kinds(client: millrace.Client, stream: str) -> None:
    taken = client.query(f"SELECT price FROM {stream}", name=name()).name
    with pytest.raises(MillraceError):
        client.query(f"SELECT symbol FROM {stream}", name=taken)
    with pytest.raises(LanguageError):
        client.sql("SELECT (1")
    with pytest.raises(UnknownNameError, match="does not exist"):
        client.standing("nobody")
    with pytest.raises((PlanError, SchemaError, NameTakenError)):
        client.stream(stream, "other text, ts timestamp", time="ts")


def test_registering_again_changes_nothing(client: millrace.Client, stream: str) -> None:
    first = client.query(f"SELECT price FROM {stream}", name="again_" + stream)
    second = client.query(f"SELECT price FROM {stream}", name="again_" + stream)

    assert (first.id, first.name) == (second.id, second.name)


def test_many_queries_come_and_go(client: millrace.Client, stream: str) -> None:
    names = [f"{stream}_{number}" for number in range(25)]
    texts = [f"SELECT symbol FROM {stream} WHERE price > {number}" for number in range(25)]

    ids = client.queries(texts, into=f"feed_{stream}", names=names, keep=100, ttl="1 day")
    listed = list(client.find_queries(stream + "_"))
    assert all(each["expires"] for each in listed)
    page = client.query_page(stream + "_", limit=10)

    assert len(set(ids)) == 25
    assert {each["name"] for each in listed} == set(names)
    assert len(page["queries"]) == 10
    assert page["total"] == 25
    rest = client.query_page(stream + "_", limit=100, after=page["next"])
    assert len(rest["queries"]) == 15

    client.pause_queries(names[:5])
    until(lambda: client.query_page(stream + "_", state="paused")["total"], 5)
    client.resume_queries(ids[:5])
    until(lambda: client.query_page(stream + "_", state="paused")["total"], 0)
    with pytest.raises(UnknownNameError):
        client.drop_queries([names[0], "nobody"])
    client.drop_queries(names)
    until(lambda: client.query_page(stream + "_")["total"], 0)


def test_one_of_many_that_is_wrong_adds_none(client: millrace.Client, stream: str) -> None:
    good = f"SELECT symbol FROM {stream} WHERE price > 1"
    names = [f"{stream}_a", f"{stream}_b"]

    with pytest.raises(MillraceError):
        client.queries([good, "SELECT nothing FROM nowhere"], names=names, into=f"f_{stream}")

    apart = [{"sql": good, "name": "a", "ttl": "1 day"}, {"sql": good, "name": "b"}]
    with pytest.raises(PlanError, match="live for different times"):
        client.add_queries(apart)

    assert client.query_page(f"{stream}_")["total"] == 0


def test_a_query_is_paused_resumed_explained_and_dropped(
    client: millrace.Client, stream: str
) -> None:
    query = client.query(f"SELECT symbol FROM {stream} WHERE price > 5", name=name())

    query.pause()
    assert query.info()["state"] == "paused"
    query.resume()
    assert query.info()["state"] == "running"
    assert "price" in query.explain()
    query.explain(analyze=True)
    query.drop()

    with pytest.raises(UnknownNameError):
        query.info()


def test_a_query_without_a_name_has_a_handle(client: millrace.Client, stream: str) -> None:
    query = client.query(f"SELECT symbol FROM {stream} WHERE price > 7")

    client.push(stream, rows_at(8))
    until(lambda: len(query.results()), 1)
    query.drop()


@pytest.mark.parametrize("policy", ["lazy", "eager", "none", None])
def test_answers_are_kept_for_a_while(
    client: millrace.Client, stream: str, policy: str | None
) -> None:
    text = f"SELECT price FROM {stream} WHERE price > 1"
    query = client.query(text, name=name(), retain=timedelta(hours=1), policy=policy)
    client.queries([text], into=f"f_{stream}", names=[name()], retain="1 hour", policy=policy)

    client.push(stream, rows_at(1, 2, 3))
    until(lambda: len(query.results()), 2)

    assert query.results()["price"].to_pylist() == [2, 3]


def test_a_policy_changes_while_answers_come(client: millrace.Client, stream: str) -> None:
    query = client.query(f"SELECT price FROM {stream}", name=name(), retain="1 hour")
    template = client.template(
        name(), f"SELECT price FROM {stream} WHERE price > :low", low="double", retain="1 hour"
    )
    template.insert({"low": [0.0]})
    client.push(stream, rows_at(1.0))
    until(lambda: len(query.results()), 1)

    query.set_policy("eager")
    template.set_policy("none")
    client.push(stream, rows_at(2.0, first=1))

    until(lambda: len(query.results()), 2)
    until(lambda: len(template.results()), 2)
    assert (query.info()["policy"], template.info()["policy"]) == ("eager", "none")
    with pytest.raises(PlanError, match="kept with those of others"):
        template.query(template.ids()[0]).set_policy("lazy")


def test_a_query_is_tried_before_it_stands(client: millrace.Client, stream: str) -> None:
    client.push(stream, rows_at(*range(10)))
    until(lambda: len(client.history(stream)), 10)
    text = f"SELECT symbol, price FROM {stream} WHERE price > 6"

    tried = client.dry_run(text)
    part = client.dry_run(text, history="1 second")

    assert (tried.results, tried.rows, tried.n_rows, tried.partial) == (3, 10, 10, False)
    assert tried.sample["price"].to_pylist() == [7, 8, 9]
    assert part.results < 3
    assert client.query_page(stream)["total"] == 0
    with pytest.raises(MillraceError) as refused:
        client.dry_run(f"SELECT prise FROM {stream}")
    assert "|        ^^^^^" in str(refused.value)


def test_a_query_answers_of_history_too(client: millrace.Client, stream: str) -> None:
    client.push(stream, rows_at(1, 2, 3))
    until(lambda: len(client.history(stream)), 3)
    text = f"SELECT price FROM {stream} WHERE price > 1"

    query = client.query(text, name=name(), history=timedelta(hours=1))
    until(lambda: len(query.results()), 2)
    client.push(stream, rows_at(4, first=10))
    until(lambda: len(query.results()), 3)

    assert query.results()["price"].to_pylist() == [2, 3, 4]


def test_an_error_of_an_explanation_tells_the_place_in_the_text(
    client: millrace.Client, stream: str
) -> None:
    with pytest.raises(MillraceError) as refused:
        client.explain(f"SELECT prise FROM {stream}")

    assert "  1 | SELECT prise FROM" in str(refused.value)
    assert "    |        ^^^^^" in str(refused.value)


def test_a_stream_retains_its_rows_for_another_while(client: millrace.Client, stream: str) -> None:
    client.retain(stream, "20 hours")

    [found] = [each for each in client.streams() if each["name"] == stream]
    assert found["retain"] == "20 hours"


def test_templates(client: millrace.Client, stream: str) -> None:
    text = f"SELECT symbol, price FROM {stream} WHERE symbol = :sym AND price > :low"
    alert = client.template(name(), text, sym="text", low="double")
    assert alert.results().column_names

    ids = alert.insert({"sym": ["ACME", "BOLT"], "low": [100.0, 12.5]})
    assert alert.insert_missing({"sym": ["ACME", "CRUX"], "low": [100.0, 1.0]})
    until(lambda: len(alert), 3)

    assert [row["sym"] for row in alert.rows()] == ["ACME", "BOLT", "CRUX"]
    assert alert.ids()[:2] == ids.to_pylist()
    assert alert.query(ids[0].as_py()).id == ids[0].as_py()
    alert.delete(ids)
    until(lambda: len(alert), 1)
    assert isinstance(client.standing(alert.name), RemoteTemplate)
    with pytest.raises(MillraceError, match="low"):
        alert.insert({"sym": ["ACME"], "low": ["cheap"]})
    alert.drop()
    with pytest.raises(UnknownNameError):
        client.standing(alert.name)


def test_tables(client: millrace.Client) -> None:
    limits = client.table(name(), "symbol text, most double", key="symbol")

    assert limits.insert({"symbol": ["ACME", "BOLT"], "most": [100.0, 12.5]}) == 2
    assert limits.insert_missing({"symbol": ["ACME", "CRUX"], "most": [100.0, 1.0]}) == 1
    assert limits.update({"most": 120.0}, "symbol = 'ACME'") == 1
    assert limits.delete("most < 5") == 1

    until(lambda: len(limits), 2)
    assert sorted(limits.rows().rows(), key=str) == [
        {"symbol": "ACME", "most": 120.0},
        {"symbol": "BOLT", "most": 12.5},
    ]
    assert len(client.standing_table(limits.name)) == 2
    with pytest.raises(MillraceError):
        limits.insert({"symbol": ["ACME"], "most": [1.0]})
    limits.drop()


def test_views(client: millrace.Client, stream: str) -> None:
    view = name()
    client.view(view, f"SELECT symbol, price FROM {stream} WHERE price > 10")
    query = client.query(f"SELECT price FROM {view} WHERE price < 20", name=name())

    client.push(stream, rows_at(5, 15, 25))
    until(lambda: len(query.results()), 1)
    query.drop()
    client.drop_view(view)


def test_statements(client: millrace.Client, stream: str) -> None:
    query = name()
    said, listed = client.execute(
        f"CREATE QUERY {query} AS SELECT symbol FROM {stream} WHERE price > 1; SHOW STREAMS;"
    )

    assert said.message == f'query "{query}" stands'
    assert listed.result is not None
    assert stream in listed.result["name"].to_pylist()
    client.push(stream, rows_at(0, 2))
    until(lambda: len(client.sql(f"SELECT * FROM {query}")), 1)
    with pytest.raises(PlanError, match="gives no rows"):
        client.sql(f"PAUSE QUERY {query}")


def test_history_late_rows_and_dead_letters(client: millrace.Client, stream: str) -> None:
    client.push(stream, rows_at(1, 2, 3, first=100))
    until(lambda: len(client.history(stream)), 3)
    client.push(stream, rows_at(4, first=0))
    until(lambda: len(client.late_rows(stream)), 1)

    begin, end = NOON + timedelta(seconds=101), NOON + timedelta(seconds=102)
    assert client.history(stream, begin=begin, end=end)["price"].to_pylist() == [2]
    assert len(client.history(stream, limit=2)) == 2
    assert len(client.dead_letters(stream)) == 0


def test_what_there_is(client: millrace.Client, stream: str) -> None:
    [found] = [each for each in client.streams() if each["name"] == stream]

    assert [column["name"] for column in found["columns"]] == ["symbol", "price", "ts"]
    assert client.health()["status"] == "ok"
    assert isinstance(client.stats(), dict)
    assert isinstance(client.settings(), dict)
    assert isinstance(client.tables(), list)
    assert isinstance(client.templates(), list)
    assert "SELECT" in client.explain(f"SELECT symbol FROM {stream} WHERE price > 1")
    client.query(f"SELECT symbol FROM {stream} WHERE price > 3", name=name())
    assert all("cost" in each for each in client.top("cost", n=3))


def test_streams_are_dropped(client: millrace.Client, stream: str) -> None:
    client.drop_stream(stream)

    assert stream not in [each["name"] for each in client.streams()]


def test_following_ends_soon_after_nothing_has_come(client: millrace.Client, stream: str) -> None:
    query = client.query(f"SELECT price FROM {stream}", name=name())
    began = time.monotonic()

    assert list(query.changes(timeout=0.3)) == []
    assert 0.3 <= time.monotonic() - began < 5


def test_who_runs_a_server_asks_who_is_let_in_and_what_was_done(
    client: millrace.Client, stream: str
) -> None:
    made = client.add_token("writer", tenant="acme", label="for the mill")
    with millrace.connect(client.url, made["token"]) as tenant:
        query = tenant.query(f"SELECT price FROM {stream}", name=name())
    listed = [each for each in client.tokens() if each["id"] == made["id"]]
    entries = client.audit(last=2)
    graph = client.plan()
    client.remove_token(made["id"])

    assert [(each["role"], each["tenant"], each["label"]) for each in listed] == [
        ("writer", "acme", "for the mill")
    ]
    assert "token" not in listed[0]
    assert [(each["do"], each["tenant"]) for each in entries] == [
        ("make token", ""),
        ("add", "acme"),
    ]
    assert f"acme/{query.name}" in {node["label"] for node in graph["nodes"]}
    assert made["id"] not in {each["id"] for each in client.tokens()}
    with millrace.connect(client.url, made["token"]) as tenant, pytest.raises(AccessError):
        tenant.audit()
    with pytest.raises(UnknownNameError):
        client.remove_token(made["id"])


def test_a_plan_that_is_not_text_stays_here(client: millrace.Client) -> None:
    with pytest.raises(PlanError, match="a plan cannot be sent to a server"):
        client.query(Table("limits", "l"))
    with pytest.raises(PlanError, match='stream "s" has no columns'):
        client.stream("s", Pushed(), time="ts")


def test_a_table_whose_first_rows_do_not_fit_is_not_declared(client: millrace.Client) -> None:
    made = name()

    with pytest.raises(MillraceError):
        client.table(made, {"symbol": ["ACME", "ACME"]}, key="symbol")

    assert made not in [each["name"] for each in client.tables()]


def test_asyncio_does_the_same(server: ServerProcess) -> None:
    stream, query = name(), name()

    async def all_of_it() -> list[Any]:
        async with millrace.connect_async(server.url) as client:
            await client.stream(stream, COLUMNS, time="ts")
            big = await client.query(f"SELECT price FROM {stream} WHERE price > 1", name=query)
            found: list[Any] = []

            async def follow() -> None:
                changes = big.changes()
                async for result in changes:
                    found.extend(result["price"].to_pylist())
                    if len(found) == 3:
                        break
                await changes.aclose()

            following = asyncio.create_task(follow())
            await asyncio.sleep(0.5)
            await client.push(stream, rows_at(1, 2, 3))
            await client.push(stream, rows_at(4, first=10))
            await asyncio.wait_for(following, 20)
            names = [each["name"] async for each in client.find_queries(query)]
            assert names == [query]
            await client.drop_queries([query])
            return found

    assert asyncio.run(all_of_it()) == [2, 3, 4]


def test_any_name_will_do(client: millrace.Client, stream: str) -> None:
    odd = f"größe 🌊 ?&%\"' {name()}"
    query = client.query(f"SELECT price FROM {stream} WHERE price > 1", name=odd)

    assert query.name == odd
    found = client.standing(odd)
    assert isinstance(found, RemoteQuery)
    assert len(found.results()) == 0
    found.drop()
