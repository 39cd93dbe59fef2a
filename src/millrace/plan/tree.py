"""Trees: a plan with an operator on each line, by the names that STREAM gave them.

    istream
      project s.k as k
        select s.v > 1
          seq-window s [rows 3]

A filter that only asks a subquery is a semijoin or an antijoin, with the subquery below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, assert_never

from millrace.plan.conditions import both, conjuncts
from millrace.plan.expressions import Column, Expression, Not, walk
from millrace.plan.outline import (
    aggregate_text,
    order_text,
    output_text,
    question_text,
    term_text,
    window_text,
)
from millrace.plan.relations import (
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Project,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.time import print_duration

Node: TypeAlias = Relation | Stream
Drawn: TypeAlias = tuple[str, Sequence[Node]]
"""What stands on a line, and what stands below it."""


def tree(plan: Node) -> list[str]:
    r"""Print a plan, a line for each operator, what it reads indented below it.

    >>> from millrace.plan.relations import Window
    >>> print(*tree(Distinct(Windowed(Source("s"), Window("rows", 3), "x"))), sep="\n")
    duplicate-eliminate
      seq-window s [rows 3] as x
    """
    return [line for line, _ in branches(plan)]


def branches(plan: Node, *, again: bool = True) -> Iterator[tuple[str, Node | None]]:
    """Yield the lines of a tree, each with its node.

    Unless they are to be drawn `again`, relations that stand in several places are drawn in the
    first of them only; in the others there is no node.
    """
    drawn, waiting = set[Node](), [(0, plan)]
    while waiting:
        depth, node = waiting.pop()
        shown, below = _drawn(node)
        if below and node in drawn and not again:
            yield f"{'  ' * depth}{operator_name(node)} (as above)", None
            continue
        drawn.add(node)
        yield "  " * depth + shown, node
        waiting.extend((depth + 1, each) for each in reversed(below))


def operator_name(node: Node) -> str:
    """Return the name of the operator that makes a relation or a stream."""
    return _drawn(node)[0].partition(" ")[0].rstrip(":")


def _drawn(node: Node) -> Drawn:
    match node:
        case Source(name):
            return f"stream {name}", ()
        case StreamOf(kind, relation, every):
            return kind + ("" if every is None else f" every {print_duration(every)}"), (relation,)
        case Windowed(Source(name), window, alias):
            called = "" if alias == name else f" as {alias}"
            return f"seq-window {name} [{window_text(window)}]{called}", ()
        case Windowed(stream, window, alias):
            return f"seq-window [{window_text(window)}] as {alias}", (stream,)
        case Table(name, alias):
            return f"table {name}" + ("" if alias == name else f" as {alias}"), ()
        case _:
            return _operator(node)


def _operator(
    node: Filter | Project | Join | Group | Distinct | Combined | Asked | Top | Hop,
) -> Drawn:
    match node:
        case Filter():
            return _filter(node)
        case Project(given, outputs):
            return f"project {', '.join(map(output_text, outputs))}", (given,)
        case Join(kind, left, right, condition):
            on = "" if condition is None else f" on {term_text(condition)}"
            return "binary-join" + ("" if kind == "inner" else f" {kind}") + on, (left, right)
        case Group(given, keys, aggregates):
            by = f" by {', '.join(map(output_text, keys))}" if keys else ""
            shown = ", ".join(map(aggregate_text, aggregates))
            return f"aggregate{by}" + (f": {shown}" if shown else ""), (given,)
        case Distinct(given):
            return "duplicate-eliminate", (given,)
        case Combined(kind, left, right, keep_all):
            return kind + (" all" if keep_all else ""), (left, right)
        case Asked(given, name, _, subquery, _):
            return f"subquery {name} = {question_text(node)}", (given, subquery)
        case Hop(given, _, number):
            return f"hop {number}", (given,)
        case Top(given, order, limit, offset, _):
            by = f" by {', '.join(map(order_text, order))}" if order else ""
            return f"top {limit}" + (f" behind {offset}" if offset else "") + by, (given,)
        case _:
            assert_never(node)


def _filter(node: Filter) -> Drawn:
    """Draw a filter; where it does no more than ask a subquery, as a join with that."""
    asked = node.input
    if isinstance(asked, Asked) and asked.kind != "scalar":
        parts = conjuncts(node.condition)
        mine = [each for each in parts if _mentions(each, asked.name)]
        others = [each for each in parts if each not in mine]
        answer = Column(asked.name)
        if mine in ([answer], [Not(answer)]):
            rest = both(others)
            given = (
                asked.input if rest is None else replace(node, input=asked.input, condition=rest)
            )
            if mine == [answer]:
                return f"semijoin {question_text(asked)}", (given, asked.subquery)
            return f"antijoin {question_text(asked, negated=True)}", (given, asked.subquery)
    return f"select {term_text(node.condition)}", (node.input,)


def _mentions(node: Expression, name: str) -> bool:
    return any(isinstance(each, Column) and each.name == name for each in walk(node))
