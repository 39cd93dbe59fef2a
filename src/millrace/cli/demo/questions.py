"""What the demonstration asks of its stream, and what each question means in plain Python.

The engine gets the text; the judge at the end asks `accepts`. The two are written apart on
purpose: if they agree on every row, neither is wrong in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

STREAM = "trades"
SCHEMA = "id bigint, symbol text, price double, size int, ts timestamp"
DELAY_SECONDS = 1.0
RETAIN = "10 minutes"
SYMBOLS = ("ACME", "BOLT", "CRUX", "DYNO", "ECHO", "FLUX", "GRIT", "HALO")


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
    """A standing query: its name, its text, and its meaning."""

    name: str
    text: str
    accepts: Callable[[Trade], bool]

    @property
    def words(self) -> str:
        """What it asks for, without the columns."""
        return self.text.partition(" WHERE ")[2]


def _ask(condition: str) -> str:
    return f"SELECT id, symbol, price, size FROM {STREAM} WHERE {condition}"


QUESTIONS = (
    Question("big", _ask("size >= 9000"), lambda trade: trade.size >= 9_000),
    Question("acme", _ask("symbol = 'ACME'"), lambda trade: trade.symbol == "ACME"),
    Question("penny", _ask("price < 5"), lambda trade: trade.price < 5),
)
