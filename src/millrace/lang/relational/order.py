"""ORDER BY and LIMIT: the first rows of a relation at every instant.

A relation has no order, so ORDER BY alone says nothing and is refused, but for what is answered
once. LIMIT alone takes the first rows in the canonical order of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from millrace.lang.cursor import CONSTANT
from millrace.lang.errors import LanguageError
from millrace.lang.refusals import keyword, only
from millrace.lang.relational.context import Environment, Rows
from millrace.lang.relational.grouping import ordinal
from millrace.lang.scope import listed, matches
from millrace.plan.expressions import Column
from millrace.plan.nearest import nearest
from millrace.plan.relations import ALL_ROWS, Order, Top

Ordering = list[tuple[exp.Ordered, str]]
"""What rows are ordered by, and the column that holds it."""


def ordering(
    query: exp.Expr,
    names: Sequence[str],
    env: Environment,
    column: Callable[[exp.Expr], str] | None = None,
) -> Ordering:
    """Return what ORDER BY of a query means: a column of the answer by name or by number.

    Anything else is given to `column`, or refused if the query has no other columns.
    """
    order = query.args.get("order")
    if order is None:
        return []
    only(order, env.text.source, "expressions")
    if query.args.get("limit") is None and not env.shared.declared.once:
        raise env.text.fault(
            keyword("ORDER BY", env.text.source, order),
            "ORDER BY without LIMIT is not part of CQL",
            code="CQL050",
            detail="A relation has no order, and a stream never ends.",
            hint="Add LIMIT, or sort where the answers are read.",
        )
    found = []
    for each in order.expressions:
        only(each, env.text.source, "this", "desc", "nulls_first")
        name = _output(each.this, names, env)
        if name is None and column is None:
            raise _refused(each.this, names, env)
        found.append((each, name or (column(each.this) if column else "")))
    return found


def _output(node: exp.Expr, names: Sequence[str], env: Environment) -> str | None:
    if isinstance(node, exp.Literal) and not node.is_string:
        return names[ordinal(node, len(names), "ORDER BY", env) - 1]
    plain = isinstance(node, exp.Column) and node.args.get("table") is None
    if plain and isinstance(node.this, exp.Identifier):
        hits = matches(node.this, names)
        return hits[0] if len(hits) == 1 else None
    return None


def _refused(node: exp.Expr, names: Sequence[str], env: Environment) -> LanguageError:
    return env.text.fault(
        node,
        "ORDER BY names a column of the answer here",
        code="CQL002",
        detail=f"The columns are {listed(names)}.",
        hint=nearest(node.name, names) if isinstance(node, exp.Column) else "",
    )


def cut(query: exp.Expr, rows: Rows, ordered: Ordering, env: Environment) -> Rows:
    """Return the rows that LIMIT and OFFSET leave."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    once = env.shared.declared.once
    if limit is None and not (once and (ordered or offset is not None)):
        if offset is not None:
            raise env.text.fault(
                keyword("OFFSET", env.text.source, offset),
                "OFFSET without LIMIT is not part of CQL",
                code="CQL050",
                hint="Add LIMIT.",
            )
        return rows
    n_rows = ALL_ROWS
    if limit is not None:
        only(limit, env.text.source, "expression")
        n_rows = _count(limit, "LIMIT", 0 if once else 1, env)
    order = tuple(
        Order(Column(name), bool(each.args.get("desc")), bool(each.args.get("nulls_first")))
        for each, name in ordered
    )
    n_skipped = 0 if offset is None else _count(offset, "OFFSET", 0, env)
    return Rows(Top(rows.plan, order, n_rows, n_skipped), rows.columns)


def _count(clause: exp.Expr, word: str, least: int, env: Environment) -> int:
    node = clause.args["expression"]
    if isinstance(node, exp.Placeholder):
        raise env.text.fault(node, f"{word} takes no parameter", code="CQL014", hint=CONSTANT)
    plain = isinstance(node, exp.Literal) and not node.is_string and node.this.isdecimal()
    if not plain or not least <= int(node.this) < 2**63:
        message = f"{word} must be a whole number of at least {least}"
        raise env.text.fault(node, message, code="CQL014")
    return int(node.this)
