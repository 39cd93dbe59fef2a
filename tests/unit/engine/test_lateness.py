"""Lateness of batches against the definition, and the watermark.

`test_epoch.py` has the oracle of whole epochs; here is one task, and the edges.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engine.decision import Decision, Identity
from millrace.engine.lateness import Lateness, watermark
from millrace.engine.streams import StreamSpec
from millrace.engine.tally import NEVER, Segment
from millrace.schema import Schema

SCHEMA = Schema.of("part text, at bigint, ts timestamp")
KAFKA = StreamSpec("s", SCHEMA, "ts", 5, "part", ("at",))
PLAIN = StreamSpec("s", SCHEMA, "ts", 5)

Rows = list[tuple[str, int]]
SOME_ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=12)
CLOCKS = st.dictionaries(st.sampled_from("ab"), st.integers(10, 30))


def decision(clocks: dict[str, int], floor: int | None = None) -> Decision:
    marks = {} if floor is None else {"s": floor}
    return Decision(Identity("q", 0, "d"), 0, 1, 0, "c", {"s": clocks}, marks)


def judged(lateness: Lateness, spec: StreamSpec, rows: Rows, *, first: int = 0) -> list[bool]:
    listed = [{"part": part, "at": first + at, "ts": time} for at, (part, time) in enumerate(rows)]
    batch = pa.RecordBatch.from_pylist(listed, schema=spec.schema.to_arrow())
    times = np.array([time for _, time in rows], np.int64)
    verdicts: list[bool] = lateness.judge(batch, times, "", None).tolist()
    return verdicts


def late(rows: Rows, index: int, clocks: dict[str, int], floor: int) -> bool:
    """The definition: behind the earlier rows of the same partition, or behind the watermark."""
    part, time = rows[index]
    earlier = [each for name, each in rows[:index] if name == part]
    reached = max([clocks.get(part, NEVER), *earlier])
    return time < floor or time < reached - KAFKA.delay


@given(SOME_ROWS, st.integers(0, 12), CLOCKS, st.integers(0, 12))
def test_batches_of_a_task_are_judged_row_by_row(
    rows: Rows, at: int, clocks: dict[str, int], floor: int
) -> None:
    task = Lateness(KAFKA, decision(clocks, floor))

    verdicts = [*judged(task, KAFKA, rows[:at]), *judged(task, KAFKA, rows[at:], first=at)]

    assert verdicts == [late(rows, index, clocks, floor) for index in range(len(rows))]
    newest = {part: max(time for name, time in rows if name == part) for part, _ in rows}
    assert {each.partition: each.newest for each in task.segments()} == newest


@given(SOME_ROWS)
def test_without_an_order_the_sequence_within_an_epoch_does_not_matter(rows: Rows) -> None:
    mixed = sorted(rows)

    verdicts = [
        dict(zip(given_, judged(Lateness(PLAIN, decision({"": 20})), PLAIN, given_), strict=True))
        for given_ in (rows, mixed)
    ]

    assert verdicts[0] == verdicts[1]
    assert all(behind == (row[1] < 15) for row, behind in verdicts[0].items())


def test_a_segment_begins_at_the_first_row_that_has_a_time() -> None:
    task = Lateness(KAFKA, decision({"a": 100}))
    judged(task, KAFKA, [("a", 10), ("b", 7), ("a", 99)], first=40)

    assert list(task.segments()) == [Segment("a", [40], 99, 99), Segment("b", [41], 7, 7)]


def test_the_earliest_clock_of_all_makes_nothing_late() -> None:
    """It wrapped around: the delay does not fit below it."""
    task = Lateness(KAFKA, decision({}))

    assert judged(task, KAFKA, [("a", NEVER + 1), ("a", NEVER + 2), ("a", 3)]) == [False] * 3


@pytest.mark.parametrize(
    ("kind", "values", "places"),
    [
        ("text", ["x", None], ["x", ""]),
        ("bigint", [7, None], [7, NEVER]),
        ("date", [3, None], [3, NEVER]),
        ("timestamp", [5, None], [5, NEVER]),
    ],
)
def test_places_are_comparable_and_null_comes_first(
    kind: str, values: list[object], places: list[object]
) -> None:
    schema = Schema.of(f"part text, at {kind}, ts timestamp")
    spec = StreamSpec("s", schema, "ts", 0, "part", ("at",))
    task = Lateness(spec, decision({}))
    batch = pa.RecordBatch.from_arrays(
        [
            ["p", "q"],
            pa.array(values, schema.type_of("at")),
            pa.array([1, 1], schema.type_of("ts")),
        ],
        schema=schema.to_arrow(),
    )

    task.judge(batch, np.array([1, 1]), "", None)

    assert [each.begin for each in task.segments()] == [[place] for place in places]


@pytest.mark.parametrize(
    ("clocks", "idle", "previous", "expected"),
    [
        ({}, [], None, None),
        ({}, [], 7, 7),
        ({"a": 30, "b": 20}, [], None, 10),
        ({"a": 30, "b": 20}, ["b"], None, 20),
        ({"a": 30, "b": 20}, ["a", "b"], None, 20),
        ({"a": 30, "b": 20}, [], 15, 15),
    ],
)
def test_the_watermark_is_the_least_live_clock_less_the_delay_and_never_goes_back(
    clocks: dict[str, int], idle: list[str], previous: int | None, expected: int | None
) -> None:
    assert watermark(clocks, idle, delay=10, previous=previous) == expected
