"""Journeys: how the rows of a plan travel between shards, and why, in words."""

from __future__ import annotations

from millrace.plan.expressions import Column
from millrace.plan.gathering import reason_of
from millrace.plan.key_columns import KEY
from millrace.plan.outline import term_text
from millrace.plan.placement import EVERYWHERE, FIRST, Placing
from millrace.plan.relations import Filter, Hop, Project, Relation, StreamOf
from millrace.plan.scopes import below, upwards
from millrace.plan.stages import MOST_HOPS
from millrace.plan.tree import operator_name


def journeys(told: StreamOf, placing: Placing) -> list[tuple[int, str]]:
    """Return the hops of a plan, in order: the stage in which rows arrive, and which go where."""
    found = dict.fromkeys(
        (hop.number, f"rows of {_made_by(hop.input)} {_journey(hop, taker, placing)}")
        for taker in upwards(told.relation)
        for hop in below(taker)
        if isinstance(hop, Hop)
    )
    if isinstance(told.relation, Hop):
        hop = told.relation
        found[hop.number, f"rows of {_made_by(hop.input)} travel by {hop.to}"] = None
    return sorted(found, key=lambda each: each[0])


def _journey(hop: Hop, taker: Relation, placing: Placing) -> str:
    if hop.to == EVERYWHERE:
        return "travel to every shard"
    if hop.to in placing.found(hop.input) or (hop.to == FIRST and placing.first(hop.input)):
        return "wait where they are"
    if hop.to != FIRST:
        return f"travel by {_spelt(hop.to, hop.input)}"
    enough = f"rows travel {MOST_HOPS} times at most"
    return f"travel to the first shard: {enough if placing.wanted(taker) else reason_of(taker)}"


def _spelt(name: str, node: Relation) -> str:
    """Spell a column by which rows travel; one that was made for that as it is computed."""
    if name.startswith(KEY) and isinstance(node, Project):
        [value] = [each.value for each in node.outputs if each.name == name]
        return _spelt(name, node.input) if value == Column(name) else term_text(value)
    return name


def _made_by(node: Relation) -> str:
    """Name the operator that rows are of, below what computes their columns."""
    while isinstance(node, Project | Filter | Hop):
        node = node.input
    return operator_name(node)
