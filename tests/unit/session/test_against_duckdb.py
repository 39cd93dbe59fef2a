"""A second judge of whole selections: DuckDB asks the finished history what we asked the stream.

Both read the same texts. Left out is what they mean differently by definition: overflow and x / 0
(an error there, NULL here), and case beyond ASCII.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.index.access import METHODS
from millrace.reading.answers import answers
from millrace.schema import Schema
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.testing.bag import bag
from millrace.testing.strategies import batch_of

SCHEMA = Schema.of(
    "n bigint, o boolean, i int, b bigint, x double, m decimal(5,2), s text, d date, w timestamp"
)
MOMENT = datetime(2024, 2, 29, 12, tzinfo=UTC)
VALUES: dict[str, list[Any]] = {
    "o": [True, False],
    "i": [-(2**31), -2, -1, 0, 1, 2, 3, 2**31 - 1],
    "b": [-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1],
    "x": [-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1e300, math.inf, math.nan],
    "m": [Decimal(each) for each in ("-999.99", "-0.01", "0", "0.10", "0.11", "1", "999.99")],
    "s": ["", "a", "ab", "abc", "b", "A", "a%", "a_c", "é", "日本", "x'y"],
    "d": [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(2024, 3, 1)],
    "w": [datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), MOMENT],
}
CONSTANTS: dict[str, list[str]] = {
    "o": ["TRUE", "FALSE"],
    "i": ["0", "1", "-1", "1.5", "2.0", "2147483647", "2147483648", "-2147483648", "1e0"],
    "b": ["0", "9007199254740992", "9007199254740993", "9223372036854775807", "1.5", "2e0"],
    "x": ["0", "0.0", "0.1", "1", "2.5", "1e300", "-1.5", "CAST('NaN' AS double)"],
    "m": ["0", "0.10", "0.105", "1", "-0.01", "1000", "1e-1"],
    "s": ["''", "'a'", "'ab'", "'b'", "'é'", "'x''y'", "'日本'"],
    "d": ["DATE '1970-01-01'", "DATE '2024-02-29'", "DATE '2024-03-01'"],
    "w": ["TIMESTAMP '2024-02-29 12:00:00'", "TIMESTAMP '1970-01-01 00:00:00'"],
}
PATTERNS = ["'a%'", "'%b%'", "'%c'", "'a_'", "'%'", "''", "'a!%' ESCAPE '!'", "'_'", "'a%c'"]
TESTS = ["length(s) > 1", "x + 1 > 2.0", "i < b", "x = x", "CAST(i AS bigint) + 1 > 2", "m < x",
         "starts_with(s, 'a')", "coalesce(i, 0) = 0", "lower(s) = 'a'", "o", "x < i"]  # fmt: skip
COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
Row = dict[str, Any]


@st.composite
def atoms(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(sorted(CONSTANTS)))
    constant = st.sampled_from(CONSTANTS[column])
    match draw(st.sampled_from(["compare", "compare", "between", "in", "null", "like", "other"])):
        case "compare":
            return f"{column} {draw(st.sampled_from(COMPARISONS))} {draw(constant)}"
        case "between":
            word = draw(st.sampled_from(["BETWEEN", "NOT BETWEEN"]))
            return f"{column} {word} {draw(constant)} AND {draw(constant)}"
        case "in":
            word = draw(st.sampled_from(["IN", "NOT IN"]))
            some = draw(st.lists(constant | st.just("NULL"), min_size=1, max_size=3))
            return f"{column} {word} ({', '.join(some)})"
        case "null":
            return f"{column} IS {draw(st.sampled_from(['NULL', 'NOT NULL']))}"
        case "like":
            word = draw(st.sampled_from(["LIKE", "NOT LIKE"]))
            return f"s {word} {draw(st.sampled_from(PATTERNS))}"
        case _:
            return draw(st.sampled_from(TESTS))


CONDITIONS = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda e: f"({' '.join(e)})"),
        inner.map(lambda each: f"NOT ({each})"),
    ),
    max_leaves=5,
)


@st.composite
def given_rows(draw: st.DrawFn) -> list[Row]:
    names = list(VALUES)
    a_row = st.tuples(*(st.none() | st.sampled_from(VALUES[name]) for name in names))
    drawn = draw(st.lists(a_row, max_size=8))
    return [{"n": n, **dict(zip(names, row, strict=True))} for n, row in enumerate(drawn)]


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def streamed(
    rows: list[Row], texts: list[str], cut: int, access: str
) -> dict[int, Counter[tuple[str, ...]]]:
    """Ask standing queries over rows that come in two epochs; they are counted by the query."""
    settings_ = Settings(shards=1, spread="never", access=access)
    with Session(MemoryRoot(), threads=False, settings=settings_) as session:
        columns = Schema.of(f"{SCHEMA}, at timestamp")
        session.stream("t", Feed(columns), time="at")
        ids = session.queries(texts, into="all", keep=10_000)
        run = session.start()
        assert isinstance(run, LocalRun)
        timed = [{**row, "at": MOMENT} for row in rows]
        for part in (timed[:cut], timed[cut:]):
            run.feed(t=pa.Table.from_batches([batch_of(part, columns)]))
        engine = session.engine
        table = answers(engine.root, engine.manifest, engine.registry.catalog.feed("all"))
    found: dict[int, list[tuple[object, ...]]] = {number: [] for number in range(len(texts))}
    for row in table.to_pylist():
        found[ids.index(row["_query"])].append((row["n"], row["s"], row["x"]))
    return {number: bag(some) for number, some in found.items()}


@settings(max_examples=60)
@given(
    given_rows(),
    st.lists(CONDITIONS, min_size=1, max_size=6),
    st.integers(0, 8),
    st.sampled_from(["auto", *METHODS]),
)
@example([], ["i > 1"], 0, "auto")
def test_duckdb_finds_the_same_in_the_finished_history(
    database: duckdb.DuckDBPyConnection,
    rows: list[Row],
    conditions: list[str],
    cut: int,
    access: str,
) -> None:
    texts = [f"SELECT n, s, x FROM t WHERE {each}" for each in conditions]
    batch = batch_of(rows, SCHEMA)
    at = SCHEMA.names.index("w")
    history = batch.set_column(at, "w", batch.column(at).cast(pa.timestamp("us")))
    database.register("t", pa.Table.from_batches([history]))

    found = streamed(rows, texts, cut, access)

    for number, text in enumerate(texts):
        assert found[number] == bag(database.execute(text).fetchall()), text
