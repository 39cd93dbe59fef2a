"""Windows of many sizes at ticks against the definition: each window on its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.operators.relational import sized
from millrace.operators.relational.sized import SizedTotals, Sizes
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.state import MemoryState
from millrace.operators.relational.timed import OPEN, Timed, rows_of
from millrace.operators.relational.totals import Totals
from millrace.plan.expressions import Column
from millrace.plan.relations import Aggregate

NUMBERS = st.sampled_from([0.1, 1e300, -1e300, 1e-200, 3.0, math.inf, -math.inf, math.nan, None])
ELEMENTS = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["a", "b", None]), NUMBERS, st.integers(0, 1)),
    max_size=25,
)
WINDOWS = st.lists(st.tuples(st.integers(0, 35), st.integers(0, 1)), min_size=1, max_size=6)
TICKS = st.lists(st.integers(0, 30), max_size=4, unique=True).map(sorted)


@pytest.mark.parametrize(("cells", "answers"), [(1 << 21, 1 << 19), (1, 1)])
@given(elements=ELEMENTS, windows=WINDOWS, ticks=TICKS)
def test_each_window_holds_what_it_would_alone(
    cells: int, answers: int, elements: list[Any], windows: list[Any], ticks: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sized, "CELLS_AT_ONCE", cells)
        patch.setattr(sized, "ANSWERS_AT_ONCE", answers)

        found = told(elements, windows, ticks)

    assert sorted(found, key=repr) == sorted(expected(elements, windows, ticks), key=repr)


def told(elements: list[Any], windows: list[Any], ticks: list[int]) -> list[tuple[Any, ...]]:
    times, keys, values, sights = (
        (list(each) for each in zip(*elements, strict=True)) if (elements) else ([], [], [], [])
    )
    rows = rows_of(
        [pa.array(keys, pa.string()), pa.array(values, pa.float64())], ["k", "v"], len(times)
    )
    timed = Timed(rows, ints(times), np.full(len(times), OPEN), np.ones(len(times), np.int64))
    sizes = Sizes(
        ints([each[0] for each in windows]),
        ints([each[1] for each in windows]),
        np.ones((len(windows), len(ticks)), np.bool_),
    )
    aggregates = (Aggregate("n", "count"), Aggregate("s", "sum", Column("v")))
    types, operands = (pa.int64(), pa.float64()), (None, pa.float64())
    key_rows = rows.select(["k"])
    totals = Totals("t", key_rows.schema, aggregates, types, operands)
    slab = Slab(0, 31, {}, {}, MemoryState())
    groups, pieces = SizedTotals(totals).told(
        timed, key_rows, ints(sights), sizes, ints(ticks), slab
    )
    named = groups.column(0).to_pylist()
    found = []
    for piece in pieces:
        counts, sums = (piece.answers[name].to_pylist() for name in ("n", "s"))
        for at, (window, group, tick) in enumerate(
            zip(piece.windows, piece.groups, piece.times, strict=True)
        ):
            found.append((int(tick), int(window), named[group], counts[at], same(sums[at])))
    return found


def expected(elements: list[Any], windows: list[Any], ticks: list[int]) -> list[tuple[Any, ...]]:
    """Take each tick, window and group on its own."""
    found = []
    for tick in ticks:
        for number, (size, sight) in enumerate(windows):
            seen = [
                (key, value)
                for at, key, value, mine in elements
                if tick - size <= at <= tick and mine == sight
            ]
            for group in {key for key, _ in seen}:
                values = [value for key, value in seen if key == group]
                found.append((tick, number, group, len(values), same(total(values))))
    return found


def total(values: list[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    if not known:
        return None
    if any(map(math.isnan, known)) or {math.inf, -math.inf} <= set(known):
        return math.nan
    infinite = [each for each in known if math.isinf(each)]
    return infinite[0] if infinite else math.fsum(known)


def same(value: float | None) -> Any:
    return "NaN" if value is not None and math.isnan(value) else value


def ints(values: list[int]) -> np.ndarray:
    return np.array(values, np.int64)
