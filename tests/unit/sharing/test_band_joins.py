"""Band joins by every strategy, against every query asked of every pair of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.sharing import band_indexes, upkeep
from millrace.sharing.band_join import BandJoin
from millrace.sharing.band_rows import numbers_of, within_reach
from millrace.sharing.band_table import BandTable
from millrace.sharing.codes import GREATEST, LEAST
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Found
from millrace.sharing.hot_bands import HotBandJoin
from millrace.sharing.hotspots import Hotspots
from millrace.sharing.queries import BandQueries
from millrace.sharing.stored import Stored
from millrace.testing.oracle.band_joins import Band, Number, Row, band_triples

WAYS = ("q_outer", "d_outer", "merge_join", "ssi", "scattered", "hotspot")
N_KEYS = 3

WHOLE = st.integers(-12, 12) | st.sampled_from([2**62 - 1, -(2**62) + 1])
# Tenths are not exact in binary: low + base and value - base differ in the last bit now and then.
TENTHS = st.integers(-40, 40).map(lambda tenths: tenths / 10) | st.sampled_from([1e308, -1e308])
ENDS = {
    False: st.integers(-12, 12) | st.sampled_from([LEAST, GREATEST]),
    True: st.integers(-40, 40).map(lambda tenths: tenths / 10)
    | st.sampled_from([-math.inf, math.inf, math.nan]),
}


def codes_of(numbers: list[Number], *, doubles: bool) -> np.ndarray:
    if not doubles:
        return np.array(numbers, np.int64)
    bits = (np.array(numbers, np.float64) + 0.0).view(np.int64)
    codes = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
    return np.where(np.isnan(numbers), np.iinfo(np.int64).max - 2, codes)


def rows_of(numbers: st.SearchStrategy[Number]) -> st.SearchStrategy[list[Row]]:
    return st.lists(st.tuples(st.integers(0, N_KEYS - 1), numbers), max_size=14)


def bands_of(ends: st.SearchStrategy[Number]) -> st.SearchStrategy[list[Band]]:
    return st.lists(st.tuples(ends, ends), max_size=20)


@st.composite
def joins(draw: st.DrawFn) -> tuple[bool, list[Row], list[Row], list[Band]]:
    doubles = draw(st.booleans())
    rows = rows_of(TENTHS if doubles else WHOLE)
    return doubles, draw(rows), draw(rows), draw(bands_of(ENDS[doubles]))


def queries_of(bands: list[Band], *, doubles: bool) -> BandQueries:
    low, high = ([band[end] for band in bands] for end in (0, 1))
    return BandQueries(codes_of(low, doubles=doubles), codes_of(high, doubles=doubles))


def asked(drivers: list[Row], stored: list[Row], *, doubles: bool) -> tuple[Drivers, Stored]:
    keys, codes = _columns(drivers, doubles=doubles)
    order = np.argsort(keys, kind="stable")
    other_keys, other_codes = _columns(stored, doubles=doubles)
    nothing = np.zeros(len(stored), np.int64)
    return (
        Drivers(keys[order], codes[order], np.zeros(len(drivers), np.int64)),
        Stored.build(other_keys, other_codes, nothing, n_segments=N_KEYS),
    )


def _columns(rows: list[Row], *, doubles: bool) -> tuple[np.ndarray, np.ndarray]:
    keys = np.array([key for key, _ in rows], np.int64)
    return keys, codes_of([number for _, number in rows], doubles=doubles)


def triples_of(found: Found) -> list[tuple[int, ...]]:
    return [tuple(row) for piece in found.triples(7) for row in np.transpose(piece).tolist()]


def wanted(
    drivers: list[Row], stored: list[Row], bands: dict[int, Band], *, doubles: bool
) -> set[tuple[int, int, int]]:
    """What the oracle says; it has no NaN, which no difference of finite numbers is."""
    by_key = sorted(drivers, key=lambda row: row[0])
    real = {each: band for each, band in bands.items() if not math.isnan(band[0])}
    open_ended = {
        each: (low, math.inf if math.isnan(high) else high) for each, (low, high) in real.items()
    }
    return band_triples(by_key, stored, open_ended if doubles else real)


def check_found(found: Found, expected: set[tuple[int, int, int]]) -> None:
    triples, pairs, runs = triples_of(found), found.pairs(), found.runs()

    affected = {(driver, query) for driver, _, query in expected}
    named = list(zip(pairs.drivers.tolist(), pairs.queries.tolist(), strict=True))
    assert len(triples) == len(set(triples))
    assert set(triples) == expected
    assert len(named) == len(set(named))
    assert set(named) == affected
    assert (runs.stops > runs.firsts).all()


def strategy_of(way: str, *, doubles: bool) -> BandJoin | HotBandJoin:
    table = BandTable(doubles=doubles)
    if way != "hotspot":
        return BandJoin(getattr(band_indexes, way), table)
    return HotBandJoin(Hotspots(0.2, least_hot=2, checked=True), table)


@pytest.mark.parametrize("way", WAYS)
@given(joins())
@example((True, [(0, 0.1)], [(0, 0.3)], [(0.2, 0.2)]))  # 0.1 + 0.2 is not 0.3
@example((False, [(0, 0)], [(0, 5)], [(LEAST, 4), (6, GREATEST), (LEAST, GREATEST)]))
def test_every_way_finds_what_each_query_would(way: str, join: tuple[Any, ...]) -> None:
    doubles, drivers, stored, bands = join
    strategy = strategy_of(way, doubles=doubles)
    strategy.add(np.arange(len(bands)), queries_of(bands, doubles=doubles))
    strategy.rebuild()

    found = strategy.find(*asked(drivers, stored, doubles=doubles))

    check_found(found, wanted(drivers, stored, dict(enumerate(bands)), doubles=doubles))
    most = found.descriptors().at_most(len(drivers))
    counts = np.bincount(found.pairs().drivers, minlength=len(drivers))
    assert ((counts <= most) & (most <= 2 * counts)).all()
    if way not in {"ssi", "scattered", "hotspot"}:  # which may count a query twice
        assert (most == counts).all()


CHANGES = st.lists(
    st.tuples(st.sets(st.integers(0, 15), max_size=6), bands_of(ENDS[False]), st.booleans()),
    max_size=6,
)


@pytest.mark.parametrize("way", WAYS)
@given(CHANGES, rows_of(st.integers(-12, 12)), rows_of(st.integers(-12, 12)))
def test_queries_come_and_go_and_slots_are_used_again(
    way: str, changes: list[Any], drivers: list[Row], stored: list[Row]
) -> None:
    strategy = strategy_of(way, doubles=False)
    standing: dict[int, Band] = {}
    rows = asked(drivers, stored, doubles=False)

    for dropped, bands, rebuilt in changes:
        gone = dropped & standing.keys()
        strategy.drop(np.array(sorted(gone), np.int64))
        standing = {slot: band for slot, band in standing.items() if slot not in gone}
        free = [slot for slot in range(40) if slot not in standing][: len(bands)]
        strategy.add(np.array(free, np.int64), queries_of(bands[: len(free)], doubles=False))
        standing |= dict(zip(free, bands, strict=False))
        if rebuilt:
            strategy.rebuild()

        assert len(strategy) == len(standing)
        check_found(strategy.find(*rows), wanted(drivers, stored, standing, doubles=False))


@pytest.mark.parametrize("way", WAYS)
def test_every_way_is_expected_to_take_longer_for_more_rows_and_queries(way: str) -> None:
    strategy = strategy_of(way, doubles=False)
    few: list[Row] = [(0, 1)] * 3
    many: list[Row] = [(1, 1)] * 90
    drivers, stored = asked([(0, 5), (1, 5)], few + many, doubles=False)
    bands: list[Band] = [(each, each + 1) for each in range(40)]

    strategy.add(np.arange(20), queries_of(bands[:20], doubles=False))
    before = strategy.estimate(drivers, stored)
    strategy.add(np.arange(20, 40), queries_of(bands[20:], doubles=False))
    after = strategy.estimate(drivers, stored)

    assert 0 < before[0] < before[1]
    assert (before < after).all()


def test_an_index_is_built_anew_when_its_tail_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "AT_LEAST", 3)
    slots = upkeep.Upkeep()

    slots.add(np.arange(3))
    assert not slots.due
    slots.add(np.arange(3, 5))
    assert slots.due
    assert slots.settle().tolist() == [0, 1, 2, 3, 4]
    slots.drop(np.arange(3))
    assert not slots.due
    standing = slots.standing(np.array([1, 4]))
    assert standing is not None
    assert standing.tolist() == [False, True]
    slots.add(np.array([1]))
    assert slots.due
    assert slots.settle().tolist() == [1, 3, 4]
    assert slots.standing(np.array([1])) is None


def test_numbers_that_cannot_be_subtracted_are_beyond_reach() -> None:
    doubles = codes_of([0.0, -1e308, math.inf, -math.inf, math.nan], doubles=True)
    whole = codes_of([5, 2**62 - 1, 2**62, -(2**62)], doubles=False)

    assert within_reach(doubles, doubles=True).tolist() == [True, True, False, False, False]
    assert within_reach(whole, doubles=False).tolist() == [True, True, False, True]
    assert numbers_of(doubles, doubles=True)[:4].tolist() == [0.0, -1e308, math.inf, -math.inf]
