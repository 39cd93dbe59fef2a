"""Events: rows of a query that are told together, and where a subscriber is behind them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.server.cursors import Cursor
from millrace.server.json_rows import json_rows

MOST_ROWS = 10_000
"""Of one event."""


@dataclass(frozen=True, eq=False)
class Event:
    """Rows of one query, and where a subscriber is behind them."""

    cursor: Cursor
    rows: list[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def text(self) -> str:
        """The event as JSON, spelt once for all who get it."""
        return json.dumps({"rows": self.rows, "cursor": str(self.cursor)})


def events_of(table: pa.Table, start: Cursor, epoch: int) -> Iterator[Event]:
    """Yield what follows a cursor, of answers from its epoch on, spelt part by part.

    Where some of the epoch's rows were told, others may have expired since. Which, is not known, so
    as many fewer are left out: perhaps one is told twice, but none is never told.
    """
    epochs, counts = np.unique(table["_epoch"].to_numpy(), return_counts=True)
    sizes = dict(zip(epochs.tolist(), counts.tolist(), strict=True))
    if start.told:
        left = sizes.get(start.epoch + 1, 0)
        told = min(max(start.told - max(start.of - left, 0), 0), left)
        start, table = replace(start, told=told, of=left), table.slice(told)
    parts = (json_rows(table.slice(at, MOST_ROWS)) for at in range(0, table.num_rows, MOST_ROWS))
    return events_in(parts, sizes, epoch, start)


def events_in(
    parts: Iterable[list[dict[str, Any]]], sizes: Mapping[int, int], epoch: int, start: Cursor
) -> Iterator[Event]:
    """Give parts of rows, ordered by epochs, their cursors; the last is complete up to `epoch`.

    `sizes` says how many rows each epoch has; the first of them is told in part if `start` is.
    """
    told, within, left = start.told, start.epoch + 1, sum(sizes.values()) - start.told
    for some in parts:
        left -= len(some)
        if not left:
            yield Event(Cursor(epoch, 0, start.feed), some)
            return
        last = some[-1]["_epoch"]
        same = sum(row["_epoch"] == last for row in some)
        told = told + same if last == within else same
        within = last
        yield Event(Cursor(last - 1, told, start.feed, sizes[last]), some)
