"""What work is expected to cost, and that answers do not depend on it."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.kernels.arrays import Floats, Ints
from millrace.sharing.costs import fit_prices
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Found, Pairs
from millrace.sharing.select import experience
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


def test_prices_are_measured_once_and_kept(tmp_path: Path) -> None:
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
