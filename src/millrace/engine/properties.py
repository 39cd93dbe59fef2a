"""Properties: what can be told of every entity of an engine, as rows of SysStream.

    type      what the row is about         properties
    stream    a stream                      rows, rate (rows/s), lag (s)
    index     the index over a stream       rows, rate (rows/s), results, selectivity, seconds,
                                            bytes
    family    selections that are one plan  results, rate (results/s), selectivity
    query     a feed of answers             results, rate (results/s)
    operator  an operator of a plan         rows_in, rows_out, selectivity, seconds, again,
                                            state_rows, state_bytes
    table     a table                       rows
    store     a store of the root           rows, bytes, runs
    sink      a sink                        lag (epochs), backlog_rows, backlog_bytes, failures
    epoch     the epochs since last time    n, p50 (s), p99 (s), rows, results, late, dead, ...
    engine    the engine as a whole         queries, families, feeds, state_rows, state_bytes, ...
    gateway   one that serves a console     requests, rate (requests/s), seconds (mean), subscribers

Counts are those since the last time that properties were published; sizes are as they are now.
`fval` always holds the number, and `ival` too if it is a whole one. `id` is the number of the
entity where it has one; `query` is the feed to which a family, an operator or a store belongs. What
passes a selection is counted for each row that it looks at: it may be more than one.

Epochs, streams and the engine are also told while nobody listens; the rest is not.

Cost: a row is about 60 bytes; an engine with 10 plans of 10 operators tells about 800 of them, and
with 2 streams 35 if nobody listens.
"""

from __future__ import annotations

import os
import resource
import statistics as numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from millrace.engine.flows import flow
from millrace.engine.hidden import is_hidden
from millrace.engine.plan_stores import state_prefix
from millrace.engine.plans import compiled
from millrace.engine.statistics import EpochStatistics
from millrace.engine.store_sizes import EMPTY, Size, Sizes
from millrace.engine.stores import answers_in
from millrace.engine.work import Done
from millrace.plan.tree import operator_name
from millrace.time import SECOND

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.engine.epoch import Engine
    from millrace.engine.feeds import Family, FeedSpec

MOST_QUERIES = 1_000
"""Of more feeds than this that had results, only those with the most are told."""
MOST_SILENT = 100
"""Of more feeds than this, those that had no results are not told."""
SUMS = ("rows", "results", "late", "dead", "bytes_sent", "bytes_written", "merges", "merged_rows")
RATES = {"row_rate": "rows", "result_rate": "results", "late_rate": "late", "dead_rate": "dead"}
STAGES = ("decide", "run", "commit")

Number = TypeVar("Number", int, float)
Totals = Mapping[int, Mapping[str, Done]]
"""What the operators of plans had done in all, by the numbers of their feeds."""


class Property(NamedTuple):
    """One property of one entity."""

    type: str
    name: str
    property: str
    value: float
    query: str | None = None
    id: int | None = None


def told_by_epochs(epochs: Sequence[EpochStatistics], seconds: float) -> Iterator[Property]:
    """Tell of some epochs that ran within so many seconds, and of their streams."""
    last = epochs[-1]
    took = [each.total_seconds for each in epochs]
    yield Property("epoch", "epochs", "n", len(epochs))
    yield Property("epoch", "epochs", "p50", numbers.median(took))
    yield Property("epoch", "epochs", "p99", _high(took))
    yield Property("epoch", "epochs", "busy", min(sum(took) / seconds, 1.0))
    for stage in STAGES:
        spent = sum(each.seconds.get(stage, 0.0) for each in epochs)
        yield Property("epoch", "epochs", stage, spent)
    for name in SUMS:
        yield Property("epoch", "epochs", name, sum(getattr(each, name) for each in epochs))
    for rate, name in RATES.items():
        counted = sum(getattr(each, name) for each in epochs)
        yield Property("epoch", "epochs", rate, counted / seconds)
    rows = _summed(each.rows_by_stream for each in epochs)
    for stream in sorted({*rows, *last.lag} - {""}):  # plans have a tally without a stream
        yield Property("stream", stream, "rows", rows.get(stream, 0))
        yield Property("stream", stream, "rate", rows.get(stream, 0) / seconds)
        if stream in last.lag:
            yield Property("stream", stream, "lag", last.lag[stream] / SECOND)


def told_by_selections(
    epochs: Sequence[EpochStatistics], seconds: float, catalog: Catalog
) -> Iterator[Property]:
    """Tell of the indexes, the families and the feeds of some epochs."""
    rows = _summed(each.rows_by_stream for each in epochs)
    found = _summed(each.results_by_stream for each in epochs)
    spent = _summed(each.select_by_stream for each in epochs)
    selections = _selections(catalog)
    for stream in sorted(rows.keys() & found.keys() & selections.streams):
        yield Property("index", stream, "rows", rows[stream])
        yield Property("index", stream, "rate", rows[stream] / seconds)
        yield Property("index", stream, "results", found[stream])
        yield Property("index", stream, "seconds", spent.get(stream, 0.0))
        if rows[stream]:
            yield Property("index", stream, "selectivity", found[stream] / rows[stream])
    results = _summed(each.results_by_query for each in epochs)
    if len(catalog.feeds) <= MOST_SILENT:
        results = {name: 0 for name in catalog.feeds if not is_hidden(name)} | results
    for feed in sorted(results, key=lambda each: -results[each])[:MOST_QUERIES]:
        yield Property("query", feed, "results", results[feed])
        yield Property("query", feed, "rate", results[feed] / seconds)
        if feed in selections.families:
            family, read = selections.families[feed], rows.get(catalog.feeds[feed].stream, 0)
            yield Property("family", family, "results", results[feed], feed)
            yield Property("family", family, "rate", results[feed] / seconds, feed)
            if read:
                yield Property("family", family, "selectivity", results[feed] / read, feed)


def told_by_parts(engine: Engine, sizes: Sizes, before: Totals) -> Iterator[Property]:
    """Tell what the parts of an engine hold, and what operators have done since `before`."""
    catalog, registry = engine.registry.catalog, engine.registry
    for stream, size in registry.index_bytes().items():
        if stream in _selections(catalog).streams:
            yield Property("index", stream, "bytes", size)
    for table, n_rows in registry.table_sizes().items():
        yield Property("table", table, "rows", n_rows)
    for feed in catalog.plans():
        yield from _operators(engine, feed, sizes, before.get(feed.number, {}))
    for name, held in sizes.items():
        if answers_in(name) is None:
            query = _owner(name)
            yield Property("store", name, "rows", held.rows, query)
            yield Property("store", name, "bytes", held.bytes, query)
            yield Property("store", name, "runs", held.runs, query)
    for sink in engine.delivery.status():
        yield Property("sink", sink.name, "lag", sink.lag_epochs)
        yield Property("sink", sink.name, "backlog_rows", sink.backlog_rows)
        yield Property("sink", sink.name, "backlog_bytes", sink.backlog_bytes)
        yield Property("sink", sink.name, "failures", sink.n_failures)


def told_by_engine(engine: Engine, sizes: Sizes) -> Iterator[Property]:
    """Tell what the engine as a whole holds now."""
    catalog = engine.registry.catalog
    held = {
        "queries": engine.registry.population.n_rows,
        "families": len(catalog.families),
        "feeds": len(catalog.feeds),
        "streams": len(catalog.streams),
        "state_rows": sum(each.rows for each in sizes.values()),
        "state_bytes": sum(each.bytes for each in sizes.values()),
        "runs": sum(each.runs for each in sizes.values()),
        "memory_bytes": memory_bytes(),
    }
    for name, value in held.items():
        yield Property("engine", "engine", name, value)


def told_by_gateways(gateways: Mapping[str, Mapping[str, float]]) -> Iterator[Property]:
    """Tell what gateways have said of themselves."""
    for name, properties in gateways.items():
        for each, value in properties.items():
            yield Property("gateway", name, each, value)


def totals(engine: Engine) -> Totals:
    """Return what operators have done in all; told now, it is what they had done before."""
    return {number: dict(work.total) for number, work in engine.work.plans.items()}


def memory_bytes() -> int:
    """Return how much memory this process has; its most so far, where Linux does not say."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123  a pseudo-file, read each second
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024


class _Selections(NamedTuple):
    """The streams with an index, and, of feeds that have only one, the keys of families."""

    streams: frozenset[str]
    families: Mapping[str, str]


_known: tuple[Mapping[str, Family], _Selections] = {}, _Selections(frozenset(), {})


def _selections(catalog: Catalog) -> _Selections:
    """Go through the families of a catalog, unless they are those of the last time."""
    global _known  # noqa: PLW0603  there may be many, and they are asked for each second
    known = _known
    if known[0] is not catalog.families:
        feeds: dict[str, list[str]] = {}
        for key, each in catalog.families.items():
            if catalog.feeds[each.feed].plan is None:
                feeds.setdefault(each.feed, []).append(key)
        streams = frozenset(catalog.feeds[feed].stream for feed in feeds)
        alone = {feed: keys[0] for feed, keys in feeds.items() if len(keys) == 1}
        known = _known = catalog.families, _Selections(streams, alone)
    return known[1]


def _operators(
    engine: Engine, feed: FeedSpec, sizes: Sizes, before: Mapping[str, Done]
) -> Iterator[Property]:
    work = engine.work.plans.get(feed.number)
    if work is None:
        return
    since = {name: _less(done, before.get(name, Done())) for name, done in work.total.items()}
    plan, prefix = compiled(feed, engine.registry.catalog), state_prefix(feed)
    names = plan.names()
    remembered: dict[str, list[Size]] = {}
    for store in plan.stores:
        remembered.setdefault(store.partition(".")[0], []).append(sizes.get(prefix + store, EMPTY))
    for node, short in names.items():
        read, told, seconds = flow(since, node, names)
        name = f"{operator_name(node)} {short}"
        values = {"rows_in": read, "rows_out": told, "seconds": seconds}
        if read:
            values["selectivity"] = told / read
        again = since.get(short, Done()).again
        if again:
            values["again"] = again
        if short in remembered:
            values["state_rows"] = sum(each.rows for each in remembered[short])
            values["state_bytes"] = sum(each.bytes for each in remembered[short])
        for each, value in values.items():
            yield Property("operator", name, each, value, feed.name, feed.number)


def _less(done: Done, before: Done) -> Done:
    return Done(done.rows - before.rows, done.seconds - before.seconds, done.again - before.again)


def _owner(store: str) -> str | None:
    kind, _, rest = store.partition("/")
    return rest.rpartition("/")[0].rpartition(".")[0] if kind == "state" else None


def _high(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * 0.99), len(ordered) - 1)]


def _summed(parts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    total: dict[str, Number] = {}
    for part in parts:
        for name, number in part.items():
            total[name] = total[name] + number if name in total else number
    return total
