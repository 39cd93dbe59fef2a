"""Grouping: GROUP BY and HAVING, and what the columns of a group are.

An expression over the rows below becomes one over groups: what equals a key is that key's column,
an aggregate is its own column, and any other column of the rows is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from millrace.lang.errors import Span
from millrace.lang.refusals import keyword, only
from millrace.lang.relational.aggregates import Calls
from millrace.lang.relational.context import Environment, Rows
from millrace.lang.relational.frame import Frame, ungrouped
from millrace.lang.relational.streams import unaliased
from millrace.lang.relational.terms import Place, Question, Terms, with_answers
from millrace.lang.scope import matches
from millrace.plan.expressions import Column, Expression, children
from millrace.plan.fold import rebuilt
from millrace.plan.nodes import Output
from millrace.plan.relations import Group
from millrace.schema import Column as Field


@dataclass(frozen=True, slots=True)
class Key:
    """What groups are made by: as it was written, and the column that it is of a group.

    One that asks subqueries is found again by `node`: each question has an answer of its own name.
    """

    raw: Expression
    output: Output
    field: Field
    node: exp.Expr | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """The keys of a query, and the columns that the rows below had."""

    keys: tuple[Key, ...]
    below: frozenset[str]
    env: Environment

    @property
    def columns(self) -> frozenset[str]:
        """The keys that are columns, which a subquery may name."""
        return frozenset(each.raw.name for each in self.keys if isinstance(each.raw, Column))

    @property
    def asked(self) -> tuple[tuple[exp.Expr, str], ...]:
        """The keys that ask subqueries, as they were written, and their columns."""
        return tuple((each.node, each.output.name) for each in self.keys if each.node is not None)

    def over(self, raw: Expression) -> Expression:
        """Return an expression over the rows as one over the groups."""
        for key in self.keys:
            same = type(raw) is type(key.raw) and raw == key.raw
            if same and repr(raw) == repr(key.raw):  # 1 equals 1.0 and TRUE
                return self.env.text.notes.instead(raw, Column(key.output.name))
        if isinstance(raw, Column) and raw.name in self.below:
            span = self.env.text.notes.span(raw) or Span(0, 0)
            raise ungrouped(_plain_name(raw.name), self.env.text.source, span)
        made = rebuilt(raw, [self.over(each) for each in children(raw)])
        return self.env.text.notes.instead(raw, made)

    def about(self, question: Question) -> Question:
        """Return a subquery as one about groups."""
        return replace(question, operands=tuple(map(self.over, question.operands)))


def _plain_name(column: str) -> str:
    return column.split(".", 1)[1] if "." in column else column


def keys_of(
    group: exp.Group | None, items: Sequence[exp.Expr], frame: Frame, rows: Rows, env: Environment
) -> tuple[Rows, tuple[Key, ...]]:
    """Return the keys of GROUP BY, and the rows with the answers of subqueries among them."""
    if group is None:
        return rows, ()
    if group.args.get("all"):
        span = keyword("GROUP BY", env.text.source, group)
        hint = "Name the columns, or write their numbers: GROUP BY 1, 2."
        raise env.text.fault(span, "GROUP BY ALL is not part of CQL", code="CQL050", hint=hint)
    only(group, env.text.source, "expressions")
    keys: dict[str, Key] = {}
    for node in _elements(group):
        questions: list[Question] = []
        terms = Terms(env, frame, Place("GROUP BY", rows, questions))
        meant = _meant(node, items, frame, env)
        raw = terms.expression(meant)
        rows = with_answers(rows, questions, env)
        env.pin(raw)
        value, found = env.settled(raw, rows)
        if repr(raw) not in keys:
            name = raw.name if isinstance(raw, Column) else env.made_up(node)
            written = meant if questions else None
            keys[repr(raw)] = Key(raw, Output(name, value), Field(name, found), written)
    return rows, tuple(keys.values())


def _elements(group: exp.Group) -> Iterator[exp.Expr]:
    """Yield what GROUP BY names; brackets change nothing, and () is the group of all rows."""
    for each in group.expressions:
        yield from each.expressions if isinstance(each, exp.Tuple) else (each,)


def _meant(node: exp.Expr, items: Sequence[exp.Expr], frame: Frame, env: Environment) -> exp.Expr:
    """Return the expression that an element of GROUP BY means: a number or an alias names one."""
    if isinstance(node, exp.Literal) and not node.is_string:
        place = ordinal(node, len(items), "GROUP BY", env)
        return unaliased(items[place - 1])
    return _aliased(node, items, frame) or node


def spell_out_aliases(having: exp.Having, items: Sequence[exp.Expr], frame: Frame) -> None:
    """Write what they stand for in place of names of the select list, in HAVING itself.

    Its nodes stay those of the query: what is left out of them is found by which they are.
    """
    for each in list(having.find_all(exp.Column)):
        found = _aliased(each, items, frame)
        if found is not None and not _within_subquery(each, having):
            each.replace(exp.Paren(this=found.copy()))


def _within_subquery(node: exp.Expr, outermost: exp.Expr) -> bool:
    above = node.parent
    while above is not None and above is not outermost:
        if isinstance(above, exp.Query):
            return True
        above = above.parent
    return False


def _aliased(node: exp.Expr, items: Sequence[exp.Expr], frame: Frame) -> exp.Expr | None:
    """Return what a name of the select list stands for, if no column has that name."""
    plain = isinstance(node, exp.Column) and node.args.get("table") is None
    if plain and isinstance(node.this, exp.Identifier) and not frame.own(node.this):
        named = [each for each in items if isinstance(each, exp.Alias)]
        hits = matches(node.this, [each.alias for each in named])
        if len(hits) == 1:
            return unaliased(next(each for each in named if each.alias == hits[0]))
    return None


def ordinal(node: exp.Literal, n_items: int, clause: str, env: Environment) -> int:
    """Return the place in the select list that a number means."""
    if not node.this.isdecimal() or not 1 <= int(node.this) <= n_items:
        detail = f"The select list has {n_items}."
        raise env.text.fault(
            node, f"{clause} {node.this} names no column", code="CQL002", detail=detail
        )
    return int(node.this)


def grouped(rows: Rows, keys: tuple[Key, ...], calls: Calls) -> Rows:
    """Return the groups of rows; what shows nothing of its one group counts, so as to be a row."""
    if not keys and not calls.found:
        calls.count()
    outputs = tuple(each.output for each in keys)
    plan = Group(rows.plan, outputs, tuple(calls.found))
    return Rows(plan, (*(each.field for each in keys), *calls.columns))
