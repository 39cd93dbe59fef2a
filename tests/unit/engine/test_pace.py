"""Pace: epochs of a source with a backlog come close to the target and stay below it."""

from __future__ import annotations

import pytest

from millrace.engine.pace import FIRST_LIMIT, LEAST, Pace
from millrace.engine.settings import Settings
from millrace.engine.statistics import EpochStatistics
from millrace.time import SECOND


def epoch(rows: int, seconds: float, stream: str = "s", width: int = 10) -> EpochStatistics:
    return EpochStatistics(
        0,
        0,
        0,
        spread=False,
        rows=rows,
        bytes=rows * width,
        rows_by_stream={stream: rows},
        seconds={"run": seconds},
    )


def simulate(pace: Pace, fixed: float, per_row: float, n_epochs: int) -> list[float]:
    """Run epochs of a source that always fills the limit; return how long each took."""
    taken = []
    for _ in range(n_epochs):
        rows = pace.limit("s")
        taken.append(fixed + per_row * rows)
        pace.follow(epoch(rows, taken[-1]))
    return taken


@pytest.mark.parametrize("fixed", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("per_row", [1e-8, 1e-6, 1e-4])
def test_it_settles_below_the_target_and_not_far_below(fixed: float, per_row: float) -> None:
    taken = simulate(Pace(Settings(target=SECOND)), fixed, per_row, 80)

    assert max(taken[-20:]) <= 1.0
    assert min(taken[-20:]) >= 0.55


def test_it_recovers_when_rows_become_dear_and_cheap_again() -> None:
    pace = Pace(Settings(target=SECOND))
    simulate(pace, 0.05, 1e-6, 40)
    rich = pace.limit("s")

    dear = simulate(pace, 0.05, 1e-4, 12)
    assert max(dear[3:]) <= 1.0
    simulate(pace, 0.05, 1e-6, 60)
    assert pace.limit("s") >= 0.7 * rich


def test_one_slow_epoch_is_no_reason_to_stop() -> None:
    pace = Pace(Settings(target=SECOND))
    pace.follow(epoch(10, 60.0))

    assert pace.limit("s") == LEAST
    assert min(simulate(pace, 0.01, 1e-6, 60)[-5:]) > 0.5


def test_a_source_that_does_not_fill_its_limit_changes_nothing() -> None:
    pace = Pace(Settings(target=SECOND))
    assert pace.follow(epoch(10, 0.01))  # it is known now
    assert not pace.follow(epoch(10, 0.01))

    assert pace.limits() == {"s": FIRST_LIMIT}
    assert pace.limit("never seen") == FIRST_LIMIT


def test_a_fixed_cost_beyond_the_target_does_not_starve_the_stream() -> None:
    pace = Pace(Settings(target=SECOND))
    taken = simulate(pace, 1.5, 1e-6, 60)

    assert pace.limit("s") > FIRST_LIMIT
    assert max(taken[-10:]) < 3.0

    assert max(simulate(pace, 0.1, 1e-6, 60)[-10:]) <= 1.0


def test_the_rows_of_an_epoch_fit_into_its_memory() -> None:
    pace = Pace(Settings(target=SECOND, memory=1 << 20))
    pace.follow(epoch(1_000, 0.01, "wide", width=1 << 10))
    assert pace.limit("wide") == 1 << 10
    pace.follow(epoch(1_000, 0.01, "also wide", width=1 << 10))
    assert pace.limits() == {"wide": 1 << 9, "also wide": 1 << 9}

    pace.aim(Settings(target=SECOND, memory=1 << 30))
    assert pace.limit("wide") == FIRST_LIMIT
    pace.aim(Settings(target=SECOND, memory=1))
    assert pace.limit("wide") == 1


def test_a_row_that_was_wide_once_is_forgotten_in_time() -> None:
    pace = Pace(Settings(target=SECOND, memory=1 << 20))
    pace.follow(epoch(10, 0.01, width=1 << 16))
    narrow = simulate(pace, 0.01, 1e-6, 200)

    assert len(narrow) == 200
    assert pace.limit("s") > 10_000
