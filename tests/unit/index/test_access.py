"""Every access method against asking each box, and the contract that all of them keep."""

from __future__ import annotations

import inspect
from types import ModuleType

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.index import access
from millrace.index.access import METHODS, hashed, ranked_layout, stabbed
from millrace.index.access.access import END_CODE, NULL_CODE
from millrace.index.access.statistics import Arrays, Statistics
from millrace.kernels.arrays import Ints
from millrace.testing.oracle.boxes import Interval, matching_pairs

LEAST, LAST = NULL_CODE + 2, END_CODE - 2
ANY: Interval = (NULL_CODE, END_CODE)
SIZES = [0, 1, 2, 7, 63, 64, 65, 130]
BATCHES = [0, 1, 7, 64, 65]
N_COLUMNS = 3

CODES = st.integers(-9, 9) | st.sampled_from([NULL_CODE, LEAST, LEAST + 1, LAST - 1, LAST])
VALUES = st.integers(-9, 9) | st.sampled_from([LEAST, LAST])
INTERVALS = st.one_of(
    st.just(ANY),
    st.tuples(VALUES, st.just(END_CODE)),
    st.tuples(st.just(NULL_CODE + 1), VALUES),
    st.tuples(st.just(NULL_CODE), VALUES),  # or NULL
    st.tuples(VALUES, VALUES),  # often empty
    VALUES.map(lambda value: (value, value)),
    st.sampled_from([(NULL_CODE, NULL_CODE), (NULL_CODE + 1, END_CODE), (5, 4)]),
)
ONE_SIDED = st.one_of(
    st.just(ANY),
    st.tuples(VALUES, st.just(END_CODE)),
    st.tuples(st.just(NULL_CODE + 1), VALUES),
    st.tuples(st.just(NULL_CODE), VALUES),
)
KEYS = st.integers(-3, 3).map(lambda value: (value, value))
Box = list[Interval]


@st.composite
def boxes_with(
    draw: st.DrawFn,
    first: st.SearchStrategy[Interval],
    second: st.SearchStrategy[Interval] = INTERVALS,
    third: st.SearchStrategy[Interval] = INTERVALS,
) -> list[Box]:
    """Boxes drawn from a small pool, so that a large number is quick to draw and has ties."""
    a_box = st.tuples(first, second, third).map(list)
    pool = draw(st.lists(a_box, min_size=1, max_size=12))
    n = draw(st.sampled_from(SIZES))
    picks = np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(pool), n)
    return [pool[pick] for pick in picks]


@st.composite
def some_rows(draw: st.DrawFn) -> list[list[int]]:
    pool = draw(
        st.lists(st.lists(CODES, min_size=N_COLUMNS, max_size=N_COLUMNS), min_size=1, max_size=9)
    )
    n = draw(st.sampled_from(BATCHES))
    picks = np.random.default_rng(draw(st.integers(0, 99))).integers(0, len(pool), n)
    return [pool[pick] for pick in picks]


def bounds(boxes: list[Box], n_columns: int = N_COLUMNS) -> tuple[Ints, Ints]:
    ends = np.array(boxes, np.int64).reshape(-1, n_columns, 2).transpose(2, 1, 0)
    low, high = np.ascontiguousarray(ends[0]), np.ascontiguousarray(ends[1])
    return frozen(low), frozen(high)


def columns(rows: list[list[int]], n_columns: int = N_COLUMNS) -> Ints:
    return frozen(np.ascontiguousarray(np.array(rows, np.int64).reshape(-1, n_columns).T))


def frozen(array: Ints) -> Ints:
    array.flags.writeable = False
    return array


def frozen_all(arrays: Arrays) -> Arrays:
    for array in arrays.values():
        array.flags.writeable = False
    return arrays


def check(name: str, boxes: list[Box], rows: list[list[int]]) -> None:
    """Build, ask for pairs and for counts, and compare both with the definition."""
    method, codes = METHODS[name], columns(rows)
    low, high = bounds(boxes)
    if not method.possible(low, high):
        return
    arrays = frozen_all(method.build(low, high))
    expected = matching_pairs(boxes, rows)

    found_rows, found_boxes = method.pairs(arrays, codes)
    counts = np.full(len(boxes), 7, np.int32)
    method.count(arrays, codes, counts)

    assert found_rows.dtype == found_boxes.dtype == np.dtype(np.int32)
    assert sorted(zip(found_rows.tolist(), found_boxes.tolist(), strict=True)) == expected
    held = np.bincount([box for _, box in expected], minlength=len(boxes))
    assert (counts - 7).tolist() == held.tolist()


@pytest.mark.parametrize("name", METHODS)
@given(boxes=boxes_with(INTERVALS), rows=some_rows())
@example(boxes=[], rows=[])
@example(boxes=[[ANY] * 3] * 65, rows=[[NULL_CODE] * 3])
@example(boxes=[[(5, 4), ANY, ANY]], rows=[[5, 5, 5]])
def test_finds_what_asking_each_box_finds(
    name: str, boxes: list[Box], rows: list[list[int]]
) -> None:
    check(name, boxes, rows)


@pytest.mark.parametrize("name", METHODS)
@given(boxes=boxes_with(KEYS), rows=some_rows())
def test_finds_what_asking_finds_with_a_key(
    name: str, boxes: list[Box], rows: list[list[int]]
) -> None:
    check(name, boxes, rows)


@pytest.mark.parametrize("name", METHODS)
@given(boxes=boxes_with(KEYS, ONE_SIDED, st.just(ANY)), rows=some_rows())
@example(boxes=[[(1, 1), (NULL_CODE + 1, 5), ANY]], rows=[[1, NULL_CODE, 0]])
def test_finds_what_asking_finds_with_a_key_and_one_end(
    name: str, boxes: list[Box], rows: list[list[int]]
) -> None:
    check(name, boxes, rows)


@given(boxes=boxes_with(INTERVALS, ONE_SIDED, ONE_SIDED), rows=some_rows())
@example(
    boxes=[[ANY, (NULL_CODE, 5), ANY], [ANY, (NULL_CODE + 1, 5), ANY]], rows=[[0, NULL_CODE, 0]]
)
@example(boxes=[[ANY, (NULL_CODE + 1, 5), ANY]], rows=[[0, NULL_CODE, 0], [0, 5, 0]])
def test_bitmaps_by_rank_find_the_same(boxes: list[Box], rows: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranked_layout, "FEW", 0)
        patch.setattr(ranked_layout, "BLOCK_BOXES", 32)
        check("rank", boxes, rows)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_rows", [4096, 9000])
def test_counts_many_matches_with_nothing_to_check(name: str, n_rows: int) -> None:
    """One end a key: a hash then adds up whole spans instead of entries."""
    low, high, codes = random_family(300, n_rows, spread=1000, seed=7)
    low, high = low[:2].copy(), high[:2].copy()
    high[1, low[1] > NULL_CODE + 1] = END_CODE
    counts = np.zeros(300, np.int32)

    METHODS[name].count(METHODS[name].build(low, high), codes[:2], counts)

    held = (low[:, None] <= codes[:2, :, None]) & (codes[:2, :, None] <= high[:, None])
    assert counts.tolist() == held.all(axis=0).sum(axis=0).tolist()


@pytest.mark.parametrize("column", range(N_COLUMNS))
@given(boxes=boxes_with(INTERVALS), rows=some_rows())
@settings(max_examples=50)
def test_stabs_by_any_column(column: int, boxes: list[Box], rows: list[list[int]]) -> None:
    arrays = frozen_all(stabbed.build(*bounds(boxes), column=column))

    found = zip(*(part.tolist() for part in stabbed.pairs(arrays, columns(rows))), strict=True)

    assert sorted(found) == matching_pairs(boxes, rows)


def random_family(n: int, n_rows: int, *, spread: int, seed: int) -> tuple[Ints, Ints, Ints]:
    """A key, a range with one end or two, and a column that half of the boxes constrain."""
    random = np.random.default_rng(seed)
    low = np.full((3, n), NULL_CODE)
    high = np.full((3, n), END_CODE)
    low[0] = high[0] = random.integers(0, 20, n)
    ends = np.sort(random.integers(-spread, spread, (2, n)), axis=0)
    low[1] = np.where(random.random(n) < 0.4, NULL_CODE + 1, ends[0])
    high[1] = np.where(random.random(n) < 0.4, END_CODE, ends[1])
    asked = random.random(n) < 0.5
    low[2, asked] = random.integers(-spread, spread, asked.sum())
    codes = random.integers(-spread, spread, (3, n_rows))
    codes[0] = random.integers(-1, 21, n_rows)
    codes[:, random.random(n_rows) < 0.02] = NULL_CODE
    return frozen(low), frozen(high), frozen(codes)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("n_rows", [1025, 4096, 4097, 9000])
@pytest.mark.parametrize("spread", [10, 1900, 10**12])
def test_cuts_of_a_long_batch_do_not_matter(name: str, n_rows: int, spread: int) -> None:
    low, high, codes = random_family(300, n_rows, spread=spread, seed=n_rows)
    method = METHODS[name]
    arrays = frozen_all(method.build(low, high))
    held = ((low[:, None] <= codes[:, :, None]) & (codes[:, :, None] <= high[:, None])).all(axis=0)

    rows, boxes = method.pairs(arrays, codes)
    counts = np.zeros(300, np.int32)
    method.count(arrays, codes, counts)

    order = np.lexsort((boxes, rows))
    assert np.array_equal(np.stack([rows, boxes])[:, order], np.stack(np.nonzero(held)))
    assert counts.tolist() == held.sum(axis=0).tolist()


@pytest.mark.parametrize("name", [each for each in METHODS if each != "table"])
def test_many_distinct_ranges_agree(name: str) -> None:
    """More than 1,024 intervals a column: bitmaps are by rank, and blocks are several."""
    low, high, codes = random_family(70_000, 1500, spread=10**6, seed=1)
    method = METHODS[name]
    arrays = frozen_all(method.build(low, high))

    counts = np.zeros(70_000, np.int32)
    method.count(arrays, codes, counts)
    _, boxes = method.pairs(arrays, codes)

    held = np.zeros(70_000, np.int64)
    for row in range(codes.shape[1]):
        code = codes[:, row : row + 1]
        held += ((low <= code) & (code <= high)).all(axis=0)
    assert counts.tolist() == held.tolist()
    assert np.bincount(boxes, minlength=70_000).tolist() == held.tolist()


def test_a_table_is_not_possible_with_too_many_cuts() -> None:
    low, high, _ = random_family(70_000, 1500, spread=10**6, seed=1)

    assert not METHODS["table"].possible(low, high)


def methods_found() -> dict[str, ModuleType]:
    """Every module of the package that has a function `pairs`."""
    modules = dict(inspect.getmembers(access, inspect.ismodule))
    return {name: module for name, module in modules.items() if hasattr(module, "pairs")}


def test_every_access_method_is_in_the_table() -> None:
    assert sorted(map(id, methods_found().values())) == sorted(map(id, METHODS.values()))


@pytest.mark.parametrize("module", methods_found().values(), ids=methods_found())
def test_a_method_has_the_form_of_all_methods(module: ModuleType) -> None:
    forms = {
        "possible": ["low", "high"],
        "build": ["low", "high"],
        "pairs": ["arrays", "codes"],
        "count": ["arrays", "codes", "counts"],
        "work": ["arrays", "sample", "n_rows", "mode"],
    }
    for name, expected in forms.items():
        parameters = inspect.signature(getattr(module, name)).parameters.values()
        positional = [each.name for each in parameters if each.kind != each.KEYWORD_ONLY]
        assert positional == expected
    assert module.__doc__ is not None
    assert "Cost" in module.__doc__
    assert "Invariant" in module.__doc__


@pytest.mark.parametrize("name", METHODS)
def test_what_is_built_is_flat_arrays_and_starts_with_the_statistics(name: str) -> None:
    low, high, codes = random_family(130, 64, spread=50, seed=3)

    arrays = METHODS[name].build(low, high)

    assert all(type(each) is np.ndarray and each.flags.c_contiguous for each in arrays.values())
    assert Statistics.of(arrays).n == 130
    assert all(amount >= 0 for amount in METHODS[name].work(arrays, codes, 4096, "pairs"))


@pytest.mark.parametrize("name", METHODS)
def test_the_same_call_gives_the_same_order(name: str) -> None:
    low, high, codes = random_family(500, 3000, spread=50, seed=4)
    arrays = METHODS[name].build(low, high)

    first, second = METHODS[name].pairs(arrays, codes), METHODS[name].pairs(arrays, codes)

    assert all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


def test_a_hash_needs_a_column_of_points() -> None:
    points, ranges = bounds([[(1, 1), (0, 9), ANY]]), bounds([[(1, 2), (0, 9), ANY]])
    nulls = bounds([[(NULL_CODE, NULL_CODE), (0, 9), ANY]])

    assert hashed.possible(*points)
    assert not hashed.possible(*ranges)
    assert not hashed.possible(*nulls)


def test_one_row_among_a_million_rows_is_found_by_all() -> None:
    low, high = bounds([[(77, 77), (5, 5), ANY]])
    codes = np.zeros((3, 1_000_000), np.int64)
    codes[:, 654_321] = (77, 5, NULL_CODE)

    for method in METHODS.values():
        rows, boxes = method.pairs(method.build(low, high), codes)
        assert (rows.tolist(), boxes.tolist()) == ([654_321], [0])
