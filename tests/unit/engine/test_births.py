"""Births of a family's queries: when they begin, what they see, and when they are of age."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.engine.births import ELDEST, Birth, Births
from millrace.engine.query_rows import QueryRows, queries_spec
from millrace.operators.relational.slab import Elements
from millrace.state.memory_root import MemoryRoot

TYPES = [pa.int32()]


def queries() -> QueryRows:
    return QueryRows(queries_spec("family", TYPES), 0)


def add(table: QueryRows, sequence: int, qid: int, value: int) -> None:
    table.add(
        sequence, np.array([qid], np.uint64), pa.record_batch({"p0": pa.array([value], pa.int32())})
    )


def changes(
    births: Births, start: int, table: QueryRows, root: MemoryRoot
) -> list[tuple[int, ...]]:
    found = births.queries_at(start, root, table.publish(root), TYPES)
    assert found.copies is not None
    rows = found.rows.to_pylist()
    return sorted(
        (int(at), row["qid"], row["birth"], row["p0"], int(copies))
        for at, row, copies in zip(found.times, rows, found.copies, strict=True)
    )


def test_queries_of_one_epoch_begin_together_where_streams_are_complete() -> None:
    births = Births(None).after([3, 5], Birth(7, 0, None, 100), None)

    assert births.alive == (Birth(7, 0, None, 100),)
    assert births.settled(None, 200).first == 100


def test_a_birth_that_has_no_streams_yet_begins_with_its_first_element() -> None:
    births = Births(None).after([3], Birth(7, 0), None)

    assert births.settled(40, None).first is None
    assert births.settled(40, 40).first is None  # the instant is not complete
    assert births.settled(40, 40).settled(50, 60).first == 40


def test_the_first_ones_are_the_eldest_if_windows_forget() -> None:
    table, root = queries(), MemoryRoot()
    add(table, 3, 1, 10)
    births = Births(50).after([3], Birth(7, 0, None, 100), None)

    assert changes(births, 100, table, root) == [(100, 1, ELDEST, 10, 1)]
    assert births.births_at(100).rows.to_pylist() == [{"birth": ELDEST}]


def test_a_later_one_is_of_age_when_windows_have_forgotten_what_it_has_not_seen() -> None:
    table, root = queries(), MemoryRoot()
    add(table, 3, 1, 10)
    births = Births(50).after([3], Birth(7, 0, None, 100), None).taken(7)
    add(table, 8, 2, 20)

    later = births.after([3, 8], Birth(9, 4, 130, 120), 120)
    assert changes(later, 120, table, root) == [
        (120, 2, 9, 20, 1),
        (181, 2, ELDEST, 20, 1),
        (181, 2, 9, 20, -1),
    ]

    assert [each.until for each in later.taken(9).after([3, 8], Birth(12, 9), 180).alive] == [9]
    grown = later.taken(9).after([3, 8], Birth(12, 9), 181)
    assert (grown.alive, grown.grown) == ((), 9)


def test_a_query_that_goes_before_it_is_of_age_takes_back_what_was_to_come() -> None:
    table, root = queries(), MemoryRoot()
    add(table, 3, 1, 10)
    add(table, 8, 2, 20)
    first = Births(50).after([3], Birth(7, 0, None, 100), None).taken(7)
    births = first.after([3, 8], Birth(9, 4, None, 120), 120).taken(9)
    table.publish(root)
    table.remove(11, np.array([2], np.uint64))

    births = births.after([3], Birth(11, 6, None, 140), 140)

    assert changes(births, 140, table, root) == [
        (140, 2, 9, 20, -1),
        (170, 2, ELDEST, 20, -1),
        (170, 2, 9, 20, 1),
    ]
    assert [each.until for each in births.gone] == [9]
    assert births.taken(11).gone == ()


def test_a_query_that_came_and_went_between_two_slabs_was_never_there() -> None:
    table, root = queries(), MemoryRoot()
    add(table, 3, 1, 10)
    add(table, 4, 2, 20)
    table.remove(5, np.array([2], np.uint64))
    births = Births(None).after([3], Birth(7, 0, None, 100), None)

    assert changes(births, 100, table, root) == [(100, 1, 7, 10, 1)]
    assert table.born == (3,)


def test_an_element_comes_once_for_each_birth_that_sees_it() -> None:
    births = Births(None, (Birth(3, 0, None, 1), Birth(7, 2, None, 5), Birth(9, 3)))
    rows = pa.record_batch({"v": [10, 20, 30]})
    elements = Elements(rows, np.array([1, 5, 6]))

    seen = births.seen(elements, np.array([0, 2, 3]))

    assert [(row["v"], row["#birth"]) for row in seen.rows.to_pylist()] == [
        (10, 3),
        (20, 3),
        (20, 7),
        (30, 3),
        (30, 7),
    ]


def test_births_are_spelt_and_read() -> None:
    births = Births(
        5, (Birth(3, 0, None, 1), Birth(7, 2, 4, None, 6)), (Birth(2, 0, 1, 1),), 3, 4, 2
    )

    assert Births.from_json(births.to_json()) == births
