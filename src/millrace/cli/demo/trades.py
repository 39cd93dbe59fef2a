"""The market: writes trades as files of JSON lines, and remembers what must come of them.

Prices walk at random, event times are a little out of order, now and then a row is late and a
line is broken. A file appears complete, by one rename, as a source of files asks for.

The ledger is the judge's evidence. A row is late iff it is behind the greatest event time before
it by more than the delay; that is computed here row by row, without the engine.

Cost: about 6 us a row; the ledger holds one small entry for each answer that is due.
"""

from __future__ import annotations

import json
import math
import random
import threading
import time
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from millrace.cli.demo import alerts
from millrace.cli.demo.questions import DELAY_SECONDS, QUESTIONS, SYMBOLS, Trade
from millrace.time import SECOND, print_instant

PERIOD_SECONDS = 0.2
LATE_BY_SECONDS = 5.0
LATE_A_SECOND = 1.0
BROKEN_A_SECOND = 0.6
MOST_IN_A_FILE = 50_000
VOLATILITY = 0.01
"""By what share a price moves within a second."""

_OPENING = dict(zip(SYMBOLS, (104.0, 38.5, 5.1, 251.0, 17.2, 4.9, 62.0, 880.0), strict=True))


@dataclass(slots=True)
class Ledger:
    """What was written, and what must come of it.

    Attributes
    ----------
    due
        For each question, the ids of the rows it accepts, and whether each is late.
    raised
        For each row that raises alerts which stay, how many.
    late
        The ids of all late rows.
    dead
        The lines that cannot be read; a row without a time is here by its id.
    """

    n_lines: int = 0
    due: dict[str, dict[int, bool]] = field(
        default_factory=lambda: {each.name: {} for each in QUESTIONS}
    )
    raised: dict[int, int] = field(default_factory=dict)
    late: set[int] = field(default_factory=set)
    dead: Counter[str] = field(default_factory=Counter)
    _alerts: dict[str, list[int]] = field(default_factory=alerts.thresholds)
    _ids: list[int] = field(default_factory=list)
    _moments: list[float] = field(default_factory=list)

    def take(self, trade: Trade, *, late: bool) -> None:
        """Note a row that can be read."""
        self.n_lines += 1
        if late:
            self.late.add(trade.id)
        for question in QUESTIONS:
            if question.accepts(trade):
                self.due[question.name][trade.id] = late
        n_raised = alerts.n_raised(self._alerts[trade.symbol], trade.size)
        if n_raised:
            self.raised[trade.id] = n_raised

    def give_up(self, line: str) -> None:
        """Note a line that cannot be read."""
        self.n_lines += 1
        self.dead[line] += 1

    def published(self, first_id: int, moment: float) -> None:
        """Note when the file that begins with that id appeared."""
        self._ids.append(first_id)
        self._moments.append(moment)

    def moment_of(self, id_: int) -> float | None:
        """Return when the row of that id became visible to the engine."""
        at = bisect_right(self._ids, id_) - 1
        return None if at < 0 else self._moments[at]


class Market:
    """Writes at a steady rate, in a thread of its own, whether or not an engine listens."""

    def __init__(self, directory: Path, rate: float, *, seed: int | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.ledger = Ledger()
        self._directory, self._rate = directory, rate
        self._random = random.Random(seed)
        self._prices = dict(_OPENING)
        self._step = VOLATILITY / math.sqrt(rate / len(_OPENING))
        self._newest = 0
        self._next_id = 0
        self._n_files = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="market", daemon=True)

    def open(self) -> None:
        """Begin to trade."""
        self._thread.start()

    def close(self) -> None:
        """Write no further file."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def write(self, n_rows: int) -> Path:
        """Write one file of so many lines, now and then with a bad one among them."""
        first = self._next_id
        lines = [self._line() for _ in range(n_rows)]
        name = f"trades-{self._n_files:06d}.ndjson"
        hidden, path = self._directory / f".{name}", self._directory / name
        hidden.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.ledger.published(first, time.monotonic())
        hidden.rename(path)
        self._n_files += 1
        return path

    def _run(self) -> None:
        began, written = time.monotonic(), 0
        while not self._stopping.wait(PERIOD_SECONDS):
            due = int((time.monotonic() - began) * self._rate) - written
            if due > 0:
                self.write(min(due, MOST_IN_A_FILE))
                written += due

    def _line(self) -> str:
        chance = self._random.random() * self._rate
        trade = self._trade(late=chance < LATE_A_SECOND)
        if LATE_A_SECOND <= chance < LATE_A_SECOND + BROKEN_A_SECOND:
            return self._broken(trade)
        late = trade.time < self._newest - DELAY_SECONDS * SECOND
        self._newest = max(self._newest, trade.time)
        self.ledger.take(trade, late=late)
        return spell(trade)

    def _trade(self, *, late: bool) -> Trade:
        chance = self._random
        symbol = chance.choice(list(self._prices))
        self._prices[symbol] *= math.exp(chance.gauss(0, self._step))
        price = round(self._prices[symbol], 2)
        size = 100 * min(1 + int(chance.expovariate(1 / 20)), 200)
        behind = chance.uniform(0, 0.3) + (LATE_BY_SECONDS if late else 0)
        self._next_id += 1
        at = time.time_ns() // 1_000 - int(behind * SECOND)
        return Trade(self._next_id - 1, symbol, price, size, at)

    def _broken(self, trade: Trade) -> str:
        """Spell a trade so that it cannot be read, in one of three ways."""
        whole = spell(trade)
        match self._random.randrange(3):
            case 0:
                line = whole[: self._random.randrange(12, len(whole) - 12)]
            case 1:
                line = whole.replace(f'"price":{trade.price}', '"price":"n/a"')
            case _:
                self.ledger.give_up(f"id {trade.id}")
                return json.dumps({**json.loads(whole), "ts": None})
        self.ledger.give_up(line)
        return line


def spell(trade: Trade) -> str:
    """Spell a trade as a line of JSON."""
    return (
        f'{{"id":{trade.id},"symbol":"{trade.symbol}","price":{trade.price},'
        f'"size":{trade.size},"ts":"{print_instant(trade.time)}"}}'
    )
