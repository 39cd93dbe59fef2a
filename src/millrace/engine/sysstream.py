"""SysStream: the engine tells of itself on a stream like any other.

    epoch n ─► statistics ─► rows of `sysstream` ─► epoch n + 1 (or later) reads them as input

They are told one batch late, at most once a second, while somebody listens: a standing query reads
the stream, or a console has asked within the last hour. Whoever asks first is given the past too,
as far as the engine remembers it.

A server also tells while nobody does, once in five seconds, of epochs, streams and the engine as a
whole: so who looks later sees the last hour. With 2 streams that is 25,000 rows an hour, 1.5 MB,
of which none is older than that; an engine that has no rows tells nothing.

Invariant: an epoch that had no rows but those of sysstream tells nothing, so that telling does not
bring about more of itself. Nothing here changes what other queries answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from millrace.engine.properties import (
    Property,
    Totals,
    told_by_engine,
    told_by_epochs,
    told_by_gateways,
    told_by_parts,
    told_by_selections,
    totals,
)
from millrace.engine.statistics import EpochStatistics
from millrace.engine.store_sizes import StoreSizes
from millrace.engine.streams import SYSSTREAM, StreamSpec
from millrace.errors import StoreError
from millrace.schema import Schema
from millrace.time import HOUR, SECOND

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.engine.epoch import Engine

_logger = logging.getLogger(__name__)

NAME = SYSSTREAM
COLUMNS = Schema.of(
    "type text, id bigint, property text, ival bigint, fval double, name text, query text, "
    "epoch bigint, ts timestamp"
)
RETAIN = HOUR
ASKED = HOUR
"""For how long it goes on after a console has asked, so that who comes back finds a past."""

UNHEARD = 5 * SECOND
"""How often a server tells while nobody listens."""

LONGEST_SPAN = 10 * SECOND
"""A rate is over the time since it was last told, but for pauses longer than this."""

Deliver = Callable[[pa.RecordBatch], object]


def sysstream_spec() -> StreamSpec:
    """Return the declaration of the stream."""
    return StreamSpec(NAME, COLUMNS, "ts", retain=RETAIN, ordered=True)


class SysStream:
    """When and what an engine tells of itself.

    It tells once in `every`; once in `unheard` while nobody listens, which None is never. `deliver`
    takes rows to where the stream's source finds them; without it they wait for `take`, and the
    next epoch of this process. It is used by the thread of the epochs, and by `ask`.
    """

    def __init__(
        self,
        every: int = SECOND,
        deliver: Deliver | None = None,
        *,
        unheard: int | None = None,
    ) -> None:
        self._every, self._unheard, self.deliver = every, unheard, deliver
        self._asked_until = 0
        self._readers = (-1, False)  # of which catalog, and whether there are any
        self._listening = False
        self._epochs: list[EpochStatistics] = []
        self._told_at = 0
        self._before: Totals = {}
        self._sizes = StoreSizes()
        self._waiting: list[pa.RecordBatch] = []
        self._lock = threading.Lock()
        self.gateways: dict[str, Mapping[str, float]] = {}
        """What gateways have told of themselves, by their names; it is told once."""

    def ask(self, now: int) -> None:
        """Let it be told for the next hour, because somebody wants to see it."""
        self._asked_until = max(self._asked_until, now + ASKED)

    def epoch_ended(self, engine: Engine, statistics: EpochStatistics) -> None:
        """Tell what an epoch did, if it is time; of everything, if somebody listens."""
        heard = self._heard(engine.registry.catalog, statistics.started)
        every = self._every if heard else self._unheard
        if every is None:
            self._listening, self._epochs = False, []
            return
        if not self._listening:
            self._listening = True
            self._epochs = [each for each in engine.statistics if _by_itself(each)]
        elif _by_itself(statistics):
            self._epochs.append(statistics)
        due = statistics.started - self._told_at >= every
        if due and self._epochs and _by_itself(statistics):
            self._tell(engine, every, heard=heard)

    def take(self) -> pa.RecordBatch | None:
        """Return the rows that wait for the next epoch, once."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        if not waiting:
            return None
        return pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]

    def _heard(self, catalog: Catalog, now: int) -> bool:
        if self._readers[0] != catalog.sequence:
            read = any(NAME in feed.reads for feed in catalog.feeds.values())
            self._readers = catalog.sequence, read
        return self._readers[1] or now < self._asked_until

    def _tell(self, engine: Engine, every: int, *, heard: bool) -> None:
        batches = []
        for span in _spans(self._epochs, every):
            at = max(span[-1].started, self._told_at + 1)  # a clock that is set back goes on
            since = at - self._told_at if self._told_at else 0
            seconds = min(max(since, every), LONGEST_SPAN) / SECOND
            told = told_by_epochs(span, seconds)
            if heard:
                told = chain(told, told_by_selections(span, seconds, engine.registry.catalog))
            batches.append(_rows(told, span[-1].epoch, at))
            self._told_at = at
        sizes = self._sizes.of(engine.manifest)
        held = told_by_engine(engine, sizes)
        if heard:
            gateways, self.gateways = self.gateways, {}
            parts = told_by_parts(engine, sizes, self._before)
            held = chain(held, parts, told_by_gateways(gateways))
        batches.append(_rows(held, self._epochs[-1].epoch, self._told_at))
        self._epochs, self._before = [], totals(engine)
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        if self.deliver is None:
            with self._lock:
                self._waiting.append(rows)
            return
        try:
            self.deliver(rows)
        except (StoreError, OSError) as error:  # a full disk, say: the epoch is committed
            _logger.warning("sysstream not told: %s", error)


def _by_itself(statistics: EpochStatistics) -> bool:
    """Say whether an epoch had rows that are not of sysstream."""
    return any(rows for stream, rows in statistics.rows_by_stream.items() if stream != NAME)


def _spans(epochs: Sequence[EpochStatistics], every: int) -> list[list[EpochStatistics]]:
    """Put those epochs together that are told together: what began within so long of the first.

    What is left over is told with those before: a rate over a moment says nothing.
    """
    spans: list[list[EpochStatistics]] = []
    for each in epochs:
        if not spans or each.started - spans[-1][0].started >= every:
            spans.append([])
        spans[-1].append(each)
    if len(spans) > 1 and spans[-1][-1].started - spans[-2][-1].started < every:
        spans[-2:] = [spans[-2] + spans[-1]]
    return spans


def _rows(properties: Iterable[Property], epoch: int, at: int) -> pa.RecordBatch:
    listed = list(properties)
    whole = [int(each.value) if float(each.value).is_integer() else None for each in listed]
    columns = {
        "type": [each.type for each in listed],
        "id": [each.id for each in listed],
        "property": [each.property for each in listed],
        "ival": whole,
        "fval": [float(each.value) for each in listed],
        "name": [each.name for each in listed],
        "query": [each.query for each in listed],
        "epoch": [epoch] * len(listed),
        "ts": [at] * len(listed),
    }
    schema = COLUMNS.to_arrow()
    arrays = [pa.array(columns[each.name], each.type) for each in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
