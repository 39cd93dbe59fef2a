"""Outlines: the plan of a relation on one line, for messages, EXPLAIN and tests.

    istream(project(filter(s[now], s.a > 1), s.a as a))

It is read by people only: names stand without quotes.
"""

from __future__ import annotations

import re
from typing import assert_never

from millrace.plan.expressions import OPPOSITES, Expression, Literal
from millrace.plan.nodes import Output
from millrace.plan.relations import (
    Aggregate,
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Order,
    Project,
    Relation,
    Source,
    Stream,
    StreamOf,
    Table,
    Top,
    Window,
    Windowed,
)
from millrace.plan.spelling import to_text
from millrace.time import print_duration

_NAME = re.compile(r'"([\w#.]+)"')


def outline(plan: Relation | Stream) -> str:
    """Print a plan on one line.

    >>> outline(Distinct(Windowed(Source("s"), Window("rows", 3), "x")))
    'distinct(s[rows 3] as x)'
    """
    match plan:
        case Source(name):
            return name
        case StreamOf(kind, relation, every):
            ticking = "" if every is None else f", every {print_duration(every)}"
            return f"{kind}({outline(relation)}{ticking})"
        case Windowed(stream, window, alias):
            shown = outline(stream)
            return f"{shown}[{window_text(window)}]" + ("" if alias == shown else f" as {alias}")
        case Table(name, alias):
            return f"table {name}" + ("" if alias == name else f" as {alias}")
        case _:
            return _operator(plan)


def _operator(
    plan: Filter | Project | Join | Group | Distinct | Combined | Asked | Top | Hop,
) -> str:
    match plan:
        case Filter(given, condition):
            return f"filter({outline(given)}, {term_text(condition)})"
        case Project(given, outputs):
            return f"project({outline(given)}, {', '.join(map(output_text, outputs))})"
        case Join(kind, left, right, condition):
            on = "" if condition is None else f", {term_text(condition)}"
            name = "join" if kind == "inner" else f"{kind}_join"
            return f"{name}({outline(left)}, {outline(right)}{on})"
        case Group(given, keys, aggregates):
            parts = [*map(output_text, keys), *map(aggregate_text, aggregates)]
            return f"group({', '.join([outline(given), *parts])})"
        case Distinct(given):
            return f"distinct({outline(given)})"
        case Combined(kind, left, right, keep_all):
            return f"{kind}{'_all' if keep_all else ''}({outline(left)}, {outline(right)})"
        case Asked(given, name, _, subquery, _):
            return f"asked({outline(given)}, {name} = {question_text(plan)} {outline(subquery)})"
        case Hop(given):
            return outline(given)
        case Top(given, order, limit, offset):
            by = "".join(f", {order_text(each)}" for each in order)
            behind = f" behind {offset}" if offset else ""
            return f"top({outline(given)}, {limit}{behind}{by})"
        case _:
            assert_never(plan)


def question_text(asked: Asked, *, negated: bool = False) -> str:
    """Print what a subquery is asked: `t.a in`, `t.a < any`; `negated`, whether that is false."""
    row = ", ".join(map(term_text, asked.operands))
    row = row if len(asked.operands) == 1 else f"({row})" if row else ""
    if asked.operator != "=":
        word = f"{OPPOSITES[asked.operator]} all" if negated else f"{asked.operator} any"
    else:
        word = f"not {asked.kind}" if negated else asked.kind
    return f"{row} {word}".lstrip()


def term_text(node: Expression) -> str:
    """Print an expression."""
    return _NAME.sub(r"\1", to_text(node))


def output_text(output: Output) -> str:
    """Print a computed column."""
    value = term_text(output.value)
    return value if value == output.name else f"{value} as {output.name}"


def aggregate_text(node: Aggregate) -> str:
    """Print an aggregate."""
    operands = ["*" if node.operand is None else term_text(node.operand)]
    down = " desc" if node.descending else ""
    operands += [] if node.separator is None else [term_text(Literal(node.separator))]
    nulls = " nulls first" if node.nulls_first else ""
    operands += [] if node.by is None else [f"by {term_text(node.by)}{down}{nulls}"]
    operands += [] if node.fraction is None else [f"{node.fraction:g}{down}"]
    distinct = "distinct " if node.distinct else ""
    where = "" if node.where is None else f" where {term_text(node.where)}"
    return f"{node.kind}({distinct}{', '.join(operands)}{where}) as {node.name}"


def order_text(order: Order) -> str:
    """Print what rows are ordered by."""
    shown = term_text(order.value) + (" desc" if order.descending else "")
    small = order.nulls_first != order.descending  # NULL is the least value by default
    return shown if small else shown + (" nulls first" if order.nulls_first else " nulls last")


def window_text(window: Window) -> str:
    """Print a window, without its brackets."""
    if window == Window("range", 0):
        return "now"
    show = print_duration if window.kind == "range" else str
    parts = [f"by {', '.join(window.by)}"] if window.by else []
    for what, length in ((window.kind, window.size), ("slide", window.slide)):
        if length is not None:
            shown = show(length) if isinstance(length, int) else term_text(length)
            parts.append(f"{what} {shown}")
    parts += [f"since {window.since}"] if window.since is not None else []
    parts += [f"until {window.until}"] if window.until is not None else []
    parts += [f"lag {print_duration(window.lag)}"] if window.lag else []
    return " ".join(parts) or "all"
