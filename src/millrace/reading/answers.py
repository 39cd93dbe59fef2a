"""Reading answers that the root keeps: those of one query, or of a whole feed, in any window."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millrace.connectors.sinks.sink import FanOut
from millrace.engine.feeds import FeedSpec
from millrace.engine.policies import LAST_EPOCH, Stretch, stretches
from millrace.engine.results import n_told, of_each_query, shown, told
from millrace.engine.stores import answer_store, store_specs_of, tells_queries_apart
from millrace.operators.select import Function
from millrace.reading.asking import standing_ids
from millrace.reading.found_anew import answers_found_anew
from millrace.reading.gathered import Answers, gathered_answers, within_int64
from millrace.reading.plans_anew import plan_answers
from millrace.reading.room import Room, Wanted, certain_rows
from millrace.reading.window import Instant, times_of
from millrace.remembering import remembered
from millrace.state.lookup import lookup
from millrace.state.manifest import Manifest, Run, StoreState
from millrace.state.merge import EPOCH, with_epoch
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import Range, read_piece


def answers(  # noqa: PLR0913  a window has as many words as in SQL
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None = None,
    *,
    first: int = 0,
    begin: Instant | None = None,
    end: Instant | None = None,
    last: int | None = None,
    functions: Mapping[str, Function] | None = None,
    room: Room | None = None,
) -> pa.Table:
    """Return the answers of a feed, or of one query in it, oldest first.

    Parameters
    ----------
    first
        The epoch from which on they are wanted.
    begin, end
        The window of their times, half-open; see `reading.window`.
    last
        How many of the newest are wanted.
    functions
        The registered functions, if answers are computed when they are read.
    room
        How much may be read.
    """
    times = times_of(manifest, feed, begin, end)
    wanted = Wanted(times, last, room or Room())
    if room is not None and room.rows is not None and (last or 0) > room.rows:
        wanted = replace(wanted, last=None)  # as if all were wanted: they are refused if too many
    table = kept_answers(root, manifest, feed, qid, wanted, first=first, functions=functions)
    return table if last is None else table.slice(max(table.num_rows - last, 0))


def kept_answers(  # noqa: PLR0913  a window has as many words as in SQL
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None,
    wanted: Wanted,
    *,
    first: int,
    stop: int = LAST_EPOCH,
    functions: Mapping[str, Function] | None,
) -> pa.Table:
    """Return the answers of some times and of epochs of [first, stop), in whatever way kept.

    If only the last are wanted, of those before them some may be missing.
    """
    tables: list[pa.Table] = []
    parts: list[Answers] = []
    for whole in stretches(manifest, feed, first):
        each = whole._replace(stop=min(whole.stop, stop))
        if each.policy == "eager" and qid is not None and not (feed.stores_sets or wanted.last):
            parts += stored_answers_of(root, manifest, feed, qid, each, wanted)
        elif each.policy == "eager":
            tables += stored_answers(root, manifest, feed, qid, each, wanted)
        elif feed.plan is not None:
            parts += plan_answers(root, manifest, feed, qid, each, wanted, functions)
        else:
            read = gathered_answers if each.policy == "lazy" else answers_found_anew
            qids = None if qid is None else np.array([qid], np.uint64)
            parts += read(root, manifest, feed, qids, each, wanted, functions)
    tables = [each for each in tables if each.num_rows]
    parts = [each for each in parts if len(each["_key"])]
    if len(parts) == 1 and not tables:
        return told(parts[0], no_answers(feed, "rows").schema, several=feed.shared)
    tables += [pa.table(each) for each in parts]
    if not tables:
        return no_answers(feed, "rows")
    return shown(pa.concat_tables(tables), several=feed.shared)


def stored_answers_of(
    root: Root, manifest: Manifest, feed: FeedSpec, qid: int, stretch: Stretch, wanted: Wanted
) -> Iterator[Answers]:
    """Yield the answers of one query that are stored as rows; they stand together in each run."""
    state = manifest.stores.get(answer_store(feed, "rows"))
    if state is None:
        return
    begin, latest = within_int64(wanted.times)
    found, mine = lookup(root, state), None
    spans = found.spans(qid, begin=begin, latest=latest, first=stretch.first)
    n_rows = spans.n_rows
    if n_rows and (stretch.first or stretch.stop < LAST_EPOCH):
        epochs = found.copied(spans, (EPOCH,))[EPOCH].to_numpy()
        mine = (epochs >= stretch.first) & (epochs < stretch.stop)
        n_rows = int(np.count_nonzero(mine))
    wanted.room.require_rows(n_rows)
    if not n_rows:
        return
    columns = found.copied(spans, (*state.schema.names, EPOCH))
    if mine is not None and n_rows < mine.size:
        columns = {name: each.filter(pa.array(mine)) for name, each in columns.items()}
    limited = wanted.room.n_bytes is not None
    wanted.room.hold(n_rows, sum(each.nbytes for each in columns.values()) if limited else 0)
    yield columns


def stored_answers(
    root: Root,
    manifest: Manifest,
    feed: FeedSpec,
    qid: int | None,
    stretch: Stretch,
    wanted: Wanted,
) -> Iterator[pa.Table]:
    """Yield answers that are stored as rows; all runs of them, or the newest.

    What is read takes its room, unless it is of the last.
    """
    state, last, room = manifest.stores.get(answer_store(feed, "rows")), wanted.last, wanted.room
    keys = None if qid is None or feed.stores_sets else (qid, qid + 1)
    alive = None
    if qid is None and feed.shared and feed.retain is not None and feed.plan is None:
        alive = standing_ids(root, manifest, feed)

    def rows_of(run: Run) -> Iterator[pa.Table]:
        for piece in _between(run, wanted.times):
            read = read_piece(root, piece, keys=keys, times=wanted.times)
            rows = _within(with_epoch(read, run.epoch), stretch)
            if feed.stores_sets:
                room.require_rows(n_told(rows) if qid is None else 0)
                rows = of_each_query(rows, qid)
            if alive is not None:
                rows = rows.filter(pa.array(np.isin(rows.column("_key").to_numpy(), alive)))
            yield rows

    runs = _runs(state, stretch)
    if last is not None and last > 0:
        yield from _newest(runs, rows_of, last)
        return
    if not feed.shared and not stretch.first and stretch.stop == LAST_EPOCH:
        room.require_rows(certain_rows(runs, wanted.times))
    for run in runs:
        yield from map(room.take, rows_of(run))


def _runs(state: StoreState | None, stretch: Stretch) -> list[Run]:
    """Return the runs that may have rows of some epochs; one that was merged has earlier ones."""
    return [
        run
        for run in (() if state is None else state.runs)
        if run.epoch >= stretch.first and (run.level or run.epoch < stretch.stop)
    ]


def _between(run: Run, times: Range) -> Iterator[Piece]:
    """Yield the pieces of a run that may have rows of some times."""
    for piece in run.pieces:
        if piece.min_time < times[1] and piece.max_time >= times[0]:
            yield piece


def _within(rows: pa.Table, stretch: Stretch) -> pa.Table:
    if stretch.first:
        rows = rows.filter(pc.greater_equal(rows.column(EPOCH), stretch.first))
    if stretch.stop < LAST_EPOCH:
        rows = rows.filter(pc.less(rows.column(EPOCH), stretch.stop))
    return rows


def _newest(
    runs: Sequence[Run], rows_of: Callable[[Run], Iterator[pa.Table]], last: int
) -> Iterator[pa.Table]:
    """Yield the rows of as many of the newest runs as hold the last rows, in the order of runs.

    While runs are being merged, epochs of one may be among those of others.
    """
    read: dict[int, list[pa.Table]] = {}
    epochs: list[NDArray[np.int64]] = []
    n_rows = 0
    for run in sorted(runs, key=lambda run: run.epoch, reverse=True):
        if n_rows >= last and run.epoch < np.partition(np.concatenate(epochs), -last)[-last]:
            break
        read[run.id] = list(rows_of(run))
        epochs += [each.column(EPOCH).to_numpy() for each in read[run.id]]
        n_rows += sum(each.num_rows for each in read[run.id])
    for run in runs:
        yield from read.get(run.id, ())


@remembered
def no_answers(feed: FeedSpec, fan_out: FanOut) -> pa.Table:
    """Return a table without rows, in the columns in which the answers of a feed are told."""
    store = answer_store(feed, fan_out)
    stored = with_epoch(dict(store_specs_of(feed))[store].schema.empty_table(), 0)
    if feed.stores_sets and fan_out == "rows":
        stored = of_each_query(stored)
    return shown(stored, several=tells_queries_apart(store))
