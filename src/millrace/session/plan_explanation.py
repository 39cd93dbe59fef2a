"""Explanations of queries that are more than selections: the plan, where it runs, what it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import indent
from typing import TYPE_CHECKING

from millrace.engine.feeds import FeedSpec
from millrace.engine.plans import CHANGE, PlanSpec
from millrace.errors import MillraceError
from millrace.plan.bounds import growths
from millrace.plan.declared import Declared
from millrace.plan.gathering import why_gathered
from millrace.plan.journeys import journeys
from millrace.plan.levels import BIRTHS, QUERIES, family_declared
from millrace.plan.panes import Paned, paned
from millrace.plan.placement import EVERYWHERE, FIRST, Placing
from millrace.plan.relations import Relation, StreamOf
from millrace.plan.tree import tree
from millrace.session.family_explanation import sharing_lines
from millrace.session.pane_explanation import pane_lines
from millrace.session.plan_stores import store_lines
from millrace.session.plan_work import shard_line, work_lines
from millrace.session.planning import bound_relation, declared_in, planned_feed
from millrace.session.template import Template
from millrace.time import print_duration

if TYPE_CHECKING:
    from millrace.lang.relational.bound import BoundRelation
    from millrace.session.session import Session

_WIDTH = 9  # of the word before each line
_REFUSED = ": refused, unless it is created WITH (unbounded = allowed)"


def explain_relation(session: Session, bound: BoundRelation) -> str:
    """Explain a query that is not registered."""
    feed = planned_feed("query", bound.plan, session, unbounded=True)
    return "\n".join(_lines(session, feed, bound))


def explain_plan(session: Session, feed: FeedSpec, *, analyze: bool = False) -> list[str]:
    """Explain a standing query; one that was not a text is shown by its plan only.

    With `analyze` the plan is shown as it runs, with what its operators have done.
    """
    try:
        bound = bound_relation(feed.text, session, dict(feed.parameters))
    except MillraceError:
        bound = None
    return list(_lines(session, feed, bound, analyze=analyze))


def same_plan(session: Session, bound: BoundRelation) -> Iterator[str]:
    """Yield the names of the standing queries whose plan is that of another one."""
    wanted = planned_feed("query", bound.plan, session, unbounded=True).plan
    plans = session.engine.registry.catalog.plans()
    return (each.name for each in plans if each.plan == wanted)


def _lines(
    session: Session, feed: FeedSpec, bound: BoundRelation | None, *, analyze: bool = False
) -> Iterator[str]:
    assert feed.plan is not None, "only a plan is explained here"
    yield f"query    {feed.text if bound is None else bound.expanded}"
    for each in bound.cautions if bound is not None else ():
        yield f"caution  {each.code}: {each.message}. {each.hint}".rstrip()
    yield _answers(feed)
    if feed.plan.parameters is not None:
        yield from _family(session, feed)
    work = work_lines(session, feed) if analyze else []
    yield _block("plan", work or tree(_shown(feed.plan, bound)))
    if analyze:
        yield from _measured(session, feed)
    yield f"runs     {_place(session, feed.plan)}"
    yield from _hops(session, feed.plan)
    for name in feed.plan.tables:
        yield f"table    {name}: its changes take effect where a slab begins"
    yield _block("stores", store_lines(session, feed))
    for growth in growths(_shown(feed.plan, None) if bound is None else bound.plan):
        refused = growth.grows == "with rows" and not feed.number
        yield f"grows    {growth.reason}{_REFUSED if refused else ''}"
    yield f"results  {_results(session, feed.plan)}"


def _block(word: str, lines: Iterable[str]) -> str:
    """Put a word before the first of several lines."""
    return f"{word:<{_WIDTH}}" + indent("\n".join(lines), " " * _WIDTH)[_WIDTH:]


def _measured(session: Session, feed: FeedSpec) -> Iterator[str]:
    work = session.engine.work.plans.get(feed.number)
    if work is None:
        yield "work     none yet: no epoch has moved the query on since this engine started"
    elif work.shards:
        yield f"shards   {shard_line(work)}"


def _shown(plan: PlanSpec, bound: BoundRelation | None) -> Relation | StreamOf:
    """Return the plan as it was asked, or without that, as it runs; that of a family as it runs."""
    if bound is not None and plan.parameters is None:
        return bound.plan
    return plan.told[0] if len(plan.told) == 1 else plan.told[0].relation


def _family(session: Session, feed: FeedSpec) -> Iterator[str]:
    """Say who shares the plan, and how to read where parameters join it."""
    found = session.standing(feed.name)
    n_queries = len(found) if isinstance(found, Template) else 1
    yield f'shared   by {n_queries:,} standing queries of {feed.kind} "{feed.name}"'
    if feed.plan is not None and feed.plan.sharing is not None:
        yield from sharing_lines(session, feed)
        return
    names = ", ".join(f"p{at} is :{name}" for at, (name, _) in enumerate(feed.parameters))
    panes = _panes(session, feed)
    if panes is not None and isinstance(found, Template):
        yield from pane_lines(panes, found.rows().select([name for name, _ in feed.parameters]))
        yield f"meaning  the plan below, joined with {QUERIES}: {names}"
        return
    yield f"joined   with {QUERIES}, a row for each query, where parameters are used: {names}"
    yield f"births   {BIRTHS} are queries that began together; what is below is shared by them"


def _panes(session: Session, feed: FeedSpec) -> Paned | None:
    """Return how the queries of a template share panes, if they do."""
    plan = feed.plan
    if plan is None or plan.sharing is not None or plan.panes == "never":
        return None
    return paned(plan.told[0], _declared(session, plan))


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
    return f"in one shard: {why_gathered(plan.told[0], Placing(_declared(session, plan)))}"


def _declared(session: Session, plan: PlanSpec) -> Declared:
    """Return what a plan may name."""
    declared = declared_in(session)
    if plan.parameters is None or plan.sharing is not None:
        return declared
    return family_declared(declared, plan.parameter_types)


def _hops(session: Session, plan: PlanSpec) -> Iterator[str]:
    """Tell where rows travel between shards, if they do."""
    if plan.hops and plan.columns is not None:
        placing = Placing(_declared(session, plan), dict(plan.columns))
        for number, journey in journeys(plan.told[0], placing):
            yield f"hop {number}    {journey}"


def _results(session: Session, plan: PlanSpec) -> str:
    delays = [(name, session.streams[name].delay) for name in plan.sources]
    shown = ", ".join(
        f"{name} is complete " + (f"{print_duration(delay)} behind its newest row" if delay
                                  else "up to its newest row")
        for name, delay in delays
    )  # fmt: skip
    return f"appear when the watermark passes: {shown}"
