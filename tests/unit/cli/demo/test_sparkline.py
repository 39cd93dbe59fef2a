"""Sparklines: nothing is lost in the cells, and outages are seen."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.cli.demo.sparkline import bounds, draw, totals
from millrace.cli.terminal import ASCII

EPOCHS = st.lists(
    st.tuples(st.floats(10, 20), st.floats(0.01, 5), st.floats(0, 1_000)), max_size=20
)


@given(EPOCHS)
def test_amounts_are_spread_and_not_lost(epochs: Sequence[tuple[float, float, float]]) -> None:
    found = totals(epochs, bounds(21.0, 30, 1.0))

    assert sum(found) == pytest.approx(sum(amount for _, _, amount in epochs))


def test_cells_stand_still_while_time_passes() -> None:
    assert bounds(7.1, 3, 1.0) == bounds(7.9, 3, 1.0) == [4.0, 5.0, 6.0, 7.0]


def test_an_outage_is_crossed_and_gaps_between_samples_are_held() -> None:
    cells = [0.0, 1.0, 2.0, 3.0, 4.0]

    line = draw([1.0, 0.0, 0.0, 1.0], cells, ASCII, style="", outage=(2.0, 3.0), held=True)

    assert line.plain == "==x="
