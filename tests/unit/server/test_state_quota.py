"""The quota of state: what is kept in any way counts, and a tenant that goes on is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.engine.stores import is_found
from millrace.reading.reader import Reader
from millrace.server import state_watch
from millrace.server.principals import Principal
from millrace.server.quotas import Quota
from millrace.server.state_watch import StateWatch
from millrace.server.work_views import Costs
from millrace.session.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.testing.serving import STREAM, Served, trade

ALL = "SELECT price, symbol FROM trades"
FEW = "SELECT price FROM trades WHERE symbol = 'A'"
LAZY = "WITH (policy = 'lazy', retain = '1 hour')"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_watch, "PAUSES", 0)


@pytest.fixture
def session() -> Iterator[Session]:
    how = Settings(shards=1, spread="never")
    with Session(MemoryRoot(), threads=False, settings=how) as made:
        source = millrace.Feed("price bigint, symbol text, ts timestamp")
        made.stream("trades", source, time="ts", retain="1 hour")
        yield made


def played(session: Session, n_epochs: int = 3, n_rows: int = 400) -> LocalRun:
    """Feed rows, of which every fourth is of A."""
    run = session.start()
    assert isinstance(run, LocalRun)
    for epoch in range(n_epochs):
        feed(run, epoch, n_rows)
    return run


def feed(run: LocalRun, epoch: int, n_rows: int = 400) -> None:
    stamps = pa.array(np.arange(n_rows) + epoch * n_rows).cast(pa.timestamp("us"))
    symbols = ["ABCD"[each % 4] for each in range(n_rows)]
    run.feed(trades=pa.table({"price": list(range(n_rows)), "symbol": symbols, "ts": stamps}))


def shared_in(session: Session) -> int:
    """Add up what all that share rows keep together."""
    return sum(
        piece.bytes
        for name, store in session.engine.manifest.stores.items()
        if is_found(name) or name.startswith("seen/")
        for run in store.runs
        for piece in run.pieces
    )


def test_what_is_kept_lazily_is_parted_among_those_whose_answers_it_is(session: Session) -> None:
    session.query(ALL, name="acme/all", retain="1 hour", policy="lazy")
    session.query(FEW, name="beta/few", retain="2 hours", policy="lazy")
    played(session)
    watch = StateWatch(session)
    acme, beta = watch.held("acme"), watch.held("beta")

    assert acme + beta == pytest.approx(shared_in(session), abs=2)
    assert 3 * beta < acme < 6 * beta
    assert watch.held("nobody") == 0


def test_who_finds_answers_anew_keeps_all_rows(session: Session) -> None:
    session.query(FEW, name="acme/few", retain="1 hour", policy="none")
    played(session)

    assert StateWatch(session).held("acme") == pytest.approx(shared_in(session), abs=2)


def test_a_query_that_is_dropped_counts_no_more(session: Session) -> None:
    query = session.query(ALL, name="acme/all", retain="1 hour", policy="lazy")
    session.query(FEW, name="beta/few", retain="1 hour", policy="lazy")
    run = played(session)
    query.drop()
    feed(run, 3)

    assert StateWatch(session).held("acme") == 0


def test_sets_that_were_folded_count_as_many_rows_as_before(session: Session) -> None:
    query = session.query(FEW, name="acme/few", retain="1 hour", policy="lazy")
    for_all = session.query(ALL, name="beta/all", retain="1 hour", policy="lazy")
    run = played(session, n_epochs=0)
    for epoch in range(40):
        feed(run, epoch, n_rows=4)
    reader = Reader(session.engine.root)
    reader.follow()
    costs = Costs(reader)
    costs.follow()
    found = [costs.of(each.feed, each.id)[0] for each in (query, for_all)]

    assert any(run.level for name, store in reader.manifest.stores.items() if is_found(name)
               for run in store.runs)  # fmt: skip
    assert found == [40, 160]


@pytest.mark.parametrize("policy", ["lazy", "eager"])
def test_who_looks_seldom_counts_what_was_merged_meanwhile(session: Session, policy: str) -> None:
    few = session.query(FEW, name="acme/few", retain="1 hour", policy=policy)
    for_all = session.query(ALL, name="beta/all", retain="1 hour", policy=policy)
    run = played(session, n_epochs=0)
    feed(run, 0, n_rows=4)
    reader = Reader(session.engine.root)
    costs = Costs(reader)
    costs.follow(reader.follow())
    for epoch in range(1, 40):
        feed(run, epoch, n_rows=4)
        if epoch % 13 == 0:
            costs.follow(reader.follow())
    costs.follow(reader.follow())

    assert any(run.level for store in reader.manifest.stores.values() for run in store.runs)
    assert [costs.of(each.feed, each.id)[0] for each in (few, for_all)] == [40, 160]


def test_a_tenant_is_told_its_part_of_what_is_shared(session: Session) -> None:
    session.query(ALL, name="acme/all", retain="1 hour", policy="lazy")
    session.query(FEW, name="beta/few", retain="1 hour", policy="lazy")
    played(session)
    reader = Reader(session.engine.root)
    reader.follow()
    costs = Costs(reader)
    costs.follow()
    tenants = [Principal(each, "admin") for each in ("acme", "beta", "gamma")]
    acme, beta, gamma = (costs.stats(each)["state_bytes"] for each in tenants)

    assert acme > 3 * beta > 0
    assert gamma == 0
    assert acme + beta == pytest.approx(shared_in(session), abs=2)
    assert costs.stats(Principal("", "reader"))["state_bytes"] == 0
    costs.heard({"held": {"beta": 77}})
    assert costs.stats(tenants[1])["state_bytes"] == 77


def test_the_heaviest_that_runs_is_paused_while_the_state_grows(session: Session) -> None:
    small = session.query(FEW, name="acme/few", retain="1 hour", policy="eager")
    large = session.query(ALL, name="acme/all", retain="1 hour", policy="lazy")
    session.query(ALL, name="beta/all", retain="1 hour", policy="eager")
    run = played(session)
    watch, quotas = StateWatch(session), {"acme": Quota(state_bytes=1_000)}

    [first] = watch.heavy(quotas)
    large.pause()
    silent = list(watch.heavy(quotas))
    feed(run, 3)
    [second] = watch.heavy(quotas)
    relieved = list(watch.heavy({"acme": Quota(state_bytes=1 << 40)}))

    assert (first.tenant, first.queries) == ("acme", [large.id])
    assert first.reason.startswith("refused: limit 1000 bytes of state, now ")
    assert silent == relieved == []
    assert second.queries == [small.id]


@pytest.mark.parametrize("policy", ["lazy", "eager"])
def test_of_a_template_those_are_paused_that_hold_half(session: Session, policy: str) -> None:
    text = "SELECT price, symbol FROM trades WHERE price >= :low"
    template = session.template("acme/t", text, low="bigint", retain="1 hour", policy=policy)
    ids = template.insert({"low": [395, 0, 390]}).to_pylist()
    played(session)

    [found] = StateWatch(session).heavy({"acme": Quota(state_bytes=100)})

    assert found.queries == [ids[1]]


def test_what_alike_queries_keep_together_is_parted_among_them(session: Session) -> None:
    counting = "SELECT symbol, count(*) AS n FROM trades WHERE price > {} GROUP BY symbol"
    made = [
        session.query(counting.format(each), name=f"acme/q{each}", unbounded=True, keep=0)
        for each in (1, 2)
    ]
    played(session)
    watch = StateWatch(session)

    [found] = watch.heavy({"acme": Quota(state_bytes=1)})

    assert watch.held("acme") > 0
    assert found.queries in ([made[0].id], [made[1].id])


def test_a_tenant_that_keeps_more_and_more_is_stopped_and_told(tmp_path: Path) -> None:
    with Served(tmp_path / "root") as served:
        served.sql(STREAM)
        served.tokens.limit("heavy", Quota(state_bytes=20_000))
        token = served.tokens.add("admin", "heavy")[0]
        served.sql(f"CREATE QUERY all_of_it {LAZY} AS {ALL}", token)
        served.sql(f"CREATE QUERY other {LAZY} AS {ALL}")
        served.push([trade("A", 1.0, at) for at in range(2_000)])
        served.until(lambda: served.get("/v1/queries/all_of_it", token).json()["reason"])
        told = served.get("/v1/queries/all_of_it", token).json()
        refused = served.post("/v1/sql", token, json={"sql": f"CREATE QUERY b AS {FEW}"})
        held = served.get("/v1/stats", token).json()["state_bytes"]
        other = served.get("/v1/queries/other").json()["state"]
        audit = served.get("/v1/audit", token).json()["entries"]
        served.request("PATCH", "/v1/queries/all_of_it", token, json={"state": "running"})
        resumed = served.get("/v1/queries/all_of_it", token).json()

    assert told["state"] == "paused"
    assert told["reason"].startswith("refused: limit 20000 bytes of state, now ")
    assert refused.status_code == 429
    assert held > 20_000
    assert other == "running"
    assert [each["reason"] for each in audit if each["do"] == "pause"] == [told["reason"]]
    assert (resumed["state"], resumed["reason"]) == ("running", "")
