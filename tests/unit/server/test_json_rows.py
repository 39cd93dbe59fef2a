"""Rows as JSON: lists hold what columns do."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millrace.server.json_rows import instant_text, json_rows
from millrace.testing.serving import Served, trade

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
VALUES: list[tuple[pa.DataType, Any, Any]] = [
    (pa.timestamp("us", "UTC"), NOON, "2026-01-31T12:00:00.000000Z"),
    (pa.date32(), date(2026, 1, 31), "2026-01-31"),
    (pa.decimal128(5, 2), Decimal("1.50"), "1.50"),
    (pa.int64(), 1 << 60, str(1 << 60)),
    (pa.float64(), float("nan"), "NaN"),
    (pa.binary(), b"a", "YQ=="),
    (pa.string(), "a", "a"),
]


@pytest.mark.parametrize(("kind", "value", "spelt"), VALUES, ids=[str(e[0]) for e in VALUES])
def test_values_in_lists_are_spelt_as_others_are(kind: pa.DataType, value: Any, spelt: Any) -> None:
    plain = pa.table({"v": pa.array([value, None], kind)})
    lists = pa.table({"v": pa.array([[], [value, None], None, [value]], pa.list_(kind))})
    deep = pa.table({"v": pa.array([[[value], None, []], None], pa.list_(pa.list_(kind)))})

    assert [row["v"] for row in json_rows(plain)] == [spelt, None]
    assert [row["v"] for row in json_rows(lists)] == [[], [spelt, None], None, [spelt]]
    assert [row["v"] for row in json_rows(deep)] == [[[spelt], None, []], None]
    assert [row["v"] for row in json_rows(lists.slice(1, 2))] == [[spelt, None], None]
    json.dumps(json_rows(deep), allow_nan=False)


def test_lists_of_timestamps_are_answered(served: Served) -> None:
    served.push([trade("A", 1.0), trade("A", 2.0, 1)])
    served.until(lambda: served.get("/v1/stats").json()["rows"] == 2)

    [outcome] = served.sql("SELECT array_agg(ts) AS times FROM trades")

    assert outcome["rows"] == [
        {"times": ["2026-01-31T12:00:00.000000Z", "2026-01-31T12:00:01.000000Z"]}
    ]


def test_an_instant_beyond_the_calendar_is_a_number() -> None:
    assert instant_text(None) is None
    assert instant_text(0) == "1970-01-01T00:00:00.000000Z"
    assert instant_text(1 << 62) == f"{1 << 62} us"
    assert instant_text(-(1 << 63)) == f"{-(1 << 63)} us"


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize("far", [[], [1 << 40]])
def test_instants_of_rows_are_spelt_as_they_are_one_by_one(unit: str, far: list[int]) -> None:
    ticks = {"s": 1, "ms": 1_000, "us": 1_000_000}[unit]
    edges = [-62_135_596_800 * ticks, -1, 0, None, 253_402_300_800 * ticks - 1]
    times = [*edges, *(each * ticks for each in far)]

    told = json_rows(pa.table({"at": pa.array(times, pa.timestamp(unit, "UTC"))}))

    micros = [None if each is None else each * 1_000_000 // ticks for each in times]
    assert [row["at"] for row in told] == [instant_text(each) for each in micros]
