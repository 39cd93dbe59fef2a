"""Ranges of band joins: how far rows reach, how wide ranges are, and which rows go where."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from millrace.engine.laying import Ranges, laid_out, ranges_now
from millrace.lang.relational.bound import bind_relational
from millrace.plan.bands import CELL, HOME, Laid, banded
from millrace.plan.declared import Declared
from millrace.plan.push import Pushing
from millrace.plan.relations import StreamOf
from millrace.schema import Schema
from millrace.sharing.halo import slot_keys

NUMBERS = Schema.of("k int, x int, y double, ts timestamp")
DECLARED = Declared(dict.fromkeys("abc", NUMBERS))
TIMES = dict.fromkeys(DECLARED.streams, "ts")
PAIR = "SELECT a.k FROM a [RANGE 3 s], b [RANGE 4 s] WHERE "
TRIPLE = "SELECT a.k FROM a [RANGE 3 s], b [RANGE 4 s], c [RANGE 2 s] WHERE "
ITSELF = "SELECT p.k FROM a [RANGE 3 s] p, a [RANGE 3 s] q WHERE p.x - q.x BETWEEN :p AND :q"


NOBODY = pa.RecordBatch.from_pylist([{"p0": 0.0}])


def laid(text: str, *told: str) -> tuple[Laid, ...]:
    types = {"p": "double", "q": "double"}
    plan = bind_relational(text, DECLARED, views={}, times=TIMES, parameters=types).plan
    stream = Pushing(DECLARED).stream(StreamOf("istream", plan))  # type: ignore[arg-type]
    assert isinstance(stream, StreamOf)
    made = banded([stream], DECLARED, told or None)
    assert made is not None
    return made.laid


def ranges(text: str, *queries: tuple[float | None, float | None], known: Any = None) -> Ranges:
    columns = {f"p{at}": [each[at] for each in queries] for at in (0, 1)}
    schema = pa.schema([("p0", pa.float64()), ("p1", pa.float64())])
    return ranges_now(laid(text), pa.RecordBatch.from_pydict(columns, schema=schema), known)


@pytest.mark.parametrize(
    ("condition", "reach"),
    [
        ("a.x - b.x BETWEEN -5 AND 7", (-5, 7)),
        ("b.x - a.x BETWEEN -5 AND 7", (-7, 5)),
        ("abs(b.x - a.x) <= 3", (-3, 3)),
        ("abs(a.x - b.x - 10) <= 3", (7, 13)),
        ("a.x + 1 < b.x + 3 AND 2 - a.x <= 10 - b.x", (-8, 2)),
        ("a.x = b.x - 4", (-4, -4)),
        ("a.x - b.x BETWEEN -5 AND 7 AND a.x > b.x AND a.x < b.x + 100", (0, 7)),
        ("a.x < b.x + 9", (-math.inf, 9)),
    ],
)
def test_a_row_reaches_the_anchors_that_its_band_holds(
    condition: str, reach: tuple[float, float]
) -> None:
    assert ranges(PAIR + condition, (0, 0)).reaches == {"b": reach}


def test_reaches_of_several_steps_add_up() -> None:
    text = TRIPLE + "a.x - b.x BETWEEN 1 AND 2 AND b.x - c.x BETWEEN -10 AND 20"

    found = ranges_now(laid(text, "a.x"), NOBODY)

    assert found.reaches == {"b": (1, 2), "c": (-9, 22)}
    assert found.width == 62


def test_a_family_reaches_as_far_as_its_queries() -> None:
    text = PAIR + "a.x - b.x BETWEEN :p AND :q"

    assert ranges(text, (-5, 5), (0, 9), (7, 3)).reaches == {"b": (-5, 9)}
    assert ranges(text, (-5, 5), (None, 100)).reaches == {"b": (-5, 5)}
    assert ranges(text, (-5, math.nan)).reaches == {"b": (-5, math.inf)}
    assert ranges(text, (math.inf, 5)).reaches == {"b": (-math.inf, 5)}
    assert ranges(text, (7, 3)).reaches == {"b": (math.inf, -math.inf)}


def test_how_wide_ranges_are_is_decided_once() -> None:
    text = PAIR + "a.x - b.x BETWEEN :p AND :q"

    first = ranges(text, (-5, 5))
    later = ranges(text, (-500, 500), known=first.to_json())

    assert (first.width, later.width) == (20, 20)
    assert later.reaches == {"b": (-500, 500)}
    assert Ranges.from_json(later.to_json()) == later


def test_sums_of_doubles_reach_a_little_farther() -> None:
    text = TRIPLE + "a.y - b.y BETWEEN 1e17 AND 1e17 AND b.y - c.y BETWEEN -1e17 AND -1e17"

    low, high = ranges_now(laid(text, "a.y"), NOBODY).reaches["c"]

    assert low <= -16 < 16 <= high


def rows(*values: float | None) -> pa.RecordBatch:
    return pa.record_batch(
        {"k": pa.array(range(len(values)), pa.int32()), "x": pa.array(values, pa.int32())}
    )


def test_anchors_are_in_one_range_and_others_in_all_that_they_reach() -> None:
    plan, found = laid(PAIR + "abs(a.x - b.x) <= 5"), ranges(PAIR + "abs(a.x - b.x) <= 5", (0, 0))
    keys = slot_keys(64)

    anchors, at = laid_out(rows(3, None, 25), plan[0], found)
    others, places = laid_out(rows(None, 3, 10, 18), plan[1], found)

    assert (at.tolist(), places.tolist()) == ([0, 2], [1, 1, 2, 3, 3])
    assert anchors.column(CELL).to_pylist() == keys[[0, 1]].tolist()
    assert others.column(CELL).to_pylist() == keys[[63, 0, 0, 0, 1]].tolist()
    assert others.column("k").to_pylist() == [1, 1, 2, 3, 3]


def test_a_stream_that_is_both_is_marked_where_it_is_at_home() -> None:
    plan, found = laid(ITSELF), ranges(ITSELF, (10, 20))

    copied, at = laid_out(rows(5, None, 45), plan[0], found)

    home = np.array(copied.column(HOME).to_pylist())
    assert at[home].tolist() == [0, 2]
    assert len({*zip(at.tolist(), copied.column(CELL).to_pylist(), strict=True)}) == len(at)


def test_without_rows_there_is_nothing() -> None:
    for text in (PAIR + "a.x < b.x", ITSELF):
        for each in laid(text):
            copied, at = laid_out(rows(), each, ranges(text, (0, 1)))
            assert copied.num_rows == len(at) == 0
