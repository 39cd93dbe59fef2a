"""What a client does in a day: declare, ask, push, read, follow, pause, drop."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from websockets.sync.client import connect

from millrace.server.answers_http import ARROW, NDJSON
from millrace.server.wire import arrow_stream
from millrace.testing.serving import STREAM, Served, trade

BIG = "SELECT symbol, price FROM trades WHERE price > 100"


def test_rows_that_are_pushed_are_answered(served: Served) -> None:
    made = served.post("/v1/queries", json={"sql": BIG, "name": "big"})

    pushed = served.push([trade("ACME", 101.5), trade("BOLT", 7.0, 1)])

    assert made.status_code == 201
    assert made.json()["state"] == "running"
    assert pushed.json() == {"rows": 2, "batch": "0.0", "set_aside": 0}
    [row] = served.results("big", 1)
    assert (row["symbol"], row["price"]) == ("ACME", 101.5)


def test_answers_come_in_the_form_that_is_accepted(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})
    served.push([trade("ACME", 101.5), trade("BOLT", 107.0, 1)])
    served.results("big", 2)

    lines = served.get("/v1/queries/big/results", headers={"accept": NDJSON})
    arrow = served.get("/v1/queries/big/results?last=1", headers={"accept": ARROW})

    assert len(lines.text.splitlines()) == 2
    assert pa.ipc.open_stream(arrow.content).read_all()["symbol"].to_pylist() == ["BOLT"]


def test_answers_that_share_the_rows_of_their_stream_are_counted_too(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big", "retain": "1 hour"})
    served.push([trade("ACME", 101.5), trade("BOLT", 107.0, 1)])
    served.results("big", 2)

    found = served.get("/v1/queries/big").json()

    assert found["results"] == 2
    assert found["state_bytes"] > 0


def test_a_gateway_finds_the_answers_of_a_plan_of_which_nothing_is_stored(served: Served) -> None:
    text = "SELECT symbol, sum(price) AS total FROM trades [RANGE 2 SECONDS] GROUP BY symbol"
    for policy in ("eager", "none"):
        asked = {"sql": text, "name": policy, "retain": "10 minutes", "policy": policy}
        assert served.post("/v1/queries", json=asked).status_code == 201
    served.push([trade("ACME", 1.0), trade("ACME", 2.0, 1), trade("BOLT", 4.0, 9)])
    told = served.results("eager", 4)

    assert [row["total"] for row in told if row["_change"] > 0] == [1.0, 3.0, 2.0]
    assert served.results("none", 4) == told
    refused = served.request("PATCH", "/v1/queries/none", json={"policy": "lazy"})
    assert refused.json()["error"]["message"] == 'policy "lazy" is for selections of one stream'


def test_how_answers_are_kept_is_changed_while_they_come(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big", "retain": "1 hour"})
    prices = [101.5]
    served.push([trade("ACME", 101.5)])
    served.results("big", 1)

    for policy in ("eager", "none", "lazy"):
        changed = served.request("PATCH", "/v1/queries/big", json={"policy": policy})
        assert (changed.json()["policy"], changed.json()["retain"]) == (policy, "1 hour")
        prices.append(100.0 + len(prices))
        served.push([trade("ACME", prices[-1], len(prices))])
        told = served.results("big", len(prices))
        assert [row["price"] for row in told] == prices

    for body, status in (({"policy": "some"}, 422), ({"state": "running", "polici": "lazy"}, 422)):
        assert served.request("PATCH", "/v1/queries/big", json=body).status_code == status
    text = "CREATE QUERY TEMPLATE t (low double) WITH (retain = '1 hour') AS "
    served.sql(text + "SELECT price FROM trades WHERE price > :low")
    assert served.request("PATCH", "/v1/queries/t", json={"policy": "eager"}).status_code == 404
    assert served.get("/v1/templates/t").json()["policy"] == "lazy"
    template = served.request("PATCH", "/v1/templates/t", json={"policy": "eager"}).json()
    assert template["policy"] == "eager"
    served.post("/v1/queries", json={"sql": BIG, "name": "numbered"})
    refused = served.request("PATCH", "/v1/queries/numbered", json={"policy": "lazy"})
    assert refused.status_code == 400
    assert "kept by their number" in refused.json()["error"]["message"]


def test_rows_are_pushed_in_each_form(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})
    table = pa.table({"symbol": ["A"], "price": [200.0], "ts": pa.array([0], pa.timestamp("us"))})
    path, line = "/v1/streams/trades/rows", b'{"symbol": "B", "price": 300, "ts": "1970-01-01"}\n'

    arrow = served.post(
        path, content=arrow_stream(table).to_pybytes(), headers={"content-type": ARROW}
    )
    lines = served.post(path, content=line * 2, headers={"content-type": NDJSON})

    assert (arrow.json()["rows"], lines.json()["rows"]) == (1, 2)
    assert sorted(row["symbol"] for row in served.results("big", 3)) == ["A", "B", "B"]


def test_a_bad_row_is_named_and_none_is_taken(served: Served) -> None:
    answer = served.push([trade("ACME", 1.0), {"symbol": "B", "price": "dear", "ts": "1970-01-01"}])

    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("row 1 does not fit: column price")


def test_a_bad_row_is_set_aside_if_that_is_asked(served: Served) -> None:
    rows = [trade("ACME", 101.0), {"symbol": "B", "price": "dear", "ts": "1970-01-01"}]
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})

    answer = served.post("/v1/streams/trades/rows?bad=dead-letter", json=rows)

    assert answer.json() == {"rows": 1, "batch": "0.0", "set_aside": 1}
    served.results("big", 1)
    [letter] = served.get("/v1/streams/trades/dead-letters").json()["rows"]
    assert (letter["position"], letter["source"]) == (1, "push/")
    assert letter["reason"] == 'column price: "dear" is not a double'


def test_a_batch_that_is_pushed_twice_with_its_key_counts_once(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})
    key = {"idempotency-key": "first"}

    for _ in range(3):
        served.post("/v1/streams/trades/rows", json=[trade("ACME", 101.0)], headers=key)
    served.push([trade("LAST", 102.0, 1)])

    served.until(lambda: "LAST" in served.get("/v1/queries/big/results").text)
    assert [row["symbol"] for row in served.results("big", 2)] == ["ACME", "LAST"]


def test_queries_are_searched_and_paged(served: Served) -> None:
    for number in range(7):
        text = f"SELECT symbol FROM trades WHERE price > {number}"
        served.post("/v1/queries", json={"sql": text, "name": f"over_{number}"})

    first = served.get("/v1/queries?search=OVER&limit=5").json()
    rest = served.get(f"/v1/queries?search=OVER&limit=5&after={first['next']}").json()
    found = served.get("/v1/queries?search=price > 3").json()

    assert (first["total"], len(first["queries"]), len(rest["queries"])) == (7, 5, 2)
    assert rest["next"] is None
    assert [each["name"] for each in found["queries"]] == ["over_3"]


def test_a_query_is_paused_resumed_and_dropped(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})

    paused = served.request("PATCH", "/v1/queries/big", json={"state": "paused"}).json()
    running = served.request("PATCH", "/v1/queries/big", json={"state": "running"}).json()
    dropped = served.request("DELETE", "/v1/queries/big")

    assert (paused["state"], running["state"]) == ("paused", "running")
    assert dropped.status_code == 204
    assert served.get("/v1/queries/big").status_code == 404


def test_a_query_ends_when_its_time_is_over(served: Served) -> None:
    made = served.post("/v1/queries", json={"sql": BIG, "name": "brief", "ttl": 0.2}).json()

    assert made["expires"] is not None
    served.until(lambda: served.get("/v1/queries/brief").status_code == 404)


def test_rows_of_a_template_are_queries(served: Served) -> None:
    served.sql(
        "CREATE QUERY TEMPLATE alert (sym text, low double) "
        "AS SELECT price FROM trades WHERE symbol = :sym AND price > :low"
    )

    ids = served.post(
        "/v1/templates/alert/rows", json=[{"sym": "A", "low": 1}, {"sym": "B", "low": 2.5}]
    ).json()["ids"]

    rows = served.get("/v1/templates/alert/rows").json()["rows"]
    assert [(row["_query"], row["sym"]) for row in rows] == [(ids[0], "A"), (ids[1], "B")]
    one = served.get(f"/v1/queries/{ids[1]}").json()
    assert one["text"] == "SELECT price FROM trades WHERE symbol = 'B' AND price > 2.5"
    assert served.get("/v1/queries/alert%23" + str(ids[1])).json() == one
    served.post("/v1/templates/alert/drop", json={"ids": ids[:1]})
    assert served.get("/v1/templates/alert").json()["queries"] == 1


def test_changes_go_on_behind_a_cursor(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})
    start = served.get("/v1/queries/big/changes").json()
    served.push([trade("ACME", 101.0)])

    first = served.get(f"/v1/queries/big/changes?cursor={start['cursor']}&wait=20").json()
    served.push([trade("BOLT", 102.0, 1)])
    second = served.get(f"/v1/queries/big/changes?cursor={first['cursor']}&wait=20").json()

    assert start["rows"] == []
    assert [row["symbol"] for row in first["rows"]] == ["ACME"]
    assert [row["symbol"] for row in second["rows"]] == ["BOLT"]


def test_a_web_socket_tells_answers_as_they_come(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})

    with connect(f"ws://127.0.0.1:{served.port}/v1/queries/big/live") as socket:
        served.push([trade("ACME", 101.0)])
        event = json.loads(socket.recv(20))

    assert [row["symbol"] for row in event["rows"]] == ["ACME"]


def test_what_a_client_says_on_a_web_socket_means_nothing(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})

    with connect(f"ws://127.0.0.1:{served.port}/v1/queries/big/live") as socket:
        socket.send("a text")
        socket.send(b"bytes")
        served.push([trade("ACME", 101.0)])
        event = json.loads(socket.recv(20))

    assert [row["symbol"] for row in event["rows"]] == ["ACME"]
    served.until(lambda: len(served.service.fan_out) == 0)


def test_a_tables_rows_are_inserted_changed_and_removed(served: Served) -> None:
    served.sql("CREATE TABLE limits (symbol text, most double, PRIMARY KEY (symbol))")
    path = "/v1/tables/limits/rows"

    rows = [{"symbol": "A", "most": 1}, {"symbol": "B", "most": 2}]
    inserted = served.post(path, json=rows).json()
    changed = served.request("PATCH", path, json={"values": {"most": 9.0}, "where": "symbol = 'A'"})
    removed = served.request("DELETE", path, json={"where": "most < 5"})

    assert (inserted, changed.json(), removed.json()) == ({"rows": 2}, {"rows": 1}, {"rows": 1})
    assert served.get(path).json()["rows"] == [{"symbol": "A", "most": 9.0}]


def test_what_is_declared_over_http_is_there_after_a_restart(tmp_path: Path) -> None:
    with Served(tmp_path / "root") as served:
        served.sql(STREAM)
        served.post("/v1/queries", json={"sql": BIG, "name": "big"})
        served.push([trade("ACME", 101.0)])
        served.results("big", 1)

    with Served(tmp_path / "root") as again:
        assert len(again.get("/v1/queries/big/results").json()["rows"]) == 1
        again.push([trade("BOLT", 102.0, 1)])
        assert [row["symbol"] for row in again.results("big", 2)] == ["ACME", "BOLT"]


def test_reads_go_on_and_writes_are_refused_without_an_engine(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})
    served.push([trade("ACME", 101.0)])
    served.results("big", 1)

    served.stop_engine()
    served.until(lambda: not served.service.link.up)

    assert len(served.get("/v1/queries/big/results").json()["rows"]) == 1
    refused = served.post("/v1/queries", json={"sql": BIG, "name": "other"})
    assert refused.status_code == 503
    assert refused.json()["error"]["message"] == "the engine is not there"
    assert served.get("/v1/ready").status_code == 503
    assert served.push([trade("LATER", 103.0, 2)]).status_code == 200
    served.start_engine()
    assert [row["symbol"] for row in served.results("big", 2)] == ["ACME", "LATER"]


def test_a_statement_that_is_wrong_says_where(served: Served) -> None:
    answer = served.post("/v1/queries", json={"sql": "SELECT prise FROM trades", "name": "x"})

    error = answer.json()["error"]
    assert answer.status_code == 400
    assert error["position"] == {"line": 1, "column": 8}
    assert error["hint"] == 'Did you mean "price"?'


def test_stats_tell_what_takes_most(served: Served) -> None:
    served.post("/v1/queries", json={"sql": BIG, "name": "big"})
    served.post("/v1/queries", json={"sql": "SELECT * FROM trades WHERE price > 200", "name": "h"})
    served.push([trade("ACME", 101.0, at) for at in range(5)] + [trade("BOLT", 300.0, 9)])
    served.results("big", 6)

    served.until(lambda: served.get("/v1/stats").json()["results"] == 7)
    top = served.get("/v1/stats/top?by=results").json()["queries"]
    assert [(each["name"], each["results"]) for each in top] == [("big", 6), ("h", 1)]
    text = served.get("/metrics").text
    assert "millrace_results 7.0" in text
    assert 'millrace_http_answers_total{method="GET",route="/v1/stats",status="200"}' in text


def test_a_dry_run_says_what_a_query_would_have_given(served: Served) -> None:
    served.push([trade("ACME", 101.0, at) for at in range(5)] + [trade("BOLT", 1.0, 9)])
    served.until(lambda: served.get("/v1/stats").json()["rows"] == 6)

    tried = served.post("/v1/dry-run", json={"sql": BIG, "history": "10 minutes"}).json()

    assert (tried["results"], tried["rows"], tried["rows_in_all"]) == (5, 6, 6)
    assert {row["symbol"] for row in tried["sample"]} == {"ACME"}
    assert served.get("/v1/queries").json()["total"] == 0
    wrong = served.post("/v1/dry-run", json={"sql": "SELECT prise FROM trades"})
    assert wrong.status_code == 400
