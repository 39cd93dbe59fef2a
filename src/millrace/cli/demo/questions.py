"""What the demonstration asks of its stream, and what each question means in plain Python.

The engine gets `selection`; the judge at the end asks `accepts`. The two are written apart on
purpose: if they agree on every row, neither is wrong in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import millrace
from millrace.plan.nodes import Selection

STREAM = "trades"
SCHEMA = "id bigint, symbol text, price double, size int, ts timestamp"
DELAY_SECONDS = 1.0
RETAIN = "10 minutes"


@dataclass(frozen=True, slots=True)
class Trade:
    """One row of the stream; `time` is its event time, in us."""

    id: int
    symbol: str
    price: float
    size: int
    time: int


@dataclass(frozen=True, slots=True)
class Question:
    """A standing query: its name, its words, and its meaning."""

    name: str
    words: str
    selection: Selection
    accepts: Callable[[Trade], bool]


def _ask(condition: object) -> Selection:
    return millrace.select(STREAM, "id", "symbol", "price", "size", where=condition)


QUESTIONS = (
    Question(
        "big",
        "size >= 9000",
        _ask(millrace.col("size") >= 9_000),
        lambda trade: trade.size >= 9_000,
    ),
    Question(
        "acme",
        "symbol = 'ACME'",
        _ask(millrace.col("symbol") == "ACME"),
        lambda trade: trade.symbol == "ACME",
    ),
    Question(
        "penny",
        "price < 5",
        _ask(millrace.col("price") < 5),
        lambda trade: trade.price < 5,
    ),
)
