"""Cuts: found exactly where a list would be cut, and within the budget."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.state import cuts, run_layout
from millrace.state.cuts import StoredFences, choose_cut, rows_before
from millrace.state.memory_root import MemoryRoot
from millrace.state.run import write_runs
from millrace.state.store_state import Run

PLACE = st.tuples(st.integers(0, 9), st.integers(0, 5))
PLACES = st.lists(PLACE, min_size=1, max_size=60)


@pytest.fixture(scope="module", autouse=True)
def _small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (run_layout, cuts):
            patch.setattr(module, "BLOCK_ROWS", 8)
            patch.setattr(module, "FENCE_ROWS", 4)
        yield


def stored(root: MemoryRoot, id_: int, places: list[tuple[int, int]]) -> Run:
    keys, times = zip(*sorted(places), strict=True)
    table = pa.table({"_key": pa.array(keys, pa.uint64()), "_time": pa.array(times, pa.int64())})
    piece = write_runs(root, {"r": table}, epoch=id_, buckets=(0, 1024))["r"]
    return Run(id_, 0, id_, (piece,))


@settings(max_examples=80)
@given(st.lists(PLACE, min_size=2, max_size=60, unique=True), st.data())
def test_a_cut_is_located_as_in_a_list(places: list[tuple[int, int]], data: st.DataObject) -> None:
    root = MemoryRoot()
    places = sorted(places + places[::3])
    (piece,) = stored(root, 0, places).pieces
    at = data.draw(st.integers(0, bisect_left(places, places[-1]) - 1))
    if at:
        piece = piece.split(at, places[at])[1]
    key, time = data.draw(st.sampled_from([place for place in places if place > places[at]]))
    # A row itself, or a place in the gap before it.
    cut = max((key, time - data.draw(st.integers(0, 3))), (piece.low[0], piece.low[1] + 1))

    expected = bisect_left(places, cut)
    assert StoredFences(root).locate(piece, cut) == (expected, places[expected])


@settings(max_examples=80)
@given(st.lists(PLACES, min_size=1, max_size=5), st.integers(0, 100))
def test_slices_take_what_is_before_the_cut_within_the_budget(
    lists: list[list[tuple[int, int]]], budget_rows: int
) -> None:
    root = MemoryRoot()
    runs = [stored(root, at, places) for at, places in enumerate(lists)]
    fences = StoredFences(root)

    cut = choose_cut(runs, budget_rows, fences)
    taken = [rows_before(each, cut, fences) for each in runs]

    everything = sorted(place for places in lists for place in places)
    before = [place for place in everything if cut is None or place < cut]
    assert [each.rows for each in taken] == [
        sum(cut is None or place < cut for place in places) for places in lists
    ]
    assert before, "every slice goes forward"
    if budget_rows >= 4 * len(runs):
        assert len(before) <= max(budget_rows, everything.count(everything[0]))
