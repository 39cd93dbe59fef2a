"""What the service answers where a table or a number would not do."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from millrace.engine.feeds import FeedSpec


@dataclass(frozen=True, slots=True)
class Pushed:
    """What became of rows that were pushed: how many were taken, and how many set aside."""

    rows: int
    batch: str
    set_aside: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a statement did: a sentence, or a table for one that asks."""

    message: str = ""
    table: pa.Table | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """A query that was found by its name: its feed, and its id unless the whole feed is meant."""

    feed: FeedSpec
    qid: int | None
