"""The verdict finds what is missing, what came twice, and what nobody wrote."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from millrace.cli.demo.verdict import answers, compare

BAGS = st.lists(st.integers(0, 5))


@given(BAGS, BAGS)
def test_it_is_right_if_and_only_if_the_bags_are_equal(due: list[int], found: list[int]) -> None:
    assert compare("x", due, found).right is (Counter(due) == Counter(found))


@given(BAGS, BAGS)
def test_its_numbers_add_up(due: list[int], found: list[int]) -> None:
    finding = compare("x", due, found)

    assert finding.found == finding.due - finding.missing + finding.twice + finding.foreign


def test_hidden_files_are_not_answers(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "_late": [False, True]})
    pq.write_table(table, tmp_path / "part-000000000000-000000000004.parquet")
    pq.write_table(table, tmp_path / ".parquet-0123456789ab.tmp")

    assert answers(tmp_path) == [(1, False), (2, True)]


def test_a_query_without_answers_has_no_folder(tmp_path: Path) -> None:
    assert answers(tmp_path / "none") == []
