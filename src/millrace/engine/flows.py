"""Flows: how many rows an operator of a plan read and told, from what its meter counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from millrace.engine.work import Done
from millrace.plan.relations import Relation, Source, Stream, StreamOf, Windowed
from millrace.plan.scopes import inputs


class Flow(NamedTuple):
    """Rows that an operator read, rows that it told, and its seconds."""

    read: int
    told: int
    seconds: float


def flow(
    done: Mapping[str, Done], node: Relation | Stream, names: Mapping[Relation | Stream, str]
) -> Flow:
    """Return what an operator did; it reads what those below it tell, and what it reads again."""
    mine = done.get(names[node], Done())
    given = inputs_of(node)
    below = sum(done.get(names[each], Done()).rows for each in given if each in names)
    return Flow(mine.again + below if given else mine.rows, mine.rows, mine.seconds)


def inputs_of(node: Relation | Stream) -> list[Relation | Stream]:
    """Return the relations or streams that an operator reads."""
    match node:
        case StreamOf(_, relation, _):
            return [relation]
        case Windowed(stream, _, _):
            return [stream]
        case Source():
            return []
        case _:
            return list(inputs(node))
