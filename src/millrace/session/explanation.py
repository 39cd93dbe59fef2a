"""Explanations: how a query runs, with whom it shares, and how its rows are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from millrace.engine.backfill import cohorts, n_catching_up, progress_of
from millrace.engine.feeds import FeedSpec
from millrace.engine.warming import warm_progress
from millrace.errors import MillraceError, PlanError
from millrace.index.atoms import Analysis, Analyst, Atom
from millrace.index.text.group import has_text_tests
from millrace.index.text.needles import access_clause
from millrace.plan.lifting import lift_constants
from millrace.plan.nodes import Selection
from millrace.plan.spelling import to_text
from millrace.session.keeping import kept_lines
from millrace.session.plan_explanation import explain_plan, same_plan
from millrace.session.planning import bound_relation
from millrace.session.query import Query
from millrace.session.template import Template
from millrace.time import print_duration

if TYPE_CHECKING:
    from millrace.lang.relational.bound import BoundRelation
    from millrace.session.session import Session


def explain_selection(session: Session, selection: Selection) -> str:
    """Explain a query that is not registered."""
    lifted = lift_constants(selection)
    lines = [f"query    {selection}", *_plan(session, lifted.selection)]
    return "\n".join(lines)


def explain_query(session: Session, name: str, *, analyze: bool = False) -> str:
    """Explain a standing query or template; with `analyze`, with what it has done."""
    found = session.standing(name)
    registry = session.engine.registry
    catalog = registry.catalog
    feed = found.feed
    if feed.plan is not None:
        lines = [*explain_plan(session, feed, analyze=analyze), *kept_lines(feed)]
        lines += _history(session, found)
        return "\n".join(lines + (_suspended(found) if analyze else []))
    sizes = registry.family_sizes()
    families = [
        (catalog.families[key], n)
        for (each, key), n in sizes.items()
        if each == feed.name and key in catalog.families
    ]
    lines = []
    for family, n_queries in families[:10]:
        lines.append(f"family   {family.selection}")
        lines.append(f'shared   by {n_queries:,} standing queries of {feed.kind} "{feed.name}"')
        lines += _plan(session, family.selection)
    if len(families) > 10:
        lines.append(f"         and {len(families) - 10:,} families more")
    if isinstance(found, Template) and not families:
        lines.append(f"template {feed.text}")
        lines.append("shared   by no query: nothing is inserted yet")
    lines += kept_lines(feed) + _history(session, found)
    if analyze:
        lines += _measured(session, found)
    return "\n".join(lines)


def expanded_text(session: Session, feed: FeedSpec, text: str) -> str:
    """Return the text of a standing query with its windows and ISTREAM, as it was understood.

    A query that was built in Python has no text that could be read; its plan is told otherwise.
    """
    try:
        return bound_relation(text, session, dict(feed.parameters)).expanded
    except MillraceError:
        return text


def _history(session: Session, found: Query | Template) -> list[str]:
    """Say how far back queries see, and how many are still catching up."""
    feed, engine = found.feed, session.engine
    if feed.history is None:
        return []
    part = ", as far as it is retained" if feed.partial else ""
    line = f"history  {print_duration(feed.history)} before the birth of a query{part}"
    if feed.plan is not None:
        share = warm_progress(engine.manifest, engine.registry.catalog, feed.name)
        return [line if share is None else f"{line}: backfilling, {share:.0%} done"]
    waiting = cohorts(engine.manifest, engine.registry.catalog).get(feed.stream, [])
    if isinstance(found, Query):
        stream, catalog = feed.stream, engine.registry.catalog
        share = progress_of(engine.manifest, catalog, stream, found.id)
        return [line if share is None else f"{line}: backfilling, {share:.0%} done"]
    families = set(engine.registry.catalog.families_of(feed.name))
    mine = n_catching_up(waiting, engine.registry.population.members(feed.stream, families))
    return [line if not mine else f"{line}: {mine:,} queries are backfilling"]


def standing_as(
    session: Session, text: str, bound: Selection | BoundRelation, sees: Callable[[str], bool]
) -> str:
    """Return the name of a standing query that asks the same; only such a one can be measured.

    It is one of those that whoever asks sees.
    """
    if isinstance(bound, Selection):
        feeds = session.engine.registry.catalog.feeds.values()
        texts = {text, str(bound)}
        alike = (each.name for each in feeds if each.kind == "query" and each.text in texts)
        name = next(filter(sees, alike), None)
    else:
        name = next(filter(sees, same_plan(session, bound)), None)
    if name is None:
        raise PlanError(
            "no standing query asks this",
            detail="What was not registered has not run, and there is nothing to measure.",
            hint="Register it with CREATE QUERY, or leave ANALYZE out.",
        )
    return name


def _plan(session: Session, selection: Selection) -> list[str]:
    schema = session.streams[selection.stream].schema
    analysis = Analyst(schema, session.function_types).analyse(selection.condition)
    lines = [f"stream   {selection.stream}: each row is answered in the epoch in which it arrives"]
    lines += [f"index    {_clause(clause)}" for clause in analysis.clauses]
    condition = selection.condition
    functions = session.function_types
    plans = access_clause(condition, functions) if condition is not None else None
    if plans and has_text_tests(condition, functions):
        columns = ", ".join(dict.fromkeys(each.column for each in plans))
        lines.append(f"texts    one pass over {columns} finds the rows that may match")
    lines.append(_residual(analysis))
    return lines


def _residual(analysis: Analysis) -> str:
    if analysis.residual is None:
        return "residual nothing: the index decides alone"
    return f"residual {to_text(analysis.residual)}, on the rows that the index lets through"


def _clause(clause: tuple[Atom, ...]) -> str:
    return " OR ".join(_atom(each) for each in clause)


def _atom(atom: Atom) -> str:
    column = to_text(atom.column)
    match atom.form:
        case "points":
            return f"{column} in a set: by hash"
        case "like":
            return f"{column} LIKE a pattern: prefixes as ranges"
        case "null":
            return f"{column} IS NULL"
        case "present":
            return f"{column} IS NOT NULL"
    if atom.low is not None and atom.low == atom.high:
        truth = to_text(atom.low.value) == "TRUE"
        return f"{column}, computed once a batch" if truth else f"{column} = a constant: by hash"
    ends = [
        f"{sign}{'' if bound.open else '='} a constant"
        for sign, bound in ((">", atom.low), ("<", atom.high))
        if bound is not None
    ]
    return f"{column} {' and '.join(ends)}: by range"


def _measured(session: Session, found: Query | Template) -> list[str]:
    feed = found.feed.name
    ran = session.statistics()
    answered = sum(each.results_by_query.get(feed, 0) for each in ran)
    seconds = sum(each.seconds.get("select", 0.0) for each in ran)
    return [
        f"answers  {answered:,} rows in the last {len(ran):,} epochs",
        f"time     {seconds:.3f} s of matching in these epochs, for all queries together",
        *_suspended(found),
    ]


def _suspended(found: Query | Template) -> list[str]:
    failure = found.failure if isinstance(found, Query) else None
    return [] if failure is None else [f"state    suspended: {failure['message']}"]
