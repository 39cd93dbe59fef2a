"""The answers of a `.slt` file's queries, as sinks get them, by the names of the file.

Three sinks want the same answers in three forms. They must tell the same: as many rows as the
counts say, and the same rows of the same queries as the sets say. What is more than a selection is
told as rows only, or, if queries share them, as rows and sets. The sign of an answer tells its
instant too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.connectors.sinks import MemorySink
from millrace.engine import facts
from millrace.engine.plans import CHANGE
from millrace.testing.slt_plans import signed

if TYPE_CHECKING:
    from millrace.session import Session
    from millrace.testing.slt_world import Answer

_OURS = ("_query", "_queries", "_time", "_late", "_epoch", CHANGE)


class Ledger:
    """Who owns which query id, and what each has answered since `collect`."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}
        self._single: dict[str, int] = {}
        self._seen: dict[tuple[int, str], int] = {}
        self._failed: set[tuple[int, int]] = set()
        self._found: dict[str, list[Answer]] = {}

    def owner(self, qid: int, name: str, feed: str) -> None:
        """Note whose a query id is."""
        self._owners[qid] = name
        if feed == name:
            self._single[feed] = qid

    def qid(self, name: str) -> int:
        """Return the newest id of a name, or one that no query has."""
        mine = [qid for qid, owner in self._owners.items() if owner == name]
        return max(mine, default=10**9)

    def forget_sinks(self) -> None:
        """Begin with new sinks, which get only what is new."""
        self._seen.clear()

    def take(self, sinks: Sequence[MemorySink], session: Session) -> None:
        """Take in what sinks got since they were last looked at; check that they agree."""
        rows, counts, sets = (self._fresh(sink, session) for sink in sinks)
        feeds = session.engine.registry.catalog.feeds
        plans = {name for name, each in feeds.items() if each.plan is not None}
        for feed, table in rows:
            if feed in plans:
                for row in _micros(table):
                    found = self._found.setdefault(self._name(feed, row.get("_query")), [])
                    found.append((_sign(row), _values(row)))
        shared = [each for each in rows if each[0] in plans and feeds[each[0]].stores_sets]
        rows = [each for each in rows if each[0] not in plans]
        told = [answer for feed, table in rows for answer in self._rows(feed, table)]
        n_rows = Counter(name for name, _, _ in told)
        counted: Counter[str] = Counter()
        for feed, table in counts:
            for row in table.to_pylist():
                counted[self._name(feed, row.get("_query"))] += row["n_rows"]
        assert counted == n_rows, f"counts say {counted}, rows say {n_rows}"
        in_sets = [answer for feed, table in sets for answer in self._sets(feed, table)]
        in_rows = [answer for feed, table in shared for answer in self._rows(feed, table)] + told
        assert Counter(map(repr, in_sets)) == Counter(map(repr, in_rows)), (
            f"sets say {in_sets}, rows say {in_rows}"
        )
        for name, sign, values in told:
            self._found.setdefault(name, []).append((sign, values))
        self._note_failures(session)

    def collect(self) -> dict[str, list[Answer]]:
        """Return what was taken in, and begin anew."""
        found, self._found = self._found, {}
        return found

    def _fresh(self, sink: MemorySink, session: Session) -> list[tuple[str, pa.Table]]:
        """Return the new rows of each feed."""
        fresh = []
        feeds = {*session.engine.registry.catalog.feeds, *self._single}
        for feed in sorted(feeds):
            total = sink.n_rows(feed)
            seen = self._seen.get((id(sink), feed), 0)
            if total > seen:
                fresh.append((feed, sink.table(feed).slice(seen)))
                self._seen[id(sink), feed] = total
        return fresh

    def _name(self, feed: str, qid: int | None) -> str:
        return self._owners[self._single[feed] if qid is None else qid]

    def _rows(self, feed: str, table: pa.Table) -> Iterable[tuple[str, str, tuple[object, ...]]]:
        for row in _micros(table):
            yield self._name(feed, row.get("_query")), _sign(row), _values(row)

    def _sets(self, feed: str, table: pa.Table) -> Iterable[tuple[str, str, tuple[object, ...]]]:
        for row in _micros(table):
            for qid in row["_queries"]:
                yield self._name(feed, qid), _sign(row), _values(row)

    def _note_failures(self, session: Session) -> None:
        engine = session.engine
        generations = engine.registry.population.generations
        suspended = facts.suspended(engine.manifest, generations)
        for qid, verdict in suspended.items():
            mark = qid, generations.get(qid, 0)
            if mark not in self._failed and qid in self._owners:
                self._failed.add(mark)
                answer = ("!", (str(verdict["message"]),))
                self._found.setdefault(self._owners[qid], []).append(answer)


def _micros(table: pa.Table) -> list[dict[str, Any]]:
    times = table.column("_time").cast(pa.int64())
    at = table.column_names.index("_time")
    rows: list[dict[str, Any]] = table.set_column(at, "_time", times).to_pylist()
    return rows


def _sign(row: dict[str, Any]) -> str:
    sign = "-" if row.get(CHANGE) == -1 else "~" if row["_late"] else "+"
    return signed(row["_time"], sign)


def _values(row: dict[str, Any]) -> tuple[object, ...]:
    return tuple(value for name, value in row.items() if name not in _OURS)
