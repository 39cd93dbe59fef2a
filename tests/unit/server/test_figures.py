"""What the benchmarks of the server require: they notice what they are there to notice."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import psoup_claims as claims
from bench.server_answers import difference
from bench.server_load import TOLD_SCHEMA, trades

QUERIES = pa.table({"_query": [1, 2], "sym": ["s0", "s1"], "low": [0.0, 50.0]})
TABLE_2 = {
    1: {"none": 0.3940, "lazy": 0.0465, "eager": 0.0565},
    2: {"none": 0.4905, "lazy": 0.0240, "eager": 0.0210},
    4: {"none": 0.8255, "lazy": 0.0130, "eager": 0.0035},
}
"""The paper's, in ms, by number of predicates."""


def told(sent: Path, answers: list[tuple[int, int]]) -> pa.Table:
    """Return what queries are told: each the row of a number."""
    rows = pq.read_table(sent).to_pylist()
    spelt = [
        {**rows[number], "ts": rows[number]["ts"].isoformat(), "_query": query}
        for query, number in answers
    ]
    return pa.Table.from_pylist(spelt, TOLD_SCHEMA)


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    """Write down four rows: three of the first query, one of which the second wants too."""
    drawn = trades(4, 1, 0)
    rows = drawn.set_column(0, "symbol", pa.array(["s0", "s0", "s1", "s1"]))
    rows = rows.set_column(1, "price", pa.array([10.0, 20.0, 40.0, 60.0]))
    pq.write_table(rows, tmp_path / "sent")
    return tmp_path / "sent"


def test_answers_that_are_all_there_once_differ_in_nothing(sent: Path) -> None:
    found = difference(sent, told(sent, [(2, 3), (1, 1), (1, 0)]), QUERIES)

    assert (found.expected, found.total) == (3, 0)


@pytest.mark.parametrize(
    ("answers", "lost", "extra"),
    [
        ([(1, 0), (1, 0), (2, 3)], 1, 1),  # one is lost, another one comes twice
        ([(1, 0), (2, 1), (2, 3)], 1, 1),  # one is told to somebody else
        ([(1, 0), (1, 1), (2, 3), (2, 2)], 0, 1),  # one is no answer
    ],
)
def test_answers_are_compared_query_by_query_and_not_by_their_number(
    sent: Path, answers: list[tuple[int, int]], lost: int, extra: int
) -> None:
    found = difference(sent, told(sent, answers), QUERIES)

    assert (found.lost, found.extra) == (lost, extra)


def test_the_order_of_the_papers_own_table_holds() -> None:
    measured = {count: {name: {8: ms} for name, ms in each.items()}
                for count, each in TABLE_2.items()}  # fmt: skip

    assert all(each.ok for each in claims.table_2(measured, 8))


@pytest.mark.parametrize("policy", ["lazy", "eager"])
def test_one_policy_that_is_slower_than_nomat_breaks_the_order(policy: str) -> None:
    measured = {count: {name: {8: ms} for name, ms in each.items()}
                for count, each in TABLE_2.items()}  # fmt: skip
    measured[2][policy][8] = 0.5

    assert [each.case for each in claims.table_2(measured, 8) if not each.ok] == [
        "Table 2: NoMat slowest, 8 rows"
    ]


def test_another_one_that_takes_rows_faster_than_p_shared_breaks_the_order() -> None:
    lines = {
        "PSoup-P, index shared": {128: 900.0, 4_096: 100.0},
        "PSoup-P, index unshared": {128: 800.0, 4_096: 10.0},
        "PSoup-C, index shared": {128: 700.0, 4_096: 101.0},
    }

    assert [each.ok for each in claims.figure_9(lines)] == [False, True]
