"""A sink that keeps tables in memory, for tests and notebooks.

By default its cursor is not durable either: a new process gets the newest epochs that the root
still holds. With `durable=True` the cursor is kept, and a new process gets what is new.

Cost: all rows of its queries, unless `last` bounds them; then at most `last` rows a query and
one epoch more are held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pyarrow as pa

from millrace.connectors.sinks.sink import (
    Backlog,
    FanOut,
    Move,
    Span,
    check_fan_out,
    check_queries,
    check_sink_name,
)
from millrace.errors import PlanError, UnknownNameError
from millrace.plan.nearest import nearest


class MemorySink:
    """Collects the results of some queries.

    Parameters
    ----------
    queries
        The queries and templates whose results it wants; None stands for all.
    fan_out
        "rows": every match is a row; "counts": the number of matches of each query and epoch;
        "sets": every matching row once, with the set of its queries.
    last
        Keep that many of the newest rows of each query; None keeps all.
    durable
        Whether a new process goes on where this one ended.

    Examples
    --------
    >>> sink = MemorySink("big")
    >>> sink.n_rows("big")
    0
    """

    def __init__(
        self,
        queries: Sequence[str] | str | None = None,
        *,
        name: str = "memory",
        last: int | None = None,
        durable: bool = False,
        fan_out: FanOut = "rows",
    ) -> None:
        given: object = last
        if given is not None and not (isinstance(given, int) and given >= 1):
            raise PlanError(
                f"a memory sink is to keep the last {last} rows",
                hint="Keep 1 or more.",
                node=("option", "last"),
            )
        self.name = check_sink_name(name)
        self.queries = check_queries(queries)
        self.fan_out = check_fan_out(fan_out)
        self.backlog = Backlog()
        self.durable = durable
        self._last = last
        self._settled: dict[str, list[pa.Table]] = {}
        self._open: list[tuple[str, pa.Table]] = []
        self._totals: dict[str, int] = {}
        self._changed = threading.Condition()
        self.nothing_of: Callable[[str, FanOut], pa.Table | None] = lambda *_: None
        """Makes the table of a query that has delivered no rows; set by the session."""

    def table(self, query: str) -> pa.Table:
        """Return the rows of `query` so far, in the order of delivery; there may be none."""
        with self._changed:
            tables = list(self._settled.get(query, ()))
        if tables:
            return _newest(pa.concat_tables(tables), self._last)
        known = self.queries is None or query in self.queries
        empty = self.nothing_of(query, self.fan_out) if known else None
        if empty is None:
            raise UnknownNameError(
                f'query "{query}" delivers nothing to sink "{self.name}"',
                detail="There is no query of that name, or the sink does not want it, or is not "
                "attached.",
                hint="" if known else nearest(query, self.queries or ()),
            )
        return empty

    def n_rows(self, query: str | None = None) -> int:
        """Return how many rows were delivered, of one query or of all, also if not kept."""
        with self._changed:
            return sum(self._totals.values()) if query is None else self._totals.get(query, 0)

    def wait_rows(self, n_rows: int, timeout: float = 10.0, *, query: str | None = None) -> bool:
        """Wait until that many rows were delivered; return False after `timeout` seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: self.n_rows(query) >= n_rows, timeout)

    def open(self, promised: Sequence[Move]) -> None:
        """Forget the open span; it is delivered again."""
        assert not promised, "memory is promised no file"
        self._open.clear()

    def take(self, query: str, epoch: int, table: pa.Table) -> None:  # noqa: ARG002  in the table
        """Hold the rows until the epoch is complete."""
        self._open.append((query, table))

    def due(self, span: Span) -> bool:
        """Settle every epoch that has rows."""
        return span.n_rows > 0

    def prepare(self, span: Span) -> tuple[Move, ...]:  # noqa: ARG002  nothing is prepared
        """Promise nothing."""
        return ()

    def fulfil(self, moves: Sequence[Move]) -> None:
        """Show the rows of the span."""
        assert not moves, "memory is promised no file"
        with self._changed:
            for query, table in self._open:
                kept = self._settled.setdefault(query, [])
                kept.append(table)
                self._totals[query] = self._totals.get(query, 0) + table.num_rows
                _forget_oldest(kept, self._last)
            self._open.clear()
            self._changed.notify_all()

    def close(self) -> None:
        """Keep what was collected; it can still be read."""
        self._open.clear()


def _newest(table: pa.Table, last: int | None) -> pa.Table:
    return table if last is None else table.slice(max(table.num_rows - last, 0))


def _forget_oldest(tables: list[pa.Table], last: int | None) -> None:
    while last is not None and sum(each.num_rows for each in tables[1:]) >= last:
        tables.pop(0)
