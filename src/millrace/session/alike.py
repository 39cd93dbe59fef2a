"""Queries that are alike: which ones, registered one by one, run as one plan, and which do not.

    SELECT ISTREAM(a.k) FROM a [RANGE 5 SECONDS], b [NOW] WHERE a.k = b.k AND a.v > 10
    SELECT ISTREAM(a.k) FROM a [RANGE 9 SECONDS], b [NOW] WHERE a.k = b.k AND a.v > 7

They differ in constants alone: with parameters for these they are one plan. So they are rows of a
family, which is run as that of a template is (`plan.joining`, `plan.panes`, `plan.families`), by a
feed that nobody sees. Each keeps its own name, feed, life and answers.

The first of a kind is run alone: it costs what it would cost if nobody ever asked for the like. The
second makes the family, and later ones join it.

A family is worth it where it costs no more than its queries would alone, and none of them can take
down the others. So these stay alone: queries that see history; those that are spread over shards
alone, and would not be together; and unless they are one join, of which the one that fails is told
apart from the others: queries that call functions of users, or ask subqueries for their only value,
for those may fail by their data; and those whose births would stay apart for ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from millrace.engine.feeds import FeedSpec
from millrace.engine.hidden import family_name
from millrace.engine.plans import PlanSpec
from millrace.errors import PlanError
from millrace.plan.expressions import Call, walk
from millrace.plan.joining import joining
from millrace.plan.lifting import Constants, lift_plan
from millrace.plan.relation_json import plan_to_json
from millrace.plan.relations import Asked, Group, Relation, StreamOf
from millrace.plan.scopes import own_expressions, relations_in
from millrace.session.planning import declared_in, planned_feed

if TYPE_CHECKING:
    from millrace.session.session import Session


@dataclass(frozen=True, slots=True)
class Kin:
    """A query as one of a family: the plan with parameters, and its own constants."""

    family: str
    plan: Relation | StreamOf
    constants: Constants


def kin_of(plan: Relation | StreamOf, query: str, session: Session) -> Kin:
    """Return a query of some name as one of those that differ from it in constants alone."""
    return next(_ways(plan, query, session))


def is_of(family: str, plan: Relation | StreamOf, query: str, session: Session) -> Kin | None:
    """Return a query as one of a family, if it is; settings may have changed since."""
    return next((each for each in _ways(plan, query, session) if each.family == family), None)


def _ways(plan: Relation | StreamOf, query: str, session: Session) -> Iterator[Kin]:
    """Yield the families that a query may be of.

    Joins also differ in sizes of windows, and in what they give to functions.
    """
    settings = session.engine.settings
    stream = plan if isinstance(plan, StreamOf) else StreamOf("istream", plan)
    joins = joining(stream, declared_in(session)) is not None
    joins = joins and settings.sharing and settings.again
    for sizes in (joins, not joins):
        functions = session.function_types if sizes else ()
        lifted, constants = lift_plan(plan, sizes=sizes, functions=functions)
        spelt = json.dumps([plan_to_json(lifted), constants.types], sort_keys=True)
        digest = hashlib.sha256(spelt.encode()).hexdigest()[:24]
        yield Kin(family_name(digest, query), lifted, constants)


def family_feed(kin: Kin, alone: PlanSpec, session: Session) -> FeedSpec | None:
    """Return the feed that runs a family, if it is worth it for queries that run so alone."""
    types = {f"p{at}": each for at, each in enumerate(kin.constants.types)}
    try:
        feed = planned_feed(kin.family, kin.plan, session, parameters=types, kind="family")
    except PlanError:
        return None  # together they would remember every row of a stream
    assert feed.plan is not None, "a family has a plan"
    nodes, functions = relations_in(kin.plan), session.function_types
    if feed.plan.sharing is None and any(_may_fail(node, functions) for node in nodes):
        return None
    ageing = feed.plan.sharing is not None or feed.plan.horizon is not None
    spread = feed.plan.columns is not None or alone.columns is None or bool(alone.laid)
    return replace(feed, keep=0) if ageing and spread else None


def _may_fail(node: Relation, functions: Collection[str]) -> bool:
    """Say whether a query may fail: where a function is called, or there may be one row only."""
    lone = isinstance(node, Asked) and node.kind == "scalar"
    lone |= isinstance(node, Group) and any(each.kind == "only" for each in node.aggregates)
    called = (each for value in own_expressions(node) for each in walk(value))
    return lone or any(isinstance(each, Call) and each.function in functions for each in called)
