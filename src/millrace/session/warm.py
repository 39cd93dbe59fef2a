"""Warming plans up: a plan of each kind over a few rows, so that every kernel is compiled."""

from __future__ import annotations

import tempfile

import pyarrow as pa

from millrace.engine.local import Feed, LocalRun
from millrace.session.session import Session

_COLUMNS = "k bigint, name text, v double, d decimal(10,2), ts timestamp"
_TEXTS = (
    "SELECT k, count(*) AS n, sum(v) AS s, avg(v) AS a, sum(k) AS w, sum(d) AS t, "
    "stddev_pop(v) AS sd, min(v) AS least, max(name) AS most FROM a [RANGE 4 us] GROUP BY k",
    "SELECT k, sum(v) AS s FROM a [RANGE 4 us SLIDE 2 us] GROUP BY k",
    "SELECT count(DISTINCT k) AS n, median(v) AS m, array_agg(k) AS l FROM a [ROWS 2]",
    "SELECT ISTREAM(a.k, b.v) FROM a [RANGE 4 us], b [RANGE 4 us] WHERE a.k = b.k",
    "SELECT a.k, b.v FROM a [RANGE 4 us] LEFT JOIN b [RANGE 4 us] ON a.k = b.k AND b.v > 1",
    "SELECT k FROM a [RANGE 4 us] EXCEPT SELECT k FROM b [RANGE 4 us]",
    "SELECT RSTREAM(k, count(*) AS n) EVERY 2 us FROM a [RANGE 4 us] GROUP BY k",
    "SELECT k, v FROM a [PARTITION BY k ROWS 2] ORDER BY v DESC LIMIT 2",
)


def warm_plans() -> None:
    """Run plans in a scratch directory; the first time on a machine this compiles kernels."""
    with (
        tempfile.TemporaryDirectory(prefix="millrace-warm-") as scratch,
        Session(scratch) as session,
    ):
        for name in ("a", "b"):
            session.stream(name, Feed(_COLUMNS), time="ts")
        for number, text in enumerate(_TEXTS):
            session.query(text, name=f"q{number}")
        run = session.start()
        assert isinstance(run, LocalRun), "a session without Spark runs here"
        for begin in range(0, 12, 3):
            run.feed(a=_rows(begin), b=_rows(begin))


def _rows(begin: int) -> pa.Table:
    times = pa.array(range(begin, begin + 3), pa.int64())
    columns = {
        "k": pa.array([1, 2, 1], pa.int64()),
        "name": ["a", "b", None],
        "v": [1.0, 1e300, None],
        "d": pa.array([1, 2, 3], pa.decimal128(10, 2)),
        "ts": times.cast(pa.timestamp("us", "UTC")),
    }
    return pa.table(columns)
