"""What the stores of a plan hold: in words, how many bytes a row takes, and what is there.

How many rows are expected is told where the streams run, by the rates that were measured; before
that only for what, so that a reader can put in a rate of his own. Stores that are hardly ever used
are left out while they are empty.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.feeds import FeedSpec
from millrace.engine.plan_stores import (
    ElementStore,
    element_schema,
    element_stores,
    plan_stores,
    state_prefix,
)
from millrace.engine.plans import compiled
from millrace.engine.statistics import EpochStatistics
from millrace.operators.relational.holding import Holdings, row_bytes
from millrace.plan.extent import Extent, Rates
from millrace.plan.tree import operator_name
from millrace.state.manifest import Manifest
from millrace.state.sizes import print_bytes
from millrace.time import SECOND, print_duration

if TYPE_CHECKING:
    from millrace.session.session import Session


def measured_rates(statistics: Iterable[EpochStatistics]) -> dict[str, float]:
    """Return how many rows a second each stream had, by its own time, over some epochs."""
    firsts: dict[str, int] = {}
    lasts: dict[str, int] = {}
    rows: dict[str, int] = {}
    for each in statistics:
        for stream, lag in each.lag.items():
            mark = each.started - lag
            if stream in firsts:
                rows[stream] = rows.get(stream, 0) + each.rows_by_stream.get(stream, 0)
            firsts.setdefault(stream, mark)
            lasts[stream] = mark
    return {
        stream: rows[stream] / (lasts[stream] - first) * SECOND
        for stream, first in firsts.items()
        if lasts[stream] > first
    }


def held(manifest: Manifest, store: str) -> tuple[int, int]:
    """Return how many rows a store holds, and how many bytes they take."""
    found = manifest.stores.get(store)
    pieces = [] if found is None else [each for run in found.runs for each in run.pieces]
    return sum(each.rows for each in pieces), sum(each.bytes for each in pieces)


def readers(catalog: Catalog) -> Counter[str]:
    """Count the plans that read each store of elements."""
    return Counter(each.name for feed in catalog.plans() for each in element_stores(feed, catalog))


def held_by(session: Session, feed: FeedSpec, n_readers: Mapping[str, int]) -> float:
    """Return how many bytes a plan holds; of what several read, each holds an equal part."""
    catalog, manifest = session.engine.registry.catalog, session.engine.manifest
    return sum(
        held(manifest, name)[1] / n_readers.get(name, 1) for name, _ in plan_stores(feed, catalog)
    )


class Store(NamedTuple):
    """A store of a plan: whose it is, what it is expected to hold, and how much there is."""

    operator: str
    name: str
    expected: Extent
    row_bytes: int
    now: tuple[int, int]

    @property
    def amount(self) -> str:
        """Print what is expected, and what is there."""
        n_rows, n_bytes = self.now
        line = f"about {self.row_bytes} bytes a row, for the {self.expected.words}"
        rows = self.expected.rows
        if rows is not None:
            size = print_bytes(rows * self.row_bytes)
            line += f": about {_counted(float(f'{rows:.2g}'))}, {size}"
        return line + (f"; now {_counted(n_rows)}, {print_bytes(n_bytes)}" if n_rows else "")


def store_lines(session: Session, feed: FeedSpec) -> list[str]:
    """Return a line for each store of a plan: rows that wait, and what operators remember."""
    shown = [each for each in _stores(session, feed) if each.expected.rows != 0 or each.now[0]]
    operators = max(len(each.operator) for each in shown)
    names = max(len(each.name) for each in shown)
    return [f"{each.operator:<{operators}}  {each.name:<{names}}  {each.amount}" for each in shown]


def _stores(session: Session, feed: FeedSpec) -> Iterator[Store]:
    assert feed.plan is not None, "only a plan has stores"
    rates, manifest = measured_rates(session.statistics()), session.engine.manifest
    catalog = session.engine.registry.catalog
    for each in element_stores(feed, catalog):
        width = row_bytes(element_schema(catalog.stream(each.stream), each.laid))
        reach = each.reach
        if reach is None:  # queries say how far back it is, if there are some
            reach = facts.reaches(manifest, catalog).get(feed.name)
        expected = _elements(session, replace(each, reach=reach), rates)
        now = held(manifest, each.name)
        yield Store("stream", each.stream, expected, width, now)
    plan = compiled(feed, catalog)
    schemas, prefix = plan.stores, state_prefix(feed)
    holdings = Holdings(rates, plan.rereading.made)
    for name, owner in plan.owners().items():
        expected, now = holdings.of(name, owner), held(manifest, prefix + name)
        yield Store(operator_name(owner), name, expected, row_bytes(schemas[name]), now)


def _elements(session: Session, store: ElementStore, rates: Rates) -> Extent:
    """Say which rows of a stream are stored, once for all queries that spread it alike.

    They wait to be complete, as long as no other stream lags behind, and are then read again.
    """
    span, rate = session.streams[store.stream].delay, rates.get(store.stream)
    shared = ", shared with other queries"
    if store.reach is None:
        return Extent(f"rows since the query began{shared}")
    span += max(store.reach - 1, 0)
    words = f"rows of the last {print_duration(span)}" if span else "rows that are not complete"
    rows = None if rate is None else rate * span / SECOND
    return Extent(words + (shared if store.reach else ""), rows if span else None)


def _counted(rows: float) -> str:
    return f"{rows:,.0f} row" + ("" if round(rows) == 1 else "s")
