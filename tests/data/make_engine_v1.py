"""Write tests/data/engine-v1: a root whose registry is in its first form, and what it answered.

In that form the catalog held each query by itself: changes `add query`, `drop query`, `pause` and
`resume` by name, catalogs and snapshots with `queries`, decisions without `wanted`. The engine was
killed when the fourth epoch was decided and not committed, and its sink had made nothing public.

It was run once, with the millrace of commit 36c5952, and its output is kept: every later millrace
must open that root and go on. Do not run it again.

    PYTHONPATH=<src of 36c5952> python tests/data/make_engine_v1.py
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import millrace
from millrace import col, failpoints
from millrace.failpoints import InjectedCrash
from millrace.state.posix_root import PosixRoot

HERE = Path(__file__).parent
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def fussy(prices: pa.Array) -> pa.Array:
    """Raise for a price that is negative."""
    if pc.any(pc.less(prices, 0)).as_py():
        message = "a negative price"
        raise ValueError(message)
    return pc.greater(prices, 100)


def trades(epoch: int) -> pa.Table:
    """Return the rows of an epoch: prices around 100, one of which is negative in epoch 1."""
    prices = [90.0 + 10 * epoch, 101.5 + epoch, None, -1.0 if epoch == 1 else 120.0]
    times = [NOON + timedelta(minutes=epoch, seconds=each) for each in range(4)]
    return pa.table(
        {
            "symbol": ["ACME", "BOLT", "ACME", None],
            "price": pa.array(prices, pa.float64()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


def main() -> None:
    """Write the root and the JSON beside it."""
    ask: Any
    session = millrace.Session(PosixRoot(HERE / "engine-v1"))
    ask = session.query
    for name in ("trades", "quotes"):
        feed = millrace.Feed("symbol text, price double, ts timestamp")
        session.stream(name, feed, time="ts", delay="2 seconds", retain="1 hour")
    session.function("fussy", fussy, returns="boolean")
    ask("anew", millrace.select("trades", "symbol"))
    ask("dear", millrace.select("trades", "symbol", "price", where=col("price") > 100))
    ask("gone", millrace.select("trades", "symbol"))
    session.change({"do": "drop query", "name": "gone"})
    session.change({"do": "drop query", "name": "anew"})
    ask(
        "anew",
        millrace.select("trades", "price", where=(col("symbol") == "BOLT") | ~(col("price") < 95)),
    )
    ask("fussy", millrace.select("trades", "price", where=millrace.call("fussy", col("price"))))
    ask("resumed", millrace.select("trades", twice=col("price") > 110.5))
    for _ in range(31):
        session.change({"do": "pause", "name": "resumed"})
        session.change({"do": "resume", "name": "resumed"})
    ask("paused", millrace.select("trades"))
    session.change({"do": "pause", "name": "paused"})
    memory = millrace.MemorySink()
    session.sink(memory)
    session.sink(millrace.ParquetSink(HERE / "never", roll_epochs=99, roll_every="1 day"))
    run: Any = session.start()
    for epoch in range(3):
        run.feed(trades=trades(epoch))
    ask("late", millrace.select("quotes", "price", where=col("symbol").is_null()))
    memory.wait_rows(6 + 3 * 4)
    failpoints.arm("receipts.after", "raise")
    try:
        run.feed(trades=trades(3))
    except InjectedCrash:
        failpoints.disarm()
    answers = {
        name: memory.table(name).to_pylist()
        for name in ("dear", "anew", "fussy", "resumed")
        if memory.n_rows(name)
    }
    catalog: Any = session.engine.registry.catalog
    expected = {
        "answers": answers,
        "sequence": catalog.sequence,
        "qids": {name: each.qid for name, each in catalog.queries.items()},
        "texts": {name: str(each.selection) for name, each in catalog.queries.items()},
        "facts": dict(session.engine.manifest.facts),
        "stores": {name: each.rows for name, each in session.engine.manifest.stores.items()},
    }
    text = json.dumps(expected, indent=0, default=str, sort_keys=True)
    (HERE / "engine-v1.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
