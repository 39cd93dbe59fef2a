"""Explanations of queries that are more than selections: the plan, where it runs, what it keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from textwrap import indent
from typing import TYPE_CHECKING

from millrace.engine.feeds import FeedSpec
from millrace.engine.plans import CHANGE, PlanSpec, compiled
from millrace.errors import MillraceError
from millrace.plan.bounds import growths
from millrace.plan.gathering import why_gathered
from millrace.plan.journeys import journeys
from millrace.plan.placement import EVERYWHERE, FIRST, Placing
from millrace.plan.relations import Relation, StreamOf
from millrace.plan.tree import operator_name, tree
from millrace.session.planning import bound_relation, declared_in, planned_feed
from millrace.time import print_duration

if TYPE_CHECKING:
    from millrace.lang.relational.bound import BoundRelation
    from millrace.session.session import Session

_WIDTH = 9  # of the word before each line


def explain_relation(session: Session, bound: BoundRelation) -> str:
    """Explain a query that is not registered."""
    feed = planned_feed("query", bound.plan, session, 0, unbounded=True)
    return "\n".join(_lines(session, feed, bound))


def explain_plan(session: Session, feed: FeedSpec) -> list[str]:
    """Explain a standing query; one that was not a text is shown by its plan only."""
    try:
        bound = bound_relation(feed.text, session)
    except MillraceError:
        bound = None
    return list(_lines(session, feed, bound))


def _lines(session: Session, feed: FeedSpec, bound: BoundRelation | None) -> Iterator[str]:
    assert feed.plan is not None, "only a plan is explained here"
    yield f"query    {feed.text if bound is None else bound.expanded}"
    for each in bound.cautions if bound is not None else ():
        yield f"caution  {each.code}: {each.message}. {each.hint}".rstrip()
    yield _answers(feed)
    drawn = indent("\n".join(tree(_shown(feed.plan, bound))), " " * _WIDTH)
    yield "plan     " + drawn.lstrip()
    yield f"runs     {_place(session, feed.plan)}"
    yield from _hops(session, feed.plan)
    for name in feed.plan.tables:
        yield f"table    {name}: its changes take effect where a slab begins"
    yield f"stores   {_stores(session, feed)}"
    for growth in growths(_shown(feed.plan, bound)):
        yield f"grows    {growth.reason}"
    yield f"results  {_results(session, feed.plan)}"


def _shown(plan: PlanSpec, bound: BoundRelation | None) -> Relation | StreamOf:
    """Return the plan as it was asked, or without that, as it runs."""
    if bound is not None:
        return bound.plan
    return plan.told[0] if len(plan.told) == 1 else plan.told[0].relation


def _answers(feed: FeedSpec) -> str:
    if CHANGE in feed.answer.names:
        return f"answers  a relation: {CHANGE} is 1 for a row that comes, -1 for one that goes"
    return "answers  a stream: each row is told once"


def _place(session: Session, plan: PlanSpec) -> str:
    if plan.columns is not None:
        special = {EVERYWHERE: "everywhere", FIRST: "in the first shard"}
        spread = ", ".join(
            f"{name} {special.get(column, f'by {column}')}" for name, column in plan.columns
        )
        stages = f", in {plan.hops + 1} stages" if plan.hops else ""
        return f"in all shards side by side{stages}: rows are spread, {spread}"
    return f"in one shard: {why_gathered(plan.told[0], Placing(declared_in(session)))}"


def _hops(session: Session, plan: PlanSpec) -> Iterator[str]:
    """Tell where rows travel between shards, if they do."""
    if plan.hops and plan.columns is not None:
        placing = Placing(declared_in(session), dict(plan.columns))
        for number, journey in journeys(plan.told[0], placing):
            yield f"hop {number}    {journey}"


def _stores(session: Session, feed: FeedSpec) -> str:
    assert feed.plan is not None, "only a plan has stores"
    waiting = feed.plan.sources
    owners = compiled(feed, session.engine.registry.catalog).owners()
    counts = Counter(operator_name(each) for each in owners.values())
    kept = ", ".join(f"{number} of {name}" for name, number in counts.items()) or "none"
    return f"{len(waiting)} of rows that wait ({', '.join(waiting)}); of state: {kept}"


def _results(session: Session, plan: PlanSpec) -> str:
    delays = [(name, session.streams[name].delay) for name in plan.sources]
    shown = ", ".join(
        f"{name} is complete " + (f"{print_duration(delay)} behind its newest row" if delay
                                  else "up to its newest row")
        for name, delay in delays
    )  # fmt: skip
    return f"appear when the watermark passes: {shown}"
