"""A scenario: a few dozen tiny epochs in which everything happens that an engine can meet.

Rows are late, without a time, NaN and NULL; they expire; one partition falls silent for a while.
Queries come and go in every epoch, one under the same name again and again, one fails on a row and
is suspended, and so is one of those that run as one plan. One keeps its answers in one way after
the other. The rows of a template are inserted, changed, paused, resumed and deleted, those of a
table inserted, changed and deleted. A stream is dropped and declared anew. What an epoch holds
depends on its number alone, so a run that was disturbed can be compared with one that was not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from millrace.connectors.files import Files
from millrace.engine.feeds import POLICIES
from millrace.engine.local import Feed
from millrace.operators.select import Function
from millrace.plan.nodes import Selection, select
from millrace.plan.term import call, col
from millrace.testing.oracle.epochs import Arrivals, Row

COLUMNS = "part text, at bigint, ts timestamp, value double, tag text"
STEP = 10
"""By how much event time and the wall clock move in an epoch, in us."""
FUSSY_EPOCH = 18
"""In this epoch a row comes that the function `fussy` refuses."""


def fussy(values: pa.Array) -> pa.Array:
    """Compare with 1; raise for the one row that is infinite."""
    if pc.any(pc.is_inf(values)).as_py():
        message = "infinite"
        raise ValueError(message)
    return pc.greater(values, 1.0)


def picky(values: pa.Array, numbers: pa.Array) -> pa.Array:
    """Compare the rest of a division by five; raise for what is large, if it is asked by one."""
    if pc.any(pc.and_(pc.greater(values, 30), pc.equal(numbers, 1))).as_py():
        message = "large"
        raise ValueError(message)
    rest = pc.subtract(values, pc.multiply(pc.divide(values, 5), 5))
    return pc.greater(rest, numbers)


TEMPLATE = "SELECT at, value FROM kafka WHERE at > :low - 20 AND at % 8 <> :slot % 8"
PARAMETERS = {"slot": "bigint", "low": "bigint"}
JOINED = (
    "SELECT ISTREAM(a.at, b.at AS other) FROM kafka [RANGE :slot us] a, files [RANGE 25 us] b "
    "WHERE a.tag = b.tag AND a.at > :low - 20"
)
"""A template with the same parameters whose queries are one join."""
SUMMED = (
    "SELECT RSTREAM(tag, count(*) AS n, sum(at) AS total) EVERY 10 us FROM kafka [RANGE 30 us] "
    "WHERE at > :low - 20 AND at % 40 < :slot GROUP BY tag"
)
"""One whose queries share panes."""

PLANS = {
    "grouped": "SELECT tag, count(*) AS n, sum(value) AS total, max(value) AS most "
    "FROM kafka [RANGE 30 us] GROUP BY tag",
    "paired": "SELECT ISTREAM(a.at, b.at AS other) FROM kafka [RANGE 15 us] a, "
    "files [RANGE 25 us] b WHERE a.tag = b.tag",
    "last": "SELECT at, value FROM kafka [PARTITION BY tag ROWS 2]",
    "crowds": "SELECT n, count(*) AS tags FROM (SELECT tag, count(*) AS n FROM kafka [RANGE 30 us] "
    "GROUP BY tag) GROUP BY n",
    "alone": "SELECT at FROM kafka [RANGE 20 us] WHERE at NOT IN (SELECT at FROM files [ROWS 3])",
    "limited": "SELECT k.at, l.least FROM kafka [RANGE 20 us] k, limits l "
    "WHERE k.tag = l.tag AND k.value > l.least",
}
ALIKE = {
    "near": "SELECT ISTREAM(a.at, b.at AS other) FROM kafka [RANGE 1{n} us] a, "
    "files [RANGE 25 us] b WHERE a.tag = b.tag AND a.at % 5 > {n}",
    "ticks": "SELECT RSTREAM(tag, sum(at) AS n) EVERY 10 us FROM kafka [RANGE 30 us] "
    "WHERE at % 9 > {n} GROUP BY tag",
    "banded": "SELECT ISTREAM(a.at, b.at AS other, a.ts AS one, b.ts AS two) "
    "FROM kafka [RANGE 1{n} us] a, files [RANGE 25 us] b WHERE b.at - a.at BETWEEN -{n} AND {n}",
    "called": "SELECT ISTREAM(a.at, b.at AS other) FROM kafka [RANGE 14 us] a, "
    "files [RANGE 2{n} us] b WHERE a.tag = b.tag AND a.at > {n} AND picky(a.at, {n})",
    "large": "SELECT sum(at + 4611686018427387904) AS n FROM kafka [RANGE 30 us] "
    "WHERE part = 'a' AND at >= 28 AND at < 28 + {n} * {n}",
}
"""Queries of which several stand that differ in `n`.

The last one fails if `n` is 2, and the one that calls a function if it is 1.
"""

LIMITS, LIMIT_COLUMNS = "limits", "tag text, least double"
"""A table that queries read where plans stand."""

FUNCTIONS: dict[str, Function] = {"fussy": fussy, "picky": picky}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is fed and asked in each epoch."""

    n_epochs: int = 21
    plans: bool = False
    """Whether queries that remember something stand too."""
    alike: bool = False
    """Whether some stand that differ in constants alone, and run as one plan."""

    @property
    def templates(self) -> dict[str, str]:
        """The templates in force; all have the same rows."""
        found = {"many": TEMPLATE}
        found |= {"joined": JOINED} if self.plans else {}
        return found | ({"summed": SUMMED} if self.alike else {})

    @property
    def strategy(self) -> str:
        """What finds the queries of those that are one join."""
        return "window_ssi" if self.alike else "auto"

    def clock(self, epoch: int) -> int:
        """Return the wall clock when the epoch is decided."""
        return 1_000 + STEP * epoch

    def streams(self, epoch: int) -> dict[str, dict[str, Any]]:
        """Return the declarations in force: the arguments of `Session.stream`."""
        delays: dict[str, Any] = {"time": "ts", "delay": 12, "schema": COLUMNS}
        found = {
            "kafka": {
                **delays, "source": Feed(), "partition": "part", "order": "at", "key": "tag",
                "retain": 80, "idle": 3 * STEP,
            },
            "files": {**delays, "source": Files("/nowhere"), "retain": 40},
        }  # fmt: skip
        if epoch % 16 != 9:
            found["brief"] = {**delays, "source": Feed()}
        return found

    def queries(self, epoch: int) -> dict[str, Selection | str]:
        """Return the queries in force."""
        found: dict[str, Selection | str] = {
            **(PLANS if self.plans else {}),
            **(self._alike(epoch) if self.alike else {}),
            "all": select("kafka"),
            "dear": select("kafka", "tag", "value", where=col("value") > 1.0),
            "filed": select("files", "at", where=(col("tag") == "x") | col("value").is_null()),
            "fussy": select("kafka", "value", where=call("fussy", col("value"))),
        }
        for born in range(max(epoch - 1, 0), epoch + 1):
            found[f"q{born}"] = select("kafka", "at", where=col("at") > 3 * born)
        if epoch % 10 not in (5, 6):
            found["again"] = select("files", "tag", mark=(epoch + 3) // 10)
        if epoch % 16 != 9:
            found["briefly"] = select("brief", "value")
        return found

    def _alike(self, epoch: int) -> dict[str, str]:
        """Return the queries in force that run as one plan: one of three is away in some epochs."""
        there = [n for n in range(3) if (epoch + 4 * n) % 12 > 1]
        return {f"{name}{n}": text.format(n=n) for name, text in ALIKE.items() for n in there}

    def retained(self, epoch: int) -> dict[str, tuple[str, dict[str, Any]]]:
        """Return queries whose answers are asked for later: a text, and how they are kept.

        All have the same answers, those too of the one that is kept in another way now and then.
        """
        text = "SELECT at, value, tag FROM kafka WHERE at % 3 <> 1"
        policies = {f"{policy}_kept": policy for policy in POLICIES}
        policies["variously_kept"] = POLICIES[epoch // 4 % len(POLICIES)]
        return {name: (text, {"retain": 60, "policy": policy}) for name, policy in policies.items()}

    def limits(self, epoch: int) -> dict[str, float]:
        """Return the rows of the table: `least` for each `tag`."""
        found = {"x": 0.0 if epoch % 4 < 2 else 1.0}
        return found if epoch % 5 < 2 else {**found, "y": 2.0}

    def rows(self, epoch: int) -> dict[int, int]:
        """Return the rows of the template: `low` for each `slot`."""
        slots = range(3 * epoch, 3 * epoch + 14)
        return {slot: 2 * slot + (5 if (epoch + slot) % 6 < 2 else 0) for slot in slots}

    def paused(self, epoch: int) -> set[int]:
        """Return the slots whose query is paused."""
        return {slot for slot in self.rows(epoch) if (slot + epoch // 2) % 5 == 0}

    def arrivals(self, epoch: int) -> Arrivals:
        """Return the rows of an epoch, by stream and source partition."""
        partitions = ("a",) if epoch % 16 in range(6, 12) else ("a", "b")
        found = {
            "kafka": {name: self._rows(epoch, f"kafka {name}", name) for name in partitions},
            "files": {"": self._rows(epoch, "files")},
        }
        if epoch % 16 != 9:
            found["brief"] = {"": self._rows(epoch, "brief")}
        return found

    def digest(self, epoch: int) -> str:
        """Identify the input of an epoch."""
        return f"digest of {epoch}"

    def _rows(self, epoch: int, source: str, part: str | None = None) -> list[Row]:
        random = Random(f"{source} {epoch}")
        rows: list[Row] = []
        for number in range(0 if epoch % 7 == 3 else 4):
            late = random.random() < 0.2
            time = 1_000 + STEP * epoch + random.randrange(-10, 10) - (25 if late else 0)
            values = [None, -0.0, math.nan, 0.5, 1.5, 2.5]
            rows.append(
                {
                    "part": part,
                    "at": 4 * epoch + number,
                    "ts": None if random.random() < 0.05 else time,
                    "value": random.choice(values),
                    "tag": random.choice(["x", "y", None]),
                }
            )
        if epoch == FUSSY_EPOCH and part == "a":
            rows[-1] = {**rows[-1], "value": math.inf}
        return rows
