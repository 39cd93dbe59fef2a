"""Properties: what can be told of every entity of an engine, as rows of SysStream.

    type      what the row is about         properties
    stream    a stream                      rows, rate (rows/s), lag (s)
    query     a feed of answers             results, rate (results/s)
    operator  an operator of a plan         rows_in, rows_out, selectivity, seconds, again
    store     a store of the root           rows, bytes, runs
    sink      a sink                        lag (epochs), backlog_rows, backlog_bytes, failures
    epoch     the epochs since last time    n, p50 (s), p99 (s), rows, results, late, dead, ...
    engine    the engine as a whole         queries, families, feeds, state_rows, state_bytes, ...
    gateway   one that serves a console     requests, rate (requests/s), seconds (mean), subscribers

Counts are those since the last time that properties were published; sizes are as they are now.
`fval` always holds the number, and `ival` too if it is a whole one. `id` is the number of the
entity where it has one; `query` is the feed to whose plan an operator or a store belongs.

Cost: a row is about 60 bytes; an engine with 10 plans of 10 operators tells about 600 of them.
"""

from __future__ import annotations

import os
import resource
import statistics as numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from millrace.engine.flows import flow
from millrace.engine.plans import compiled
from millrace.engine.statistics import EpochStatistics
from millrace.engine.stores import answers_in
from millrace.engine.work import Done
from millrace.plan.tree import operator_name
from millrace.time import SECOND

if TYPE_CHECKING:
    from millrace.engine.epoch import Engine
    from millrace.engine.feeds import FeedSpec

MOST_QUERIES = 1_000
"""Of more feeds than this that had results, only those with the most are told."""
SUMS = ("rows", "results", "late", "dead", "bytes_sent", "bytes_written", "merges", "merged_rows")
STAGES = ("decide", "run", "commit")

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
    """Tell of some epochs that ran within so many seconds, and of their streams and feeds."""
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
    yield Property("epoch", "epochs", "row_rate", sum(each.rows for each in epochs) / seconds)
    results_in_all = sum(each.results for each in epochs)
    yield Property("epoch", "epochs", "result_rate", results_in_all / seconds)
    rows = _summed(each.rows_by_stream for each in epochs)
    for stream in sorted({*rows, *last.lag} - {""}):  # plans have a tally without a stream
        yield Property("stream", stream, "rows", rows.get(stream, 0))
        yield Property("stream", stream, "rate", rows.get(stream, 0) / seconds)
        if stream in last.lag:
            yield Property("stream", stream, "lag", last.lag[stream] / SECOND)
    results = _summed(each.results_by_query for each in epochs)
    for feed in sorted(results, key=lambda each: -results[each])[:MOST_QUERIES]:
        yield Property("query", feed, "results", results[feed])
        yield Property("query", feed, "rate", results[feed] / seconds)


def told_by_engine(engine: Engine, before: Totals) -> Iterator[Property]:
    """Tell what the engine holds now, and what operators have done since they had done `before`."""
    catalog, manifest = engine.registry.catalog, engine.manifest
    for feed in catalog.plans():
        yield from _operators(engine, feed, before.get(feed.number, {}))
    n_rows = n_bytes = n_runs = 0
    for name, state in manifest.stores.items():
        pieces = [piece for run in state.runs for piece in run.pieces]
        rows, size = sum(each.rows for each in pieces), sum(each.bytes for each in pieces)
        n_rows, n_bytes, n_runs = n_rows + rows, n_bytes + size, n_runs + len(state.runs)
        if answers_in(name) is None:
            query = _owner(name)
            yield Property("store", name, "rows", rows, query)
            yield Property("store", name, "bytes", size, query)
            yield Property("store", name, "runs", len(state.runs), query)
    for sink in engine.delivery.status():
        yield Property("sink", sink.name, "lag", sink.lag_epochs)
        yield Property("sink", sink.name, "backlog_rows", sink.backlog_rows)
        yield Property("sink", sink.name, "backlog_bytes", sink.backlog_bytes)
        yield Property("sink", sink.name, "failures", sink.n_failures)
    held = {
        "queries": engine.registry.population.n_rows,
        "families": len(catalog.families),
        "feeds": len(catalog.feeds),
        "streams": len(catalog.streams),
        "state_rows": n_rows,
        "state_bytes": n_bytes,
        "runs": n_runs,
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


def _operators(engine: Engine, feed: FeedSpec, before: Mapping[str, Done]) -> Iterator[Property]:
    work = engine.work.plans.get(feed.number)
    if work is None:
        return
    since = {name: _less(done, before.get(name, Done())) for name, done in work.total.items()}
    names = compiled(feed, engine.registry.catalog).names()
    for node, short in names.items():
        read, told, seconds = flow(since, node, names)
        name = f"{operator_name(node)} {short}"
        values = {"rows_in": read, "rows_out": told, "seconds": seconds}
        if read:
            values["selectivity"] = told / read
        again = since.get(short, Done()).again
        if again:
            values["again"] = again
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


def _summed(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, number in part.items():
            total[name] = total.get(name, 0) + number
    return total
