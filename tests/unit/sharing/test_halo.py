"""Band joins over shards: every pair that a query takes meets in exactly one of them."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.sharing import halo
from millrace.sharing.halo import Cells, turned
from millrace.testing.oracle.band_joins import Band, Number, in_band

WHOLE = st.integers(-30, 30) | st.sampled_from([2**62 - 1, -(2**62) + 1])
TENTHS = st.integers(-40, 40).map(lambda tenths: tenths / 10) | st.sampled_from(
    [1e300, -1e300, 0.1 + 0.2, math.inf, -math.inf, math.nan]
)
WIDTHS = st.sampled_from([1, 3, 7, 1000, 0.1, 0.3, 2.5, 1e-3])


def epochs(numbers: st.SearchStrategy[Number], ends: st.SearchStrategy[Number]) -> Any:
    rows, bands = st.lists(numbers, max_size=5), st.lists(st.tuples(ends, ends), max_size=3)
    return st.lists(st.tuples(rows, rows, bands), max_size=4)


BY_KIND = epochs(WHOLE, st.integers(-20, 20)) | epochs(
    TENTHS, st.integers(-30, 30).map(lambda tenths: tenths / 10) | st.sampled_from([math.inf, -1e9])
)


Numbered = list[tuple[int, Number]]


class World:
    """Two streams of rows in shards, and how often pairs met that a band of their epoch took."""

    def __init__(self, width: float, n_shards: int) -> None:
        self.met: Counter[tuple[int, int]] = Counter()
        self.wanted: set[tuple[int, int]] = set()
        self._cells = Cells(width)
        self._n_shards = n_shards
        self._shards: list[list[Numbered]] = [[[] for _ in range(n_shards)] for _ in range(2)]
        self._rows: list[Numbered] = [[], []]

    def epoch(self, lefts: list[Number], rights: list[Number], bands: list[Band]) -> None:
        firsts = [len(rows) for rows in self._rows]
        new = [
            list(enumerate(values, first))
            for first, values in zip(firsts, (lefts, rights), strict=True)
        ]
        self._rows = [rows + more for rows, more in zip(self._rows, new, strict=True)]
        self.wanted |= {
            (number, other)
            for number, left in self._rows[0]
            for other, right in self._rows[1]
            if number >= firsts[0] or other >= firsts[1]
            if any(in_band(band, right, left) for band in bands)
        }
        self._visit(1, new[1], bands)  # the right of this epoch meets the left of earlier ones,
        self._rest(1, new[1])
        self._visit(0, new[0], bands)  # and the left all of the right
        self._rest(0, new[0])

    def _place(self, cells: np.ndarray) -> np.ndarray:
        return (cells * 7919 + 13) % self._n_shards

    def _rest(self, side: int, new: Numbered) -> None:
        values = np.array([value for _, value in new])
        for row, shard in zip(new, self._place(self._cells.home(values)), strict=True):
            self._shards[side][int(shard)].append(row)

    def _visit(self, side: int, new: Numbered, bands: list[Band]) -> None:
        real = [band for band in bands if band[0] <= band[1]] or [(1, 0)]
        ends = min(low for low, _ in real), max(high for _, high in real)
        values = np.array([value for _, value in new])
        visits = self._cells.visits(
            values, *(turned(*ends) if side else ends), self._place, self._n_shards
        )
        for driver, shard in np.transpose(visits).tolist():
            for row in self._shards[1 - side][shard]:
                (number, left), (other, right) = (new[driver], row)[:: -1 if side else 1]
                if any(in_band(band, right, left) for band in bands):
                    self.met[number, other] += 1


@given(BY_KIND, WIDTHS, st.integers(1, 9))
def test_every_pair_meets_exactly_once(each_epoch: Any, width: float, n_shards: int) -> None:
    world = World(width, n_shards)

    for lefts, rights, bands in each_epoch:
        world.epoch(lefts, rights, bands)

    assert world.met == Counter(dict.fromkeys(world.wanted, 1))


def test_a_driver_visits_the_shards_of_what_it_reaches_and_no_others() -> None:
    cells = Cells(10)

    drivers, shards = cells.visits(np.array([15, 40]), -3, 12, lambda each: each % 100, 100)

    assert list(zip(drivers.tolist(), shards.tolist(), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 3),
        (1, 4),
        (1, 5),
    ]


def test_a_driver_that_reaches_too_much_visits_all_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halo, "MOST_CELLS", 4)

    drivers, shards = Cells(1).visits(np.array([0]), -50, math.inf, lambda each: each % 3, 3)

    assert drivers.tolist() == [0, 0, 0]
    assert shards.tolist() == [0, 1, 2]


def test_nobody_visits_where_there_are_no_bands() -> None:
    drivers, shards = Cells(1).visits(np.array([5]), 1, 0, lambda each: each % 3, 3)

    assert drivers.size == shards.size == 0
