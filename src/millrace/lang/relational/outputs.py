"""The select list: what is answered, and under which names.

Names are unique. Where `*` brings a name a second time, it gets a number: `a, a_1`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millrace.lang.refusals import only
from millrace.lang.relational.context import Environment
from millrace.lang.relational.frame import Frame, Visible
from millrace.lang.relational.terms import Terms
from millrace.lang.trees import span_of
from millrace.plan.expressions import Column, Expression


@dataclass(frozen=True, slots=True)
class Selected:
    """A column of the answer, not yet settled, and what it was written as."""

    name: str
    raw: Expression
    node: exp.Expr


def selected(
    items: Sequence[exp.Expr], frame: Frame, terms: Terms, env: Environment
) -> list[Selected]:
    """Return the columns of the answer."""
    found: dict[str, Selected] = {}
    for number, item in enumerate(items, 1):
        stars = _star(item, frame, env)
        if stars is None:
            name, raw = _named(item, number, frame, terms, env)
            check_name(name, item, found, env)
            found[name.casefold()] = Selected(name, raw, item)
            continue
        for each in stars:
            raw = env.text.notes.at(Column(each.column), span_of(item))
            name = _unused(each.name, found)
            found[name.casefold()] = Selected(name, raw, item)
    return list(found.values())


def _star(item: exp.Expr, frame: Frame, env: Environment) -> Sequence[Visible] | None:
    """Return the columns that `*` or `t.*` means, or None if an item is neither."""
    star = item.this if isinstance(item, exp.Column) else item
    if not isinstance(star, exp.Star):
        return None
    only(star, env.text.source)
    if isinstance(item, exp.Column):
        return frame.required_item(item.args["table"]).columns
    return frame.visible()


def _named(
    item: exp.Expr, number: int, frame: Frame, terms: Terms, env: Environment
) -> tuple[str, Expression]:
    if isinstance(item, exp.Alias):
        only(item, env.text.source, "this", "alias")
        return item.alias, terms.expression(item.this)
    raw = terms.expression(item)
    if isinstance(raw, Column) and isinstance(item, exp.Column):
        known = [each for part in frame.items for each in part.columns] + frame.visible()
        names = [each.name for each in known if each.column == raw.name]
        return (names or [item.name])[0], raw
    return f"column_{number}", raw


def _unused(name: str, taken: Collection[str]) -> str:
    found, number = name, 0
    while found.casefold() in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def check_name(name: str, node: exp.Expr, taken: Collection[str], env: Environment) -> None:
    """Refuse a name of a column that is taken or reserved."""
    if name.casefold() in taken:
        raise env.text.fault(
            node,
            f'column "{name}" appears twice in the answer',
            code="CQL004",
            hint=f"Rename one: {name} AS another_name.",
        )
    check_reserved(name, "column", node, env)


def check_reserved(name: str, what: str, node: exp.Expr, env: Environment) -> None:
    """Refuse a name that belongs to us; what is answered once may pass on columns of ours."""
    if what == "column" and env.shared.declared.once and name and not name.startswith("#"):
        return
    if not name or name.startswith(("_", "#")) or (what == "alias" and "." in name):
        told = {
            "column": 'Names that start with "_" or "#" belong to millrace.',
            "alias": 'An alias has no "." and does not start with "_" or "#".',
        }
        message = f'{"column name" if what == "column" else what} "{name}" is reserved'
        hint = "Rename it: AS another_name."
        raise env.text.fault(node, message, code="CQL004", detail=told[what], hint=hint)
