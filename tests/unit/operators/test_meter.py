"""The meter: each operator gets the rows that it told, and the time that was its own."""

from __future__ import annotations

import time

from millrace.operators.relational.meter import Meter


def test_time_below_an_operator_is_not_its_own() -> None:
    meter = Meter()

    def scan() -> list[int]:
        time.sleep(0.02)
        return [1, 2, 3]

    def select() -> list[int]:
        return [each for each in meter.measure("scan", scan) if each > 1]

    assert meter.measure("select", select) == [2, 3]
    assert {name: done[0] for name, done in meter.done.items()} == {"scan": 3, "select": 2}
    assert meter.done["scan"][1] >= 0.02 > meter.done["select"][1] >= 0


def test_operators_side_by_side_are_told_apart() -> None:
    meter = Meter()

    def slow() -> list[int]:
        time.sleep(0.01)
        return [0]

    def side(name: str) -> list[int]:
        return meter.measure(name, slow)

    meter.measure("join", lambda: side("left") + side("right"))

    assert meter.done["left"][1] >= 0.01 <= meter.done["right"][1]
    assert meter.done["join"][0] == 2
    assert meter.done["join"][1] < 0.01


def test_what_is_read_again_is_counted_where_it_is_read() -> None:
    meter = Meter()

    def left() -> list[int]:
        return [*meter.again([1, 2]), 3]

    meter.measure("join", lambda: meter.again([0]) + meter.measure("left", left))

    assert {name: (done[0], done[2]) for name, done in meter.done.items()} == {
        "left": (3, 2),
        "join": (4, 1),
    }
