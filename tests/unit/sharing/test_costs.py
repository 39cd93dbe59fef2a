"""What work is expected to cost, and that answers do not depend on it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing import band_calibration, lineage_prices, machine_prices, measuring
from millrace.sharing.costs import fit_prices
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Found, Pairs
from millrace.sharing.select import calibration, experience
from millrace.sharing.select.batch import Load
from millrace.sharing.select.calibration import (
    calibrate,
    keep_prices,
    prices_of_machine,
    random_trial,
)
from millrace.sharing.select.dynamic import Dynamic
from millrace.sharing.select.prices import PRICES, Prices
from millrace.sharing.select.strategies import BUILDS, STRATEGIES, dynamic
from millrace.sharing.select.strategy import Indexed
from millrace.sharing.select.warm import warm_select_joins
from millrace.sharing.stored import Stored
from millrace.sharing.window import calibration as window_calibration

AMOUNTS = st.lists(
    st.tuples(st.floats(0.1, 100), st.floats(0.1, 100), st.floats(0, 100)), min_size=1, max_size=8
)


def squares(amounts: np.ndarray, measured: np.ndarray, prices: np.ndarray) -> float:
    return float((((amounts @ prices) / measured - 1) ** 2).sum())


@given(AMOUNTS, st.integers(0, 5))
def test_no_prices_that_are_not_negative_explain_better(
    rows: list[tuple[float, ...]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    amounts = np.array(rows)
    measured = random.uniform(1, 1000, len(rows))

    prices = fit_prices(amounts, measured)

    assert bool(np.all(prices >= 0))
    best = squares(amounts, measured, prices)
    for _ in range(50):
        other = np.maximum(0, prices * random.uniform(0.8, 1.2, 3) + random.uniform(-0.5, 0.5, 3))
        assert best <= squares(amounts, measured, other) + 1e-3


def test_prices_are_found_again_that_explain_everything() -> None:
    random = np.random.default_rng(1)
    amounts = random.uniform(0, 10, (30, 4)) ** 3
    prices = np.array([5.0, 0.0, 0.1, 300.0])

    found = fit_prices(amounts, amounts @ prices)

    assert found == pytest.approx(prices, rel=1e-2, abs=1e-2)


def pairs_of(found: Found) -> set[tuple[int, int]]:
    pairs = found.pairs()
    return set(zip(pairs.drivers.tolist(), pairs.queries.tolist(), strict=True))


def priced(name: str) -> dict[str, Prices]:
    """Prices at which one strategy costs nothing, and the others more than anything."""
    return {each: tuple(0.0 if each == name else 1e6 for _ in PRICES[each]) for each in PRICES}


@pytest.mark.parametrize("seed", range(6))
def test_the_answer_is_the_same_whatever_is_chosen(seed: int) -> None:
    trial = random_trial(np.random.default_rng(seed), queries=(30, 300))
    slots = np.arange(len(trial.queries))
    answers = []
    for make in STRATEGIES.values():
        strategy = make(PRICES)
        strategy.add(slots, trial.queries)
        answers.append(pairs_of(strategy.find(trial.drivers, trial.stored)))
    for name in BUILDS:
        chooser = dynamic(priced(name))
        chooser.add(slots, trial.queries)
        answers.append(pairs_of(chooser.find(trial.drivers, trial.stored)))
        assert chooser.chosen == [name]

    assert all(each == answers[0] for each in answers)


class Told(Indexed):
    """A strategy that is said to be cheap for some of the drivers, and may waste time."""

    def __init__(self, inner: str, parity: int, *, wasted_seconds: float = 0.0) -> None:
        super().__init__(BUILDS[inner], PRICES[inner])
        self._parity = parity
        self._wasted_seconds = wasted_seconds
        self.asked: list[int] = []

    def estimate(self, drivers: Drivers, stored: Stored, some: Ints | None = None) -> Floats:
        codes = drivers.codes if some is None else drivers.codes[some]
        return np.where(codes % 2 == self._parity, 10.0, 1e9)

    def price(self, load: Load) -> Floats:
        return np.where(load.codes % 2 == self._parity, 10.0, 1e9)

    def pair(self, drivers: Drivers, stored: Stored) -> Pairs:
        self.asked += (drivers.codes % 2).tolist()
        start = time.thread_time()
        while time.thread_time() - start < self._wasted_seconds:
            pass
        return super().pair(drivers, stored)


@pytest.fixture
def _untaught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Believe in prices."""
    monkeypatch.setattr(experience, "FEW", 0)
    monkeypatch.setattr(experience, "MANY", 0)


@pytest.mark.usefixtures("_untaught")
def test_drivers_go_to_what_is_cheapest_for_each() -> None:
    trial = random_trial(np.random.default_rng(2), queries=(30, 300))
    even, odd = Told("ssi", 0), Told("vanilla", 1)
    strategy = Dynamic({"even": even, "odd": odd})
    strategy.add(np.arange(len(trial.queries)), trial.queries)

    found = pairs_of(strategy.find(trial.drivers, trial.stored))

    assert strategy.chosen == ["even", "odd"]
    assert set(even.asked) == {0}
    assert set(odd.asked) == {1}
    assert len(even.asked) + len(odd.asked) == len(trial.drivers)
    assert found == pairs_of(even.find(trial.drivers, trial.stored))


@pytest.mark.usefixtures("_untaught")
def test_a_choice_stands_until_many_queries_have_changed() -> None:
    trial = random_trial(np.random.default_rng(2), queries=(30, 300))
    strategy = dynamic(priced("vanilla"))
    strategy.add(np.arange(len(trial.queries)), trial.queries)
    strategy.find(trial.drivers, trial.stored).pairs()
    for name, each in strategy.strategies.items():
        if isinstance(each, Indexed):
            each._prices = priced("bitmaps")[name]

    strategy.find(trial.drivers, trial.stored).pairs()
    assert strategy.chosen == ["vanilla"]

    strategy.drop(np.arange(1))
    strategy.find(trial.drivers, trial.stored).pairs()
    assert strategy.chosen == ["vanilla"]

    strategy.drop(np.arange(1, 1 + len(trial.queries) // 4))
    strategy.find(trial.drivers, trial.stored).pairs()
    assert strategy.chosen == ["bitmaps"]


def test_what_takes_longer_than_expected_is_left() -> None:
    trial = random_trial(np.random.default_rng(2), queries=(30, 300))
    slow, quick = Told("vanilla", 2, wasted_seconds=0.05), Told("vanilla", 2)
    strategy = Dynamic({"slow": slow, "quick": quick})
    strategy.add(np.arange(len(trial.queries)), trial.queries)

    for _ in range(experience.FEW + experience.MANY + 2):
        strategy.find(trial.drivers, trial.stored).pairs()

    assert strategy.chosen == ["quick"]
    assert len(slow.asked) == experience.FEW * len(trial.drivers)


def test_the_quickest_try_counts() -> None:
    known = experience.Experience({"disturbed": 1, "even": 1})
    costs = np.ones((2, 1))
    for took in (9.0, 9.0, 1.0, 5.0):
        known.learn("disturbed", 1.0, took)
        known.learn("even", 1.0, 2.0)

    assert known.correct(costs)[:, 0].tolist() == [1.0, 2.0]


def test_what_is_close_is_tried_in_one_go_and_more_often() -> None:
    known = experience.Experience({"a": 1, "b": 1, "far": 2, "hopeless": 1})
    totals, took = np.array([2.0, 1.0, 3.0, 9.0]), {"a": 1.2, "b": 1.0, "far": 5.0}
    known.begin((1,))
    tried = []
    while (found := known.untried(totals)) is not None:
        at, n_times = found
        name = ["a", "b", "far", "hopeless"][at]
        tried.append((name, n_times))
        for _ in range(n_times):
            known.learn(name, totals[at], took[name])

    few, more = experience.FEW, experience.MANY - experience.FEW
    assert tried == [("b", few), ("a", few), ("far", 2 * few), ("b", more), ("a", more)]
    assert known.correct(totals[:, None])[:, 0].tolist() == [1.2, 1.0, 5.0, np.inf]


def test_prices_are_measured_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "calibrate", partial(calibrate, n_trials=6))
    path = tmp_path / "prices" / "of.json"
    assert prices_of_machine(path) == PRICES

    kept = keep_prices(BUILDS, path)

    assert {name: len(each) for name, each in kept.items()} == {
        name: len(each) for name, each in PRICES.items()
    }
    assert prices_of_machine(path) == kept
    assert keep_prices({}, path) == kept
    path.write_text("{", encoding="utf-8")
    assert prices_of_machine(path) == PRICES


def test_calibrating_tells_the_dear_from_the_cheap() -> None:
    prices = calibrate(BUILDS, n_trials=8)

    assert all(all(price >= 0 for price in each) for each in prices.values())
    assert all(any(each) for each in prices.values())


def test_warming_runs_every_strategy() -> None:
    warm_select_joins()


# ---- the prices of a machine ---------------------------------------------------------------------


@pytest.mark.parametrize("calibrated", [band_calibration, lineage_prices, window_calibration])
def test_each_kind_of_work_is_measured_in_a_moment(calibrated: Any) -> None:
    prices = calibrated.calibrate(n_trials=6)

    known = calibrated.LIST.known
    assert {name: len(each) for name, each in prices.items()} == {
        name: len(each) for name, each in known.items()
    }
    assert all(min(each) >= 0 < max(each) for each in prices.values())


def test_what_takes_too_long_is_not_tried_and_keeps_its_price() -> None:
    done: list[str] = []
    known = {"dear": (1.0, 0.0), "cheap": (1.0, 0.0), "rare": (1.0, 0.0)}
    trials = [measuring.Trial("dear", np.array([1e12, 0.0]), lambda: done.append("dear"))]
    trials += [measuring.Trial("cheap", np.array([n, 1.0]), lambda: done.append("cheap"))
               for n in (1.0, 2.0)]  # fmt: skip
    trials += [measuring.Trial("rare", np.array([1.0, 1.0]), lambda: done.append("rare"))]

    prices = measuring.measured(trials, known)

    assert set(done) == {"cheap", "rare"}
    assert (prices["dear"], prices["rare"]) == (known["dear"], known["rare"])
    assert prices["cheap"] != known["cheap"]


def test_measuring_ends_in_time() -> None:
    endless = (measuring.Trial("a", np.ones(1), lambda: None) for _ in count())

    assert measuring.measured(endless, {"a": (1.0,)}, seconds=0.01)["a"] != (1.0,)


@pytest.fixture
def unmeasured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine on which nothing was measured, and where that is quick."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(machine_prices.VARIABLE)
    monkeypatch.setattr(machine_prices, "_BEGUN", Lock())
    quick = {
        kind: (
            each,
            lambda known=each.known: {name: (7.0,) * len(of) for name, of in known.items()},
        )
        for kind, (each, _) in machine_prices.LISTS.items()
    }
    monkeypatch.setattr(machine_prices, "LISTS", quick)
    machine_prices.machine_prices.cache_clear()
    yield tmp_path / "millrace"
    machine_prices.machine_prices.cache_clear()


def test_a_machine_is_measured_once_beside_its_work(unmeasured: Path) -> None:
    before = machine_prices.machine_prices()
    thread = machine_prices.measure_beside()
    assert thread is not None
    thread.join()
    after = machine_prices.machine_prices()

    assert before.select == PRICES
    assert set(after.lineage.values()) == {(7.0, 7.0)}
    assert set(after.band) == set(band_calibration.LIST.known)
    assert machine_prices.measure_beside() is None
    assert sorted(each.name.split("-")[1] for each in unmeasured.iterdir()) == [
        "band", "lineage", "select", "window",
    ]  # fmt: skip


def test_one_process_measures_and_who_died_is_not_waited_for(unmeasured: Path) -> None:
    lock = unmeasured / "prices.lock"
    unmeasured.mkdir()
    lock.touch()
    machine_prices._measure_alone()
    assert [*unmeasured.iterdir()] == [lock]

    long_ago = time.time() - machine_prices.STALE_SECONDS - 1
    os.utime(lock, (long_ago, long_ago))
    machine_prices._measure_alone()

    assert not lock.exists()
    assert len([*unmeasured.iterdir()]) == 4


@pytest.mark.usefixtures("unmeasured")
def test_nothing_is_measured_where_that_is_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(machine_prices.VARIABLE, machine_prices.KNOWN)

    assert machine_prices.measure_beside() is None
    assert machine_prices.machine_prices().window == window_calibration.LIST.known
