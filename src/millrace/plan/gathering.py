"""Gathering: why the rows of a plan have to come together in one shard, in words."""

from __future__ import annotations

from millrace.plan.placement import Placing
from millrace.plan.relations import (
    Combined,
    Distinct,
    Group,
    Join,
    Relation,
    StreamOf,
    Top,
    Windowed,
)
from millrace.plan.scopes import upwards


def why_gathered(told: StreamOf, placing: Placing) -> str:
    """Say what in a plan without subqueries needs all rows in one place."""
    for node in upwards(told.relation):
        ways = placing.ways(node)
        if not ways:
            return reason_of(node)
        if all(way.columns() is None for way in ways):
            return "a stream would have to be spread by two of its columns"
    return "no column of the answer is one by which rows are spread"


def reason_of(node: Relation) -> str:
    """Say why an operator that cannot be spread needs all rows in one place."""
    match node:
        case Windowed():
            return "the last rows of a whole stream are counted in one place"
        case Group(_, keys, _) if not keys:
            return "an aggregate without GROUP BY needs all rows"
        case Group():
            return "groups are not by a column by which rows are spread"
        case Join():
            return "a join that is not by equal columns of both sides needs all rows"
        case Distinct() | Combined():
            return "equal rows have to meet, and no column of theirs decides where"
        case Top():
            return "the first rows are chosen from all of them"
        case _:
            return "it reads a table"
