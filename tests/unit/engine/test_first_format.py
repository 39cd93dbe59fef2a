"""A root whose registry is in its first form is opened, goes on, and answers as before."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import millrace
from millrace import col
from millrace.cli.main import main
from millrace.engine import facts
from millrace.engine.decision import Decision
from millrace.engine.local import LocalRun
from millrace.engine.registry import Registry
from millrace.plan.nodes import Selection
from millrace.session import Query, Session
from millrace.state.posix_root import PosixRoot
from millrace.state.run_store import load_manifest

DATA = Path(__file__).parents[2] / "data"
EXPECTED: dict[str, Any] = json.loads((DATA / "engine-v1.json").read_text())
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)

ASKED: dict[str, Selection] = {
    "dear": millrace.select("trades", "symbol", "price", where=col("price") > 100),
    "anew": millrace.select(
        "trades", "price", where=(col("symbol") == "BOLT") | ~(col("price") < 95)
    ),
    "fussy": millrace.select("trades", "price", where=millrace.call("fussy", col("price"))),
    "resumed": millrace.select("trades", twice=col("price") > 110.5),
    "paused": millrace.select("trades"),
    "late": millrace.select("quotes", "price", where=col("symbol").is_null()),
}


def fussy(prices: pa.Array) -> pa.Array:
    return pc.greater(prices, 100)


def trades(epoch: int) -> pa.Table:
    """The rows that the program fed in an epoch."""
    prices = [90.0 + 10 * epoch, 101.5 + epoch, None, -1.0 if epoch == 1 else 120.0]
    times = [NOON + timedelta(minutes=epoch, seconds=each) for each in range(4)]
    return pa.table(
        {
            "symbol": ["ACME", "BOLT", "ACME", None],
            "price": pa.array(prices, pa.float64()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


@pytest.fixture
def root(tmp_path: Path) -> PosixRoot:
    shutil.copytree(DATA / "engine-v1", tmp_path / "root")
    return PosixRoot(tmp_path / "root", durable=False)


@pytest.fixture
def session(root: PosixRoot) -> Iterator[Session]:
    """The program as it starts again, which declares what it declared before."""
    with Session(root, threads=False) as session:
        session.function("fussy", fussy, returns="boolean")
        for name in ("trades", "quotes"):
            feed = millrace.Feed("symbol text, price double, ts timestamp")
            session.stream(name, feed, time="ts", delay="2 seconds", retain="1 hour")
        for name, selection in ASKED.items():
            session.query(selection, name=name)
        yield session


def started(session: Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def query(session: Session, name: str) -> Query:
    found = session.standing(name)
    assert isinstance(found, Query)
    return found


def plain(table: pa.Table) -> list[dict[str, Any]]:
    """Rows as the JSON beside the root was written."""
    spelt: list[dict[str, Any]] = json.loads(json.dumps(table.to_pylist(), default=str))
    return spelt


def test_the_files_are_of_the_first_form(root: PosixRoot) -> None:
    """Otherwise nothing would be tested here."""
    kinds = {entry.name.partition("/")[0] for entry in root.list("")}

    assert {"registry", "registry-snapshots", "catalogs", "epochs", "commits"} <= kinds
    assert not root.list("queries/")
    assert b'"wanted"' not in root.get(root.list("epochs/")[-1].name)
    assert b'"queries"' in root.get(root.list("catalogs/")[-1].name)
    assert b'"queries"' in root.get(root.list("registry-snapshots/")[-1].name)
    dos = b"".join(root.get(entry.name) for entry in root.list("registry/"))
    assert all(do in dos for do in (b"add query", b"drop query", b"pause", b"resume"))


@pytest.mark.parametrize("snapshots", [True, False])
def test_the_registry_is_read_from_its_log_and_from_a_snapshot(
    root: PosixRoot, *, snapshots: bool
) -> None:
    if not snapshots:
        for entry in root.list("registry-snapshots/"):
            root.delete(entry.name)

    registry = Registry.open(root)

    catalog, population = registry.catalog, registry.population
    assert catalog.sequence == EXPECTED["sequence"]
    assert population.names == EXPECTED["qids"]
    assert {name: feed.number for name, feed in catalog.feeds.items()} == EXPECTED["qids"]
    for name in ("dear", "fussy", "paused", "late"):  # of others the spelling has changed since
        assert catalog.feed(name).text == EXPECTED["texts"][name]
    assert catalog.next_qid == catalog.next_number == max(EXPECTED["qids"].values()) + 1
    assert population.paused == {EXPECTED["qids"]["paused"]}
    assert population.generations == {EXPECTED["qids"]["resumed"]: 31}
    born = EXPECTED["facts"]["born"]
    assert {name: stream.born for name, stream in catalog.streams.items()} == born


def test_what_the_program_declares_again_is_known(session: Session) -> None:
    assert session.engine.registry.catalog.sequence == EXPECTED["sequence"]


def test_verdicts_hold_and_end_when_a_query_is_resumed(session: Session) -> None:
    assert query(session, "fussy").failure is not None
    assert query(session, "dear").failure is None

    query(session, "fussy").resume()

    assert query(session, "fussy").failure is None


def test_answers_from_before_are_read_and_delivered(session: Session, tmp_path: Path) -> None:
    expected = EXPECTED["answers"]
    assert {name: plain(query(session, name).results()) for name in expected} == expected
    session.sink(millrace.ParquetSink(tmp_path / "out", roll_epochs=1))
    started(session)
    session.engine.delivery.pump()

    for name, answers in expected.items():
        files = sorted((tmp_path / "out" / name).glob("*.parquet"))
        assert plain(pa.concat_tables(map(pq.read_table, files))) == answers


def test_the_epoch_that_was_decided_is_run_as_decided(session: Session, root: PosixRoot) -> None:
    """With the queries of then: one that is registered only now gets none of its rows."""
    logged = Decision.read(root, root.list("epochs/")[-1].name)
    assert logged.identity.epoch == session.engine.manifest.epoch + 1
    new = session.query(millrace.select("trades", "price"), name="new")
    run = started(session)
    run.feed(trades=trades(3))

    assert session.engine.manifest.epoch == logged.identity.epoch
    assert session.statistics()[-1].started == logged.clock
    prices = query(session, "dear").results().column("price").to_pylist()
    assert sorted(prices[-3:]) == [104.5, 120.0, 120.0]
    assert new.results().num_rows == 0
    assert query(session, "paused").results().num_rows == 0
    assert query(session, "fussy").results().num_rows == len(EXPECTED["answers"]["fussy"])
    run.feed(trades=trades(4))
    assert new.results().num_rows == 4
    stores = load_manifest(root).stores
    assert {"results/dear.2", "results/anew.4"} <= set(stores)


def test_it_goes_on_after_another_start(session: Session, root: PosixRoot) -> None:
    run = started(session)
    for epoch in range(3, 6):
        run.feed(trades=trades(epoch))
    query(session, "paused").resume()
    query(session, "anew").drop()
    dear = query(session, "dear").results()
    session.close()

    with Session(root, threads=False) as again:
        names = {*EXPECTED["qids"]} - {"anew"}
        assert set(again.engine.registry.population.names) == names
        assert query(again, "dear").results() == dear
        generations = again.engine.registry.population.generations
        verdicts = facts.suspended(again.engine.manifest, generations)
        assert list(verdicts) == [EXPECTED["qids"]["fussy"]]


def test_it_can_be_inspected_and_verified(
    root: PosixRoot, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # wide enough, however long the name of the root is

    assert main(["verify", str(root.path)]) == 0
    assert main(["inspect", str(root.path)]) == 0

    page = capsys.readouterr().out
    assert "queries (6)" in page
    assert EXPECTED["texts"]["dear"] in page
