"""Lists of what there is, as tables: one for each word of SHOW."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.engine import facts
from millrace.engine.backfill import progress_of
from millrace.engine.feeds import FeedSpec
from millrace.engine.warming import warm_progress
from millrace.session.pane_explanation import panes_of
from millrace.session.plan_stores import held_by, readers
from millrace.state.sizes import print_bytes
from millrace.time import print_duration

if TYPE_CHECKING:
    from millrace.session.session import Session


def listed(session: Session, what: str) -> pa.Table:
    """Return a list as a table; `what` is a word of SHOW."""
    match what:
        case "streams":
            rows, names = _streams(session), ["name", "columns", "time", "delay", "retain"]
        case "tables":
            rows, names = _tables(session), ["name", "columns", "key", "rows"]
        case "views":
            rows, names = _views(session), ["name", "columns", "asks"]
        case "queries":
            rows, names = _queries(session), ["name", "feed", "state", "asks"]
        case "templates":
            rows, names = _templates(session), ["name", "parameters", "queries", "asks"]
        case "sinks":
            rows, names = _sinks(session), ["name", "state", "epochs_behind", "rows_waiting"]
        case _:
            names = ["feed", "queries", "plan", "strategy", "state", "cost"]
            rows = _families(session)
    return pa.table({name: [row[name] for row in rows] for name in names})


def _streams(session: Session) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "columns": ", ".join(each.schema.names),
            "time": each.time,
            "delay": print_duration(each.delay),
            "retain": "" if each.retain is None else print_duration(each.retain),
        }
        for each in session.streams.values()
    ]


def _tables(session: Session) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "columns": ", ".join(each.schema.names),
            "key": ", ".join(each.key),
            "rows": len(session.standing_table(each.name)),
        }
        for each in session.engine.registry.catalog.tables.values()
    ]


def _views(session: Session) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "columns": ", ".join(each.columns), "asks": each.text}
        for each in session.engine.registry.catalog.views.values()
    ]


def _queries(session: Session) -> list[dict[str, Any]]:
    engine = session.engine
    population, catalog = engine.registry.population, engine.registry.catalog
    verdicts = facts.suspended(engine.manifest, population.generations)
    rows = []
    for name, qid in sorted(population.names.items()):
        own = name in catalog.feeds
        if own and catalog.feeds[name].runs_queries:
            continue  # it stands for the plan that runs its queries
        feed = name if own else engine.registry.feed_of(qid)
        state = "paused" if qid in population.paused else "running"
        state = "suspended" if qid in verdicts else state
        spec = catalog.feed(feed)
        if state == "running" and spec.history is not None:
            share = (
                progress_of(engine.manifest, catalog, spec.stream, qid)
                if spec.plan is None
                else warm_progress(engine.manifest, catalog, feed)
            )
            state = state if share is None else f"backfilling {share:.0%}"
        rows.append({"name": name, "feed": feed, "state": state, "asks": catalog.feed(feed).text})
    return rows


def _templates(session: Session) -> list[dict[str, Any]]:
    registry = session.engine.registry
    templates = [each for each in registry.catalog.feeds.values() if each.kind == "template"]
    sizes = _sizes(session)
    rows = {key for key, family in registry.catalog.families.items() if family.parameters}
    return [
        {
            "name": each.name,
            "parameters": ", ".join(f"{name} {kind}" for name, kind in each.parameters),
            "queries": sum(
                n for (feed, key), n in sizes.items() if feed == each.name and key in rows
            ),
            "asks": each.text,
        }
        for each in templates
    ]


def _sinks(session: Session) -> list[dict[str, Any]]:
    return [
        {
            "name": each.name,
            "state": each.state,
            "epochs_behind": each.lag_epochs,
            "rows_waiting": each.backlog_rows,
        }
        for each in session.sinks()
    ]


def _families(session: Session) -> list[dict[str, Any]]:
    """List families, the largest first; what plans hold and take, of selections how rows match."""
    catalog = session.engine.registry.catalog
    rows, n_readers = [], readers(catalog)
    for (name, key), n_queries in _sizes(session).items():
        if key not in catalog.families:
            continue
        feed, selection = catalog.feed(name), catalog.families[key].selection
        if feed.joined or (feed.kind == "template" and not catalog.families[key].parameters):
            continue  # it is run by a plan with others, or stands for that of a template
        row = {"feed": name, "queries": n_queries, "plan": str(selection), "state": "", "cost": ""}
        if feed.kind == "family":
            names = [*catalog.members(name).values()]
            row |= {"feed": _named(names), "queries": len(names)}
        row["strategy"] = session.engine.settings.access
        if feed.plan is not None:
            row |= {"plan": feed.text, "strategy": _strategy(session, feed)}
            row |= {"state": print_bytes(held_by(session, feed, n_readers))}
            row |= {"cost": _cost(session, feed)}
        rows.append(row)
    return sorted(rows, key=lambda each: -each["queries"])


def _named(names: list[str]) -> str:
    """Name the feeds of queries that are run together."""
    more = f" and {len(names) - 3:,} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _strategy(session: Session, feed: FeedSpec) -> str:
    """Say how the queries of a plan are found, or were the last time."""
    done = session.engine.work.plans.get(feed.number)
    way = None if done is None or done.weighed is None else done.weighed.way
    if feed.plan is not None and feed.plan.sharing is not None:
        return way or feed.plan.sharing.strategy
    if feed.plan is not None and feed.plan.parameters is None:
        return "alone"
    if panes_of(session, feed) is None:
        return "joined with its queries"
    return "panes" if way is None else f"panes, {way}"


def _cost(session: Session, feed: FeedSpec) -> str:
    """Say which part of what all plans take a plan takes, since the engine started."""
    taken = {
        number: sum(done.seconds for done in work.total.values())
        for number, work in session.engine.work.plans.items()
    }
    return f"{taken.get(feed.number, 0.0) / (sum(taken.values()) or 1.0):.1%}"


def _sizes(session: Session) -> dict[tuple[str, str], int]:
    """Count the standing queries of each family."""
    registry = session.engine.registry
    return registry.family_sizes()
