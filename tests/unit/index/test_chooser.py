"""The chooser where the answer is beyond doubt; `bench/fit_access.py` measures its regret."""

from __future__ import annotations

import time

import numpy as np
import pytest

from millrace.index.access import METHODS
from millrace.index.access.access import END_CODE, NULL_CODE
from millrace.index.access.statistics import Arrays, Statistics
from millrace.index.chooser import PRICES, SAMPLE_ROWS, choose, predicted
from millrace.kernels.arrays import Ints

N_FAMILIES = 12
MODES = ("pairs", "count")


def built(low: Ints, high: Ints) -> dict[str, Arrays]:
    return {
        name: method.build(low, high)
        for name, method in METHODS.items()
        if method.possible(low, high)
    }


def sample_of(codes: Ints) -> Ints:
    return np.ascontiguousarray(codes[:, :SAMPLE_ROWS])


def random_family(seed: int) -> tuple[Ints, Ints, Ints]:
    """A key perhaps, and ranges of some width over few values or many."""
    random = np.random.default_rng(seed)
    n, n_rows = int(10 ** random.uniform(2, 3.5)), int(random.choice([64, 700]))
    n_columns, spread = int(random.integers(1, 4)), int(random.choice([50, 10**6]))
    low = random.integers(0, spread, (n_columns, n))
    high = low + random.integers(0, max(1, spread // 20), (n_columns, n))
    if seed % 2:
        high[0] = low[0] = random.integers(0, 30, n)
    open_ended = random.random((n_columns, n)) < 0.1
    high[open_ended & (low < high)] = END_CODE
    codes = random.integers(0, spread, (n_columns, n_rows))
    codes[0] %= 40
    return low, high, codes


@pytest.mark.parametrize("seed", range(N_FAMILIES))
def test_the_choice_does_not_change_the_answer(seed: int) -> None:
    low, high, codes = random_family(seed)
    candidates = built(low, high)
    chosen = choose(candidates, sample_of(codes), codes.shape[1], "pairs")
    answers = {}
    for name in candidates:
        method = choose(candidates, sample_of(codes), codes.shape[1], "pairs", forced=name)
        assert method == name
        rows, boxes = METHODS[method].pairs(candidates[method], codes)
        counts = np.zeros(low.shape[1], np.int32)
        METHODS[method].count(candidates[method], codes, counts)
        answers[name] = (sorted(zip(rows.tolist(), boxes.tolist(), strict=True)), counts.tolist())

    assert all(answer == answers[chosen] for answer in answers.values())


@pytest.mark.parametrize("mode", MODES)
def test_a_key_with_few_boxes_each_is_looked_up(mode: str) -> None:
    random = np.random.default_rng(1)
    low = np.stack([random.integers(0, 5000, 20_000), random.integers(0, 10**6, 20_000)])
    high = np.stack([low[0], np.full(20_000, END_CODE)])
    codes = np.stack([random.integers(0, 5000, 4096), random.integers(0, 10**5, 4096)])

    assert choose(built(low, high), sample_of(codes), 4096, mode) == "hash"


def test_counting_wide_one_sided_ranges_goes_box_by_box() -> None:
    random = np.random.default_rng(2)
    low = np.where(
        random.random((5, 10_000)) < 0.5, random.integers(0, 100, (5, 10_000)), NULL_CODE
    )
    codes = random.integers(0, 100, (5, 4096))

    assert choose(built(low, np.full_like(low, END_CODE)), codes, 4096, "count") == "rank"


@pytest.mark.parametrize("mode", MODES)
def test_one_row_among_many_narrow_ranges_goes_down_a_tree(mode: str) -> None:
    random = np.random.default_rng(3)
    low = random.integers(0, 10**9, (1, 100_000))
    high = low + random.integers(0, 10**4, (1, 100_000))
    codes = random.integers(0, 10**9, (1, SAMPLE_ROWS))

    assert choose(built(low, high), codes, 1, mode) == "stab"


@pytest.mark.parametrize("mode", MODES)
def test_many_rows_and_wide_ranges_do_not_go_down_a_tree(mode: str) -> None:
    random = np.random.default_rng(4)
    low = random.integers(0, 10**6, (3, 20_000))
    codes = random.integers(0, 10**6, (3, 4096))
    costs = predicted(built(low, low + 500_000), sample_of(codes), 4096, mode)

    assert min(costs["rank"], costs["block"]) < costs["stab"] / 2


def test_a_method_that_was_not_built_cannot_be_forced() -> None:
    low, high, codes = random_family(0)
    candidates = {"block": METHODS["block"].build(low, high)}

    assert choose(candidates, sample_of(codes), 64, "pairs", forced="hash") == "block"


def test_a_sample_may_be_empty() -> None:
    low, high, codes = random_family(1)

    assert choose(built(low, high), codes[:, :0], 0, "count") in METHODS


@pytest.mark.parametrize("mode", MODES)
def test_every_amount_of_work_has_a_price(mode: str) -> None:
    low, high, codes = random_family(1)
    costs = predicted(built(low, high), sample_of(codes), 64, mode)

    assert set(costs) <= set(PRICES["pairs"]) == set(PRICES["count"]) == set(METHODS)
    assert all(cost > 0 for cost in costs.values())


def test_a_choice_among_many_boxes_is_quick() -> None:
    random = np.random.default_rng(5)
    low = random.integers(0, 10**9, (2, 300_000))
    low[0] %= 10_000
    high = np.stack([low[0], low[1] + 10**6])
    codes = random.integers(0, 10**4, (2, SAMPLE_ROWS))
    candidates = built(low, high)
    choose(candidates, codes, 4096, "pairs")

    times = []
    for _ in range(5):
        start = time.process_time()
        choose(candidates, codes, 4096, "pairs")
        times.append(time.process_time() - start)

    assert min(times) < 0.005  # 0.3 ms when the machine is idle


def test_statistics_survive_being_stored() -> None:
    statistics = Statistics(n=5, n_words=1, n_columns=2, n_cuts=7, column=1)

    assert Statistics.of({"statistics": statistics.stored()}) == statistics
