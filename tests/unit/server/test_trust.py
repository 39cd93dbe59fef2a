"""Who is let in, what they may do, and that tenants see nothing of each other."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from millrace.errors import PlanError
from millrace.server.limits import Limits, Rates
from millrace.server.options import ServerOptions
from millrace.server.quotas import Quota, RateError
from millrace.server.tokens import Tokens
from millrace.testing.serving import STREAM, Served, trade

SECRET = "zanzibar"
OWN = "SELECT symbol FROM trades WHERE symbol = 'ACME'"


class World:
    """A server with two tenants, one of which has everything there is, all named alike."""

    def __init__(self, served: Served) -> None:
        self.served = served
        add = served.tokens.add
        self.operator, self.acme = add("admin")[0], add("admin", "acme")[0]
        self.other, self.reader = add("admin", "other")[0], add("reader", "acme")[0]
        self.kept_token, kept = add("reader", "acme")
        self.token_id = kept.id
        self.staff_reader, self.staff_writer = add("reader")[0], add("writer")[0]
        served.sql(STREAM, self.operator)
        served.sql("CREATE TABLE limits (symbol text, most double)", self.operator)
        self.query = served.post(
            "/v1/queries", self.acme, json={"sql": OWN, "name": SECRET}
        ).json()["id"]
        served.sql(
            f"CREATE QUERY TEMPLATE {SECRET}_t (sym text) WITH (retain = '1 hour') "
            "AS SELECT price FROM trades WHERE symbol = :sym",
            self.acme,
        )
        rows = f"/v1/templates/{SECRET}_t/rows"
        [self.row] = served.post(rows, self.acme, json=[{"sym": SECRET}]).json()["ids"]
        bad = [{"symbol": SECRET, "price": SECRET, "ts": "1970-01-01"}, trade("ACME", 1.0)]
        served.post("/v1/streams/trades/rows?bad=dead-letter", self.acme, json=bad)
        served.results(SECRET, 1, self.acme)
        served.push([{**trade("ACME", 1.0), "ts": "2020-01-01"}], token=self.acme)
        served.results(SECRET, 2, self.acme)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with Served(tmp_path_factory.mktemp("trust") / "root", demo=False) as served:
        yield World(served)


def bodies(world: World, name: str) -> dict[str, list[Any]]:
    """Return what is sent to each route, with a name or an id that another tenant has."""
    select = f'SELECT * FROM "{name}"'
    which = int(name) if name.isdigit() else name
    return {
        "post /v1/queries": [{"sql": select}, {"sql": OWN, "name": "mine", "into": f"acme/{name}"}],
        "post /v1/queries/bulk": [
            *({what: [which]} for what in ("drop", "pause", "resume")),
            {"add": [{"sql": OWN}, {"sql": select}]},
        ],
        "patch /v1/queries/{query}": [{"state": "paused"}, {"policy": "eager"}],
        "patch /v1/templates/{template}": [{"policy": "eager"}],
        "post /v1/templates/{template}/rows": [[{"sym": "A"}]],
        "patch /v1/templates/{template}/rows": [[{"_query": world.row, "sym": "A"}]],
        "post /v1/templates/{template}/drop": [{"ids": [world.row]}],
        "post /v1/tables/{table}/rows": [[{"symbol": "A", "most": 1.0}]],
        "patch /v1/tables/{table}/rows": [{"where": "TRUE", "values": {"most": 1.0}}],
        "delete /v1/tables/{table}/rows": [{"where": "TRUE"}],
        "patch /v1/streams/{stream}": [{"retain": "1 second"}],
        "post /v1/streams/{stream}/rows": [[]],
        "post /v1/sql": [{"sql": select}, {"sql": f'DROP QUERY "{name}"'}],
        "post /v1/explain": [{"sql": f'QUERY "{name}"'}],
        "post /v1/dry-run": [{"sql": select, "history": "1 hour"}],
        "patch /v1/settings": [{"trigger": 5}],
        "post /v1/tokens": [{"role": "admin", "tenant": "acme"}],
    }


def operations(world: World) -> list[tuple[str, str, dict[str, Any]]]:
    """Return every operation of the API, with the names and ids that another tenant has."""
    document = world.served.get("/openapi.json").json()
    found = []
    for path, methods in document["paths"].items():
        for method, described in methods.items():
            for name in (SECRET, f"acme/{SECRET}", str(world.query), f"{SECRET}_t#{world.row}"):
                there = path.replace("{query}", name.replace("#", "%23").replace("/", "%2F"))
                there = there.replace("{template}", f"{SECRET}_t").replace("{stream}", "trades")
                there = there.replace("{table}", "limits").replace("{token}", world.token_id)
                assert "{" not in there, "each parameter has a value"
                sent = bodies(world, name).get(f"{method} {path}", [])
                assert bool(sent) == ("requestBody" in described), f"{method} {path}"
                found += [(method.upper(), there, {"json": each}) for each in sent]
                found += [(method.upper(), there, {})] if not sent else []
    return found


@pytest.mark.parametrize("who", ["other", "staff_reader", "staff_writer"])
def test_another_tenant_finds_nothing_on_any_route(world: World, who: str) -> None:
    asked = operations(world)

    for method, path, more in asked:
        answer = world.served.request(method, path, getattr(world, who), **more)
        told = answer.text.replace(f'"{SECRET}" does not exist', "")
        told = told.replace(f'"{SECRET}_t" does not exist', "").replace(f"acme/{SECRET}", "")
        echoed = SECRET in json.dumps(more) or SECRET in path
        allowed = {200} if method == "GET" or path == "/v1/streams/trades/rows" else set()
        assert answer.status_code in {400, 403, 404, *allowed}, (method, path, more, answer.text)
        assert answer.status_code >= 400 or f"acme/{SECRET}" not in json.dumps(more), (path, told)
        assert SECRET not in told or (echoed and answer.status_code >= 400), (method, path, told)

    assert len(asked) > 150
    mine = world.served.get(f"/v1/queries/{SECRET}", world.acme).json()
    assert (mine["state"], mine["owner"]) == ("running", "acme")
    template = world.served.get(f"/v1/templates/{SECRET}_t", world.acme).json()
    assert (template["queries"], template["policy"]) == (1, "lazy")
    rows = world.served.get(f"/v1/templates/{SECRET}_t/rows", world.acme).json()["rows"]
    assert [row["sym"] for row in rows] == [SECRET]
    assert world.served.get("/v1/streams/trades", world.acme).json()["retain"] == "1 hour"
    assert world.served.get("/v1/tables/limits/rows", world.acme).json()["rows"] == []
    assert world.served.get("/v1/queries", world.kept_token).status_code == 200


def test_an_id_of_another_tenant_is_as_unknown_as_none(world: World) -> None:
    """Nothing tells whether it stands: the words are the same but for the id."""
    served, unknown = world.served, 999_999_999
    for method, path, more in (
        ("GET", "/v1/queries/{}", {}),
        ("GET", "/v1/queries/{}/results", {}),
        ("GET", "/v1/queries/{}/explain", {}),
        ("DELETE", "/v1/queries/{}", {}),
        ("PATCH", "/v1/queries/{}", {"json": {"state": "paused"}}),
        ("PATCH", "/v1/queries/{}", {"json": {"policy": "eager"}}),
    ):
        theirs, nobodys = (
            served.request(method, path.format(qid), world.other, **more)
            for qid in (world.query, unknown)
        )
        assert theirs.status_code == nobodys.status_code == 404, (method, path, theirs.text)
        assert theirs.text.replace(str(world.query), str(unknown)) == nobodys.text
    for qid in (world.query, unknown, -1, 1 << 70):
        answer = served.post("/v1/queries/bulk", world.other, json={"drop": [qid]})
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            404,
            f'query "{qid}" does not exist',
        )


def test_a_tenant_sees_what_is_its_own(world: World) -> None:
    served = world.served

    [letter] = served.get("/v1/streams/trades/dead-letters", world.acme).json()["rows"]
    late = served.get("/v1/streams/trades/late", world.acme).json()["rows"]
    shown = served.sql("SHOW QUERIES", world.acme)[0]["rows"]
    listed = served.get("/v1/queries", world.acme).json()["queries"]
    graph = served.get("/v1/plan", world.other).json()
    looked_for = served.get("/v1/plan", world.other, params={"find": SECRET}).json()

    assert letter["source"] == "push/acme"
    assert len(late) == 1
    assert [row["name"] for row in shown] == [SECRET]
    assert [each["name"] for each in listed] == [SECRET, f"{SECRET}_t#{world.row}"]
    assert [n["label"] for n in graph["nodes"] if n["kind"] == "others"] == ["2 queries of others"]
    assert looked_for["nodes"] == []


def test_the_same_name_may_be_used_by_each_tenant(world: World) -> None:
    other = world.served.post(
        "/v1/queries", world.other, json={"sql": "SELECT price FROM trades", "name": SECRET}
    )

    assert other.status_code == 201
    assert world.served.get(f"/v1/queries/{SECRET}", world.acme).json()["text"] == OWN
    names = [
        each["name"] for each in world.served.get("/v1/queries", world.operator).json()["queries"]
    ]
    assert {f"acme/{SECRET}", f"other/{SECRET}"} <= set(names)
    world.served.request("DELETE", f"/v1/queries/{SECRET}", world.other)


@pytest.mark.parametrize("token", ["", "mr_wrong"])
def test_no_token_no_entry(world: World, token: str) -> None:
    document = world.served.get("/openapi.json").json()
    open_to_all = {"/v1/health", "/v1/ready"}

    for path, methods in document["paths"].items():
        for method in methods:
            answer = world.served.request(method.upper(), path, token)
            expected = 200 if path in open_to_all else 401
            assert answer.status_code == expected, (method, path, answer.text)


def test_a_reader_changes_nothing(world: World) -> None:
    served, before = world.served, world.served.get("/v1/queries", world.acme).json()

    refused = [
        served.post("/v1/queries", world.reader, json={"sql": OWN}),
        served.post("/v1/queries/bulk", world.reader, json={"drop": [SECRET]}),
        served.request("PATCH", f"/v1/queries/{SECRET}", world.reader, json={"state": "paused"}),
        served.request("PATCH", f"/v1/queries/{SECRET}", world.reader, json={"policy": "eager"}),
        served.request("DELETE", f"/v1/queries/{SECRET}", world.reader),
        served.push([trade("A", 1.0)], token=world.reader),
        served.post("/v1/sql", world.reader, json={"sql": f"DROP QUERY {SECRET}"}),
        served.post("/v1/tokens", world.reader, json={"role": "admin"}),
        served.post("/v1/sql", world.reader, json={"sql": f"EXPLAIN DRY RUN {OWN}"}),
        served.post("/v1/dry-run", world.reader, json={"sql": OWN}),
        served.get("/v1/audit", world.reader),
        served.get("/metrics", world.reader),
    ]

    assert [each.status_code for each in refused] == [403] * len(refused)
    after = served.get("/v1/queries", world.acme).json()
    assert [each["state"] for each in after["queries"]] == [
        each["state"] for each in before["queries"]
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM s (a text, ts timestamp) TIMESTAMP BY ts FROM files(path => '/etc/*')",
        "CREATE TABLE t (a text) FROM files(path => '/etc/passwd')",
        "CREATE SINK s TO parquet(path => '/tmp/out')",
        f"INSERT INTO {SECRET}_t FROM '/etc/passwd'",
        "DROP STREAM trades",
        "CREATE VIEW v AS SELECT price FROM trades",
        "INSERT INTO limits VALUES ('A', 1)",
        "SHOW SINKS",
    ],
)
def test_what_is_the_operators_is_refused_to_a_tenant(world: World, statement: str) -> None:
    answer = world.served.post("/v1/sql", world.acme, json={"sql": statement})

    assert answer.status_code == 403, answer.text


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE STREAM s (a text, ts timestamp) TIMESTAMP BY ts FROM files(path => '/etc/*')",
        "CREATE STREAM s (a text, ts timestamp) TIMESTAMP BY ts "
        "FROM files(path => '/srv/allowed/../../etc/*')",
        "CREATE STREAM s (ts timestamp) TIMESTAMP BY ts FROM socket(host => 'x', port => 9)",
        "CREATE TABLE t (a text) FROM files(path => '/etc/passwd')",
        "CREATE SINK s TO parquet(path => '/root/out')",
        "INSERT INTO limits FROM '/etc/passwd'",
    ],
)
def test_even_the_operator_names_no_path_that_is_not_allowed(world: World, statement: str) -> None:
    answer = world.served.post("/v1/sql", world.operator, json={"sql": statement})

    assert answer.status_code == 403, answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/hosts')",
        "COPY trades TO '/tmp/x'",
        "ATTACH '/tmp/x.db'",
        "SELECT getenv('HOME') FROM trades",
        "INSTALL httpfs",
        "PRAGMA database_list",
    ],
)
def test_no_file_is_read_through_sql(world: World, text: str) -> None:
    for path in ("/v1/sql", "/v1/queries", "/v1/explain"):
        answer = world.served.post(path, world.acme, json={"sql": text})

        assert 400 <= answer.status_code < 500, (path, answer.text)
        assert "root:" not in answer.text
        assert "localhost" not in answer.text


def test_administrators_make_and_forget_tokens_of_their_tenant(world: World) -> None:
    served = world.served

    made = served.post("/v1/tokens", world.acme, json={"role": "reader", "label": "ci"}).json()
    used = served.get("/v1/queries", made["token"])
    foreign = served.post("/v1/tokens", world.acme, json={"role": "reader", "tenant": "other"})
    listed = served.get("/v1/tokens", world.acme).json()["tokens"]
    removed = served.request("DELETE", f"/v1/tokens/{made['id']}", world.acme)
    entries = served.get("/v1/audit?last=1000", world.acme).json()["entries"]

    assert used.status_code == 200
    assert foreign.status_code == 403
    assert {each["tenant"] for each in listed} == {"acme"}
    assert made["token"] not in world.served.options.token_path.read_text()
    assert removed.status_code == 204
    assert served.get("/v1/queries", made["token"]).status_code == 401
    about = {"id": made["id"], "role": "reader", "tenant": "acme", "label": "ci"}
    assert [(each["do"], each["about"]) for each in entries if "about" in each] == [
        ("make token", about),
        ("forget token", about),
    ]
    assert made["token"] not in json.dumps(entries)


def test_what_only_asks_is_not_in_the_audit_log(world: World) -> None:
    before = world.served.get("/v1/audit?last=1000", world.acme).json()["entries"]

    world.served.sql(f"EXPLAIN {OWN}; EXPLAIN DRY RUN {OWN}; SUBSCRIBE {SECRET}", world.acme)
    world.served.post("/v1/explain", world.acme, json={"sql": OWN})
    world.served.post("/v1/dry-run", world.acme, json={"sql": OWN})

    assert world.served.get("/v1/audit?last=1000", world.acme).json()["entries"] == before


def test_registrations_are_in_the_audit_log(world: World) -> None:
    entries = world.served.get("/v1/audit?last=1000", world.acme).json()["entries"]

    assert {each["tenant"] for each in entries} == {"acme"}
    added = next(each for each in entries if each["do"] == "add")
    assert added["text"] == OWN
    everything = world.served.get("/v1/audit?last=1000", world.operator).json()["entries"]
    assert len(everything) > len(entries)


def test_a_web_socket_needs_a_token_too(world: World) -> None:
    address = f"ws://127.0.0.1:{world.served.port}/v1/queries/{SECRET}/live"

    with connect(address) as socket:
        refused = json.loads(socket.recv(20))
        with pytest.raises(ConnectionClosed):
            socket.recv(20)
    with connect(f"{address}?token={world.other}") as socket:
        unknown = json.loads(socket.recv(20))

    assert refused["error"]["code"] == "unauthorized"
    assert unknown["error"]["code"] == "unknown_name"


def test_queries_beyond_a_quota_are_refused(world: World) -> None:
    served = world.served
    served.tokens.limit("small", Quota(queries=2))
    small = served.tokens.add("writer", "small")[0]

    made = [
        served.post("/v1/queries", small, json={"sql": OWN, "name": f"q{each}"})
        for each in range(3)
    ]
    many = served.post("/v1/queries/bulk", small, json={"add": [{"sql": OWN}] * 2})

    assert [each.status_code for each in made] == [201, 201, 429]
    assert made[2].json()["error"]["message"] == "refused: limit 2 queries, now 2"
    assert many.status_code == 429


def test_a_tenant_that_answers_too_much_is_quietened(world: World) -> None:
    served = world.served
    served.tokens.limit("loud", Quota(results_per_second=10))
    loud = served.tokens.add("writer", "loud")[0]
    for name, sql in (("most", "SELECT price FROM trades"), ("few", OWN)):
        served.post("/v1/queries", loud, json={"sql": sql, "name": name})

    served.push([trade("NOISE", 1.0, at) for at in range(200)], token=world.acme)

    served.until(lambda: served.get("/v1/queries/most", loud).json()["state"] == "paused")
    assert served.get("/v1/queries/few", loud).json()["state"] == "running"
    assert served.get(f"/v1/queries/{SECRET}", world.acme).json()["state"] == "running"


def test_a_token_that_asks_too_fast_is_refused(world: World) -> None:
    served = world.served
    served.tokens.limit("hasty", Quota(requests_per_second=5))
    hasty = served.tokens.add("reader", "hasty")[0]

    statuses = [served.get("/v1/queries", hasty).status_code for _ in range(40)]

    assert statuses[:5] == [200] * 5
    assert 429 in statuses
    assert served.get("/v1/queries", world.acme).status_code == 200


def test_a_bucket_fills_at_its_rate() -> None:
    rates = Rates()

    for _ in range(3):
        rates.take("t", 1.0, 3.0, now=0.0)
    with pytest.raises(RateError, match="refused: limit 1 requests a second"):
        rates.take("t", 1.0, 3.0, now=0.5)
    rates.take("t", 1.0, 3.0, now=1.5)


def test_bodies_and_answers_have_a_limit(tmp_path: Path) -> None:
    limits = Limits(body_bytes=10_000, push_rows=10, result_rows=5)
    with Served(tmp_path / "root", limits=limits) as served:
        served.sql(STREAM)
        served.post("/v1/queries", json={"sql": OWN, "name": "own"})
        large = served.push([trade("A" * 20_000, 1.0)])
        chunked = served.client.post(
            "/v1/streams/trades/rows", content=iter([b"[" + b" " * 6_000, b" " * 6_000 + b"]"])
        )
        many = served.push([trade("A", 1.0)] * 11)
        served.push([trade("ACME", 1.0, at) for at in range(9)])
        served.until(lambda: served.get("/v1/stats").json()["results"] == 9)
        result = served.get("/v1/queries/own/results")
        newest = served.get("/v1/queries/own/results?last=5")

    assert [each.status_code for each in (large, chunked, many, result)] == [413] * 4
    assert many.json()["error"]["message"] == "refused: limit 10 rows a request, now 11"
    assert len(newest.json()["rows"]) == 5


def test_no_more_is_pushed_than_may_wait_for_the_engine(tmp_path: Path) -> None:
    with Served(tmp_path / "root", limits=Limits(backlog_bytes=2_000)) as served:
        served.sql(STREAM)
        served.stop_engine()
        statuses = [served.push([trade("A" * 3_000, 1.0)]).status_code for _ in range(2)]
        time.sleep(1.1)
        refused = served.push([trade("A", 1.0)])

    assert 200 in statuses
    assert refused.status_code == 429
    assert refused.json()["error"]["message"].startswith("refused: limit 2000 bytes pushed")


def test_a_demo_is_served_on_loopback_only(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="a demo is not served"):
        ServerOptions(tmp_path, host="0.0.0.0", demo=True).check()
    with pytest.raises(PlanError, match="there is no token"):
        ServerOptions(tmp_path).check()
    Tokens(ServerOptions(tmp_path).token_path).add("admin")
    ServerOptions(tmp_path, host="0.0.0.0").check()
