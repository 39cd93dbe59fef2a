"""What a family that is one join shares, and how its queries are found now.

The strategy is chosen for each slab, where that runs. What is told here is chosen in the same way,
for the newest elements that are stored: the last `SAMPLE` of them ask those before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from millrace.engine import facts
from millrace.engine.elements import StoredElements
from millrace.engine.feeds import FeedSpec
from millrace.engine.members import Marked
from millrace.engine.plan_stores import element_stores
from millrace.engine.plans import compiled
from millrace.engine.query_rows import BORN
from millrace.engine.running import EVERYTHING
from millrace.kernels.arrays import Ints
from millrace.operators.joining.choosing import AUTO, FEW_QUERIES
from millrace.operators.joining.family import FamilyJoin
from millrace.operators.relational.slab import Slab
from millrace.operators.relational.state import MemoryState
from millrace.operators.weighing import Weighed
from millrace.plan.levels import QUERY
from millrace.session.plan_stores import readers

if TYPE_CHECKING:
    from millrace.session.session import Session

SAMPLE = 1_000


def sharing_lines(session: Session, feed: FeedSpec, parameters: str) -> Iterator[str]:
    """Yield what the join of a family is made of, with whom it shares that, and how it finds."""
    yield f"joined   once for all of them; each query is a row of parameters: {parameters}"
    catalog = session.engine.registry.catalog
    n_readers = readers(catalog)
    for store in element_stores(feed, catalog):
        by = "time" if store.place is None else store.place
        others = n_readers[store.name] - 1
        yield f"stem     {store.stream} by {by}, shared with {others:,} other plan" + (
            "" if others == 1 else "s"
        )
    yield f"strategy {strategy_line(session, feed)}"
    yield from lately(session, feed, "elements")


def lately(session: Session, feed: FeedSpec, what: str) -> Iterator[str]:
    """Yield how a plan's shards have found queries when they last did, wherever they run."""
    done = session.engine.work.plans.get(feed.number)
    if done is not None and done.weighed is not None:
        found = done.weighed
        yield f"lately   {found.way}, for {found.n_asking:,} {what}{found.spelt()}"


def strategy_line(session: Session, feed: FeedSpec) -> str:
    """Say how the queries of a family are found now, and why."""
    assert feed.plan is not None, "a family has a plan"
    assert feed.plan.sharing is not None, "it is one join"
    wanted, found = feed.plan.sharing.strategy, weighed(session, feed)
    if found is None:
        return f"{wanted}: nothing has come yet"
    why = "it is forced" if wanted == found.way else "it is expected to take least"
    n_queries = session.engine.registry.family_rows(feed.name).num_rows
    if wanted == AUTO and not found.costs:
        why = "no range of two streams finds queries"
    elif wanted == AUTO and n_queries <= FEW_QUERIES:
        why = "so few queries are asked all at once"
    asked = f"; for the last {found.n_asking:,} elements" if found.costs else ""
    return f"{found.way}: {why}{asked}{found.spelt()}"


def weighed(session: Session, feed: FeedSpec) -> Weighed | None:
    """Return how the newest stored elements would find their queries; None if there are none."""
    members, slab = _Now(session, feed), _sample(session, feed)
    if slab is None:
        return None
    join = _join(session, feed)
    return join.weighed(join.prepare(members.rows()), replace(slab, members=members))


def _join(session: Session, feed: FeedSpec) -> FamilyJoin:
    join = compiled(feed, session.engine.registry.catalog).family_join
    assert join is not None, "it is one join"
    return join


@dataclass(frozen=True, slots=True)
class _Now:
    """The queries of a family as they stand, whenever they came."""

    session: Session
    feed: FeedSpec
    version: None = None

    def rows(self) -> pa.RecordBatch:
        """Return their ids, the changes that they came with, and their parameters."""
        table = self.session.engine.registry.family_rows(self.feed.name)
        ids = table.column(0).combine_chunks().cast(pa.int64())
        columns = [each.combine_chunks() for each in table.columns[1:]]
        names = [QUERY, BORN, *(f"p{at}" for at in range(len(columns)))]
        born = pa.array(np.zeros(len(ids), np.int64))
        return pa.RecordBatch.from_arrays([ids, born, *columns], names=names)

    def since(self, version: Hashable) -> None:
        """Return nothing: they are asked about once."""

    def entered(self, born: Ints) -> Ints:
        """Return the epochs from which on those see elements: for once, all of them see all."""
        return born


def _sample(session: Session, feed: FeedSpec) -> Slab | None:
    """Return a slab of the newest elements that are stored, and of those before them."""
    engine, catalog = session.engine, session.engine.registry.catalog
    end = facts.frontiers(engine.manifest, catalog).get(feed.name)
    if end is None:
        return None
    stores = {each.stream: each for each in element_stores(feed, catalog)}
    held = {
        each.name: tuple(
            piece for run in engine.manifest.stores[each.name].runs for piece in run.pieces
        )
        for each in stores.values()
        if each.name in engine.manifest.stores
    }
    entered = facts.entered(engine.manifest, catalog).get(feed.name, 0)
    reach = facts.reaches(engine.manifest, catalog).get(feed.name, 0)
    every = StoredElements(engine.root, held, catalog, stores, EVERYTHING, entered, end)
    times = [every.between(name, end - reach, end).times for name in stores]
    newest = np.sort(np.concatenate(times))[-SAMPLE:]
    if not len(newest):
        return None
    begin = int(newest[0])
    before = StoredElements(engine.root, held, catalog, stores, EVERYTHING, entered, begin)
    new = {name: Marked(every).between(name, begin, end) for name in stores}
    return Slab(begin, end, new, {}, MemoryState(), past=Marked(before))
