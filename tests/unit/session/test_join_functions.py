"""Functions in templates of joins: asked of what they are about, and once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.state.memory_root import MemoryRoot

TEXT = (
    "SELECT ISTREAM(s.symbol, s.price, a.body, s.ts AS quoted, a.ts AS written) "
    "FROM stocks [RANGE 1 HOUR] s, articles [RANGE 1 HOUR] a "
    "WHERE s.symbol = a.symbol AND dear(s.price, :least)"
)


def times(*values: int) -> pa.Array:
    return pa.array(values, pa.timestamp("us", "UTC"))


def test_a_function_of_one_side_is_called_once_for_each_of_its_rows_and_queries() -> None:
    asked: list[tuple[float, float]] = []

    def dear(price: pa.Array, least: pa.Array) -> pa.Array:
        asked.extend(zip(price.to_pylist(), least.to_pylist(), strict=True))
        return pc.greater(price, least)

    session = millrace.Session(MemoryRoot(), settings=Settings(spread="never"), threads=False)
    session.function("dear", dear, returns="boolean")
    session.stream("stocks", millrace.Feed("symbol int, price double, ts timestamp"), time="ts")
    session.stream("articles", millrace.Feed("symbol int, body text, ts timestamp"), time="ts")
    template = session.template("asked", TEXT, least="double", keep=100)
    template.insert({"least": [1.0, 5.0, 9.0]})
    run = session.start()
    assert isinstance(run, LocalRun)
    symbols = pa.array([1, 1, 1, 1, 2], pa.int32())
    run.feed(articles=pa.table({"symbol": symbols, "body": [*"abcde"], "ts": times(*range(5))}),
             stocks=pa.table({"symbol": pa.array([3], pa.int32()), "price": [0.0],
                              "ts": times(4)}))  # fmt: skip
    asked.clear()
    quote = {"symbol": pa.array([1, 2, 3], pa.int32()), "price": [6.0, 2.0, 0.0]}
    run.feed(stocks=pa.table({**quote, "ts": times(5, 6, 100)}),
             articles=pa.table({"symbol": pa.array([4], pa.int32()), "body": ["f"],
                                "ts": times(100)}))  # fmt: skip

    assert sorted(asked) == [(price, least) for price in (2.0, 6.0) for least in (1.0, 5.0, 9.0)]
    told = template.results()
    assert sorted(zip(told["body"].to_pylist(), told["price"].to_pylist(), strict=True)) == [
        *((body, 6.0) for body in "aabbccdd"), ("e", 2.0),
    ]  # fmt: skip
