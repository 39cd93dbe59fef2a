"""What a session tells about templates that are one join."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings, Spread
from millrace.operators.joining import choosing, pairing
from millrace.operators.joining.pairing import BANDS
from millrace.plan.panes import PaneWay
from millrace.session.template import Template
from millrace.sharing.band_calibration import LIST
from millrace.sharing.hot_bands import HotBandJoin
from millrace.sharing.machine_prices import machine_prices
from millrace.sharing.window.strategies import PRICES
from millrace.state.memory_root import MemoryRoot

TEXT = (
    "SELECT ISTREAM(r.k, r.a, s.c) FROM r [RANGE 5 SECONDS], s [RANGE :w SECONDS] "
    "WHERE r.k = s.k AND r.a BETWEEN :low AND :high AND s.c > :least"
)
TYPES = {"w": "bigint", "low": "int", "high": "int", "least": "int"}


def session_of(settings: Settings) -> millrace.Session:
    session = millrace.Session(MemoryRoot(), settings=settings)
    for name, columns in (("r", "k int, a int"), ("s", "k int, c int")):
        session.stream(name, millrace.Feed(), schema=f"{columns}, ts timestamp", time="ts")
    return session


def fed(session: millrace.Session, n_queries: int) -> Template:
    template = session.template("alert", TEXT, TYPES, keep=10_000)
    low = np.arange(n_queries)
    columns = {"w": low % 3 + 1, "low": low, "high": low + 2, "least": low % 7}
    template.insert(columns)
    run = session.start()
    assert isinstance(run, LocalRun)
    random = np.random.default_rng(5)
    for epoch in range(3):
        times = pa.array(np.arange(50) * 20_000 + epoch * 1_000_000, pa.timestamp("us", "UTC"))
        keys, values = (random.integers(0, most, (2, 50)) for most in (4, 100))
        run.feed(
            r=pa.table([keys[0].astype(np.int32), values[0].astype(np.int32), times],
                       ["k", "a", "ts"]),
            s=pa.table([keys[1].astype(np.int32), values[1].astype(np.int32), times],
                       ["k", "c", "ts"]),
        )  # fmt: skip
    return template


def told(session: millrace.Session, statement: str) -> str:
    [outcome] = session.execute(statement)
    return outcome.message if outcome.table is None else str(outcome.table.to_pylist())


def test_it_says_what_is_shared_with_whom_and_how_queries_are_found() -> None:
    session = session_of(Settings(shards=2, spread="never"))
    fed(session, 2_000)
    session.query("SELECT ISTREAM(r.k) FROM r [RANGE 1 SECOND], s [NOW] WHERE r.k = s.k")

    lines = told(session, "EXPLAIN QUERY alert").splitlines()

    assert 'shared   by 2,000 standing queries of template "alert"' in lines
    assert "stem     r by k, shared with 1 other plan" in lines
    [strategy] = [each for each in lines if each.startswith("strategy ")]
    assert "it is expected to take least; for the last" in strategy
    assert all(f"{name} " in strategy for name in ("lineage", "ssi", "hotspot", "select_first"))


def test_before_anything_has_come_it_says_so() -> None:
    session = session_of(Settings())
    session.template("alert", TEXT, TYPES)

    assert "strategy auto: nothing has come yet" in told(session, "EXPLAIN QUERY alert")


@pytest.mark.parametrize("name", ["ssi", "lineage"])
def test_a_strategy_that_is_forced_is_the_one(name: str) -> None:
    session = session_of(Settings(strategy=name, spread="never"))
    fed(session, 1_000)

    assert f"strategy {name}: it is forced" in told(session, "EXPLAIN QUERY alert")
    [row] = session.execute("SHOW FAMILIES")[0].table.to_pylist()  # type: ignore[union-attr]
    assert (row["feed"], row["queries"], row["strategy"]) == ("alert", 1_000, name)
    assert row["cost"] == "100.0%"
    assert row["plan"].startswith("SELECT ISTREAM")


@pytest.mark.parametrize("spread", ["never", "always"])
def test_it_says_what_shards_have_chosen(spread: Spread) -> None:
    session = session_of(Settings(shards=2, spread=spread))
    fed(session, 1_000)

    [lately] = [each for each in told(session, "EXPLAIN QUERY alert").splitlines()
                if each.startswith("lately ")]  # fmt: skip
    [row] = session.execute("SHOW FAMILIES")[0].table.to_pylist()  # type: ignore[union-attr]

    way = lately.removeprefix("lately").strip().partition(", for ")[0]
    assert row["strategy"] == way != "auto"
    assert ", for 100 elements: " in lately
    assert all(f"{name} " in lately for name in ("lineage", "ssi", "window_dynamic"))


def test_few_queries_are_asked_all_at_once() -> None:
    session = session_of(Settings(spread="never"))
    fed(session, 10)

    lines = told(session, "EXPLAIN QUERY alert").splitlines()

    assert any(each.startswith("strategy lineage: so few queries are") for each in lines)
    assert any(each.startswith("lately   lineage, for ") for each in lines)


def test_window_joins_choose_for_each_group_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, prices in PRICES.items():
        monkeypatch.setitem(PRICES, name, tuple(each / 1e9 for each in prices))
    session = session_of(Settings(spread="never"))
    fed(session, 700)

    assert "'strategy': 'window_dynamic'" in told(session, "SHOW FAMILIES")


BAND = (
    "SELECT ISTREAM(r.a, s.c, r.ts AS one, s.ts AS other) FROM r [RANGE 5 SECONDS], "
    "s [RANGE 5 SECONDS] WHERE r.k = s.k AND s.c - r.a BETWEEN :low AND :high"
)


@pytest.mark.parametrize("way", BANDS)
def test_band_joins_are_found_in_the_way_that_costs_least(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prices = {each: tuple(0.0 if each == way else cost + 1e6 for cost in costs)
              for each, costs in LIST.known.items()}  # fmt: skip
    if way == "hotspot":
        monkeypatch.setattr(HotBandJoin, "estimate", lambda _, drivers, __: np.zeros(len(drivers)))
    known = replace(machine_prices(), band=prices, lineage={"lineage": (1e6, 1e6)})
    for module in (choosing, pairing):
        monkeypatch.setattr(module, "machine_prices", lambda: known)
    session = session_of(Settings(spread="never"))
    # A choice stands for as long as most queries are the same.
    low = 1_000 * [*BANDS].index(way) + np.arange(600)
    session.template("bands", BAND, low="int", high="int").insert({"low": low - 300, "high": low})
    fed(session, 0)

    strategies = {each["feed"]: each["strategy"] for each in
                  session.execute("SHOW FAMILIES")[0].table.to_pylist()}  # type: ignore[union-attr]  # fmt: skip
    explained = told(session, "EXPLAIN QUERY bands")

    assert strategies["bands"] == way
    assert all(f" {each} " in explained for each in BANDS)


def test_of_what_several_read_each_holds_a_part() -> None:
    session = session_of(Settings(spread="never"))
    fed(session, 3)
    [before] = session.execute("SHOW FAMILIES")[0].table.to_pylist()  # type: ignore[union-attr]
    session.template("other", TEXT, TYPES).insert({name: [1] for name in TYPES})

    rows = session.execute("SHOW FAMILIES")[0].table.to_pylist()  # type: ignore[union-attr]

    assert before["state"] == "8.2 kB"
    assert [each["state"] for each in rows] == ["4.1 kB", "4.1 kB"]


@pytest.mark.parametrize("panes", ["dense", "sparse", "auto"])
def test_panes_are_told_with_how_they_answer(panes: PaneWay) -> None:
    session = session_of(Settings(panes=panes, spread="never"))
    text = "SELECT RSTREAM(k, sum(a) AS n) EVERY 1 SECOND FROM r [RANGE 2 SECONDS] "
    session.template("sums", text + "WHERE a > :low GROUP BY k", low="int").insert({"low": [1, 2]})
    session.query("SELECT count(*) AS n FROM s [RANGE 1 SECOND]", name="lone")
    assert "'panes'" in told(session, "SHOW FAMILIES")
    fed(session, 1)

    strategies = {each["feed"]: each["strategy"] for each in
                  session.execute("SHOW FAMILIES")[0].table.to_pylist()}  # type: ignore[union-attr]  # fmt: skip
    explained = told(session, "EXPLAIN QUERY sums")

    way = strategies["sums"].removeprefix("panes, ")
    assert way == panes or (panes == "auto" and way in ("dense", "sparse"))
    assert f"lately   {way}, for " in explained
    assert re.search(r"questions about groups: \w+ \d+\.\d+ ms, \w+ \d+\.\d+ ms", explained)
    assert strategies["lone"] == "alone"


def test_without_sharing_it_is_a_plan_that_is_joined_with_its_queries() -> None:
    session = session_of(Settings(sharing=False, spread="never"))
    fed(session, 10)

    assert "joined   with #queries" in told(session, "EXPLAIN QUERY alert")
    assert "joined with its queries" in told(session, "SHOW FAMILIES")


@pytest.mark.parametrize("strategy", ["auto", "lineage", "window_dynamic"])
def test_many_queries_answer_the_same_in_every_way(strategy: str) -> None:
    answers = []
    for settings in (Settings(strategy=strategy, spread="never"), Settings(sharing=False)):
        rows = fed(session_of(settings), 700).results().to_pylist()
        answers.append(sorted(map(str, rows)))

    assert answers[0] == answers[1]
    assert answers[0]
