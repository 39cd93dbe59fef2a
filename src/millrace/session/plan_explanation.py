"""Explanations of queries that are more than selections: the plan, where it runs, what it keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import indent
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.feeds import FeedSpec
from millrace.engine.plans import CHANGE, PlanSpec
from millrace.errors import MillraceError
from millrace.plan.bands import CELL
from millrace.plan.bounds import growths
from millrace.plan.gathering import why_gathered
from millrace.plan.journeys import journeys
from millrace.plan.levels import BIRTHS, QUERIES, QUERY
from millrace.plan.placement import EVERYWHERE, FIRST, Placing
from millrace.plan.relations import Relation, StreamOf
from millrace.plan.tree import tree
from millrace.session.alike import kin_of
from millrace.session.band_explanation import range_line
from millrace.session.family_explanation import lately, sharing_lines
from millrace.session.pane_explanation import pane_lines, panes_of
from millrace.session.plan_stores import store_lines
from millrace.session.plan_work import shard_line, work_lines
from millrace.session.planning import bound_relation, declared_for, planned_feed
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
    runner = session.engine.registry.catalog.runner(feed)
    assert feed.plan is not None, "only a plan is explained here"
    assert runner.plan is not None, "it is run by a plan"
    yield f"query    {feed.text if bound is None else bound.expanded}"
    for each in bound.cautions if bound is not None else ():
        yield f"caution  {each.code}: {each.message}. {each.hint}".rstrip()
    yield _answers(feed)
    if runner.runs_queries:
        yield from _family(session, feed, runner)
    elif not feed.number:
        yield from _would_share(session, feed.name, bound)
    work = work_lines(session, runner) if analyze else []
    yield _block("plan", work or tree(_shown(runner.plan, bound)))
    if analyze:
        yield from _measured(session, runner)
    yield f"runs     {_place(session, runner.plan)}"
    if runner.plan.laid:
        yield f"ranges   {range_line(session, runner)}"
    yield from _hops(session, feed.plan)
    for name in feed.plan.tables:
        yield f"table    {name}: its changes take effect where a slab begins"
    yield _block("stores", store_lines(session, runner))
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


def _family(session: Session, feed: FeedSpec, runner: FeedSpec) -> Iterator[str]:
    """Say who shares the plan, and how to read where parameters join it."""
    rows = session.engine.registry.family_rows(runner.name)
    whose = f'of {feed.kind} "{feed.name}"'
    names = ", ".join(f"p{at} is :{name}" for at, (name, _) in enumerate(feed.parameters))
    if feed.joined:
        whose = "that differ in constants alone"
        names = _constants(rows, feed.member or 0) or "it has none"
    yield f"shared   by {rows.num_rows:,} standing queries {whose}"
    if runner.plan is not None and runner.plan.sharing is not None:
        yield from sharing_lines(session, runner, names)
        return
    panes = panes_of(session, runner)
    if panes is not None:
        yield from pane_lines(panes, rows.drop_columns([QUERY]))
        yield from lately(session, runner, "questions about groups")
        yield f"meaning  the plan below, joined with {QUERIES}: {names}"
        return
    yield f"joined   with {QUERIES}, a row for each query, where parameters are used: {names}"
    yield f"births   {BIRTHS} are queries that began together; what is below is shared by them"


def _constants(rows: pa.Table, qid: int) -> str:
    """Spell the constants of a query of a family."""
    mine = rows.filter(pc.equal(rows.column(QUERY), qid)).drop_columns([QUERY]).to_pylist()
    return ", ".join(f"{name} is {value}" for row in mine for name, value in row.items())


def _would_share(session: Session, name: str, bound: BoundRelation | None) -> Iterator[str]:
    """Say with how many a query that is not registered would share a plan."""
    if bound is None or session.engine.settings.families == "never":
        return
    catalog, family = session.engine.registry.catalog, kin_of(bound.plan, name, session).family
    if family in catalog.feeds:
        n_queries = len(catalog.members(family))
        yield f"shares   the plan of {n_queries:,} standing queries that differ in constants alone"


def _answers(feed: FeedSpec) -> str:
    if CHANGE in feed.answer.names:
        return f"answers  a relation: {CHANGE} is 1 for a row that comes, -1 for one that goes"
    return "answers  a stream: each row is told once"


def _place(session: Session, plan: PlanSpec) -> str:
    if plan.columns is not None:
        special = {EVERYWHERE: "everywhere", FIRST: "in the first shard", CELL: "by ranges"}
        spread = ", ".join(
            f"{name} {special.get(column, f'by {column}')}" for name, column in plan.columns
        )
        stages = f", in {plan.hops + 1} stages" if plan.hops else ""
        return f"in all shards side by side{stages}: rows are spread, {spread}"
    return f"in one shard: {why_gathered(plan.told[0], Placing(declared_for(session, plan)))}"


def _hops(session: Session, plan: PlanSpec) -> Iterator[str]:
    """Tell where rows travel between shards, if they do."""
    if plan.hops and plan.columns is not None:
        placing = Placing(declared_for(session, plan), dict(plan.columns))
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
