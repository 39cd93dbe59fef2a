"""Answers over HTTP are those of a session in this process, for all types."""

from __future__ import annotations

import tempfile
import time
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import millrace
from millrace.engine.local import LocalRun
from millrace.schema import Schema
from millrace.testing.server_process import ServerProcess

KINDS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-(2**7), 2**7 - 1),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(38, 9)": st.decimals(-(10**28), 10**28, places=9),
    "text": st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    "binary": st.binary(),
    "date": st.dates(),
    "timestamp": st.datetimes(
        datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)  # noqa: DTZ001
    ),
}  # fmt: skip
COLUMNS = Schema.of(", ".join(f"c{at} {kind}" for at, kind in enumerate(KINDS)))
DECLARED = Schema((*Schema.of("n bigint, ts timestamp"), *COLUMNS))
ROWS = st.lists(
    st.tuples(*(st.none() | values for values in KINDS.values())), min_size=1, max_size=8
)
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
EXTREMES = (
    True, -(2**7), 2**15 - 1, -(2**31), 2**63 - 1, float("nan"), float("-inf"), None,
    "größe\u200d🌊\n\t\"'\\", b"\0\xff", NOON.date(), NOON + timedelta(microseconds=1),
)  # fmt: skip


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = [pa.array([row[at] for row in rows], each.type) for at, each in enumerate(COLUMNS)]
    times = [NOON + timedelta(seconds=at) for at in range(len(rows))]
    numbers = [pa.array(range(len(rows)), pa.int64()), pa.array(times, pa.timestamp("us", "UTC"))]
    return pa.table([*numbers, *columns], names=DECLARED.names)


def of_a_session(rows: pa.Table) -> pa.Table:
    with millrace.Session(tempfile.mkdtemp(), threads=False) as session:
        session.stream("all_types", millrace.Feed(DECLARED), time="ts")
        query = session.query("SELECT * FROM all_types", name="q")
        cast("LocalRun", session.start()).feed(all_types=rows)
        return query.results()


def plain(table: pa.Table) -> pa.Table:
    return table.select(list(DECLARED.names)).combine_chunks()


def same(one: pa.Table, other: pa.Table) -> bool:
    """Compare tables in which NaN equals itself."""
    if not one.schema.equals(other.schema):
        return False
    return repr(one.to_pylist()) == repr(other.to_pylist())


@settings(max_examples=5)
@given(ROWS)
@example([EXTREMES, tuple(None for _ in KINDS)])
def test_values_of_all_types_are_those_of_a_session(
    server: ServerProcess, rows: list[tuple[Any, ...]]
) -> None:
    given_rows, stream = table_of(rows), f"t{uuid4().hex[:10]}"
    with millrace.connect(server.url) as client:
        client.stream(stream, DECLARED, time="ts")
        query = client.query(f"SELECT * FROM {stream}", name=f"q_{stream}")
        changes = query.changes(timeout=20)

        client.push(stream, given_rows)
        told = next(changes)
        found = query.results().to_arrow()
        asked = client.sql(f"SELECT * FROM q_{stream}").to_arrow()
        outcome = client.execute(f"SELECT * FROM q_{stream}")[0].result
        query.drop()

    expected = plain(of_a_session(given_rows))
    assert same(plain(found), expected)
    assert same(plain(told.to_arrow()), expected)
    assert same(plain(asked), expected)
    assert outcome is not None
    assert same(plain(outcome.to_arrow()), expected)


@pytest.mark.slow
def test_a_large_result_comes_whole(server: ServerProcess) -> None:
    n_rows, stream = 150_000, f"t{uuid4().hex[:10]}"
    seconds = pa.array([NOON + timedelta(milliseconds=n) for n in range(n_rows)])
    with millrace.connect(server.url) as client:
        client.stream(stream, "n bigint, ts timestamp", time="ts")
        query = client.query(f"SELECT n FROM {stream}", name=f"q_{stream}", keep=n_rows)
        changes = query.changes(timeout=30)

        assert client.push(stream, {"n": range(n_rows), "ts": seconds}) == n_rows

        ends = time.monotonic() + 60
        while len(query.results()) < n_rows and time.monotonic() < ends:
            time.sleep(0.1)
        assert query.results()["n"].to_pylist() == list(range(n_rows))
        told: list[int] = []
        for result in islice(changes, 1_000):
            told += result["n"].to_pylist()
            if len(told) >= n_rows:
                break
        assert told == list(range(n_rows))
