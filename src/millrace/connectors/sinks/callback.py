"""A sink that calls a function: at least once for each query and epoch that has rows.

The cursor moves when the function has returned for all queries of an epoch. A function that
raises is called again later, with backoff, and only for the queries that it has not yet
finished in this process; after a crash, for the whole epoch. `(query, epoch)` is therefore a
key by which a receiver can leave out what it has seen: the table is the same each time. (There
are two tables for one key only if a query was declared anew with other columns.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

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

Receiver: TypeAlias = Callable[[str, int, pa.Table], object]

QUIET_EPOCHS = 256
"""After so many epochs without a row the cursor moves all the same, to keep restarts short."""


class CallbackSink:
    """Calls `function(query, epoch, table)`.

    Parameters
    ----------
    function
        Receives the name of the query, the number of the epoch and its rows; what it returns
        is ignored. It runs in the sink's own thread.
    queries
        The queries and templates whose results it wants; None stands for all.
    fan_out
        "rows": every match is a row; "counts": the number of matches of each query and epoch;
        "sets": every matching row once, with the set of its queries.
    name
        Under which the cursor is kept; the program's next run has to give the same.

    Examples
    --------
    >>> seen = []
    >>> sink = CallbackSink(lambda query, epoch, table: seen.append(epoch), "big", name="mail")
    >>> sink.queries
    ('big',)
    """

    durable = True

    def __init__(
        self,
        function: Receiver,
        queries: Sequence[str] | str | None = None,
        *,
        name: str = "callback",
        fan_out: FanOut = "rows",
        backlog: Backlog | None = None,
    ) -> None:
        self._function = function
        self.name = check_sink_name(name)
        self.queries = check_queries(queries)
        self.fan_out = check_fan_out(fan_out)
        self.backlog = backlog or Backlog()
        self._finished: set[tuple[str, int, pa.Schema]] = set()

    def open(self, promised: Sequence[Move]) -> None:
        """Keep in mind what the function has finished, so that a retry leaves it out."""
        assert not promised, "a function is promised no file"

    def take(self, query: str, epoch: int, table: pa.Table) -> None:
        """Call the function, unless it has finished these rows before an error."""
        if (query, epoch, table.schema) not in self._finished:
            self._function(query, epoch, table)
            self._finished.add((query, epoch, table.schema))

    def due(self, span: Span) -> bool:
        """Settle every epoch that has rows."""
        return span.n_rows > 0 or span.n_epochs >= QUIET_EPOCHS

    def prepare(self, span: Span) -> tuple[Move, ...]:  # noqa: ARG002  nothing is prepared
        """Promise nothing: the rows are public already."""
        return ()

    def fulfil(self, moves: Sequence[Move]) -> None:
        """Forget what was finished; the cursor knows it now."""
        assert not moves, "a function is promised no file"
        self._finished.clear()

    def close(self) -> None:
        """Hold nothing."""
