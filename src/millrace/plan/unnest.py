"""Unnesting: subqueries become joins, so that each is computed once and not once a row.

A correlated subquery is asked about every row of a relation; the answer depends on a few of the
row's columns only. So take the different values of those, the *questions*, and compute

    the subquery for each question  =  a relation of (question columns, columns of the subquery)

by pushing the questions down to where the subquery uses them; then join it back to the rows
(after Neumann and Kemper, "Unnesting arbitrary queries", 2015). Counting nothing is put right
where a global aggregate meets a question without rows: the count is 0, and not absent.

Law: the plan means what it meant before (`testing.oracle`); it has no `Asked` any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import assert_never

from millrace.plan.conditions import both, conjuncts, same
from millrace.plan.declared import Declared
from millrace.plan.expressions import (
    Both,
    Case,
    Column,
    Compare,
    Either,
    Expression,
    IsNull,
    Literal,
    Not,
    walk,
)
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
    JoinKind,
    Project,
    Relation,
    Stream,
    StreamOf,
    Table,
    Top,
    Windowed,
)
from millrace.plan.scopes import column_names, expressions_within, free, renamed, swapped


@dataclass(slots=True)
class Unnesting:
    """Unnests plans over what is declared; names of its own begin with "#u"."""

    declared: Declared
    _numbers: count[int] = field(default_factory=count)

    def relation(self, node: Relation) -> Relation:
        """Return a relation without subqueries."""
        match node:
            case Windowed(stream, _, _):
                return replace(node, stream=self.stream(stream))
            case Table():
                return node
            case Filter(Asked() as asked, condition) if _required(asked, condition):
                given = replace(asked, input=self.relation(asked.input))
                return Filter(self._answered(given, required=True), condition)
            case Filter() | Project() | Group() | Distinct() | Top() | Hop():
                return replace(node, input=self.relation(node.input))
            case Join() | Combined():
                return replace(node, left=self.relation(node.left), right=self.relation(node.right))
            case Asked():
                return self._answered(replace(node, input=self.relation(node.input)))
            case _:
                assert_never(node)

    def stream(self, node: Stream) -> Stream:
        """Return a stream whose relation has no subqueries."""
        if isinstance(node, StreamOf):
            return replace(node, relation=self.relation(node.relation))
        return node

    # ---- subqueries ------------------------------------------------------------------------------

    def _answered(self, node: Asked, *, required: bool = False) -> Relation:
        """Give rows the answer of a subquery; if it is `required` to be true, maybe only those."""
        match node.kind:
            case "exists":
                return self._exists(node, required=required)
            case "in":
                return self._member(node, required=required)
            case "scalar":
                return self._scalar(node)
            case _:
                assert_never(node.kind)

    def _exists(self, node: Asked, *, required: bool) -> Relation:
        questions, subquery = self._questions(node)
        mark = self.name()
        asked = questions.asked(subquery)
        found = Distinct(_project(asked, questions.columns, {mark: Literal(True)}))
        joined = questions.joined("inner" if required else "left", node.input, found)
        names = self.names(node.input)
        return _project(joined, names, {node.name: Not(IsNull(Column(mark)))})

    def _scalar(self, node: Asked) -> Relation:
        questions, subquery = self._questions(node)
        (value,) = self.names(node.subquery)
        found = questions.asked(subquery)
        if not _single(node.subquery):
            only = Aggregate(value, "only", Column(value))
            keys = tuple(Output(each, Column(each)) for each in questions.columns)
            found = Group(found, keys, (only,))
        joined = questions.joined("left", node.input, found)
        return _project(joined, self.names(node.input), {node.name: Column(value)})

    def _member(self, node: Asked, *, required: bool) -> Relation:
        """Lower IN to questions whether there is an equal row, and one that may be equal.

        So it is for other comparisons: they too are unknown where one of their sides is NULL.

        If it is `required` to be true, the second does not matter.
        """
        names = self.names(node.input)
        columns = self.names(node.subquery)
        operands = {self.name(): each for each in node.operands}
        given: Relation = _project(node.input, names, operands)
        pairs = [
            (Column(operand), Column(column))
            for operand, column in zip(operands, columns, strict=True)
        ]
        equal = both([Compare(node.operator, one, other) for one, other in pairs])
        assert equal is not None, "IN has an operand"
        hit, doubt, some = self.name(), self.name(), self.name()
        given = Asked(given, hit, "exists", Filter(node.subquery, equal))
        if required:
            found = self._exists(given, required=True)
            return _project(found, names, {node.name: Column(hit)})
        if len(pairs) == 1:
            ((operand, column),) = pairs
            given = Asked(given, doubt, "exists", Filter(node.subquery, IsNull(column)))
            given = Asked(given, some, "exists", node.subquery)
            unknown: Expression = Either(Column(doubt), Both(IsNull(operand), Column(some)))
        else:
            given = Asked(given, doubt, "exists", Filter(node.subquery, IsNull(equal)))
            unknown = Column(doubt)
        answer = Case(((Column(hit), Literal(True)), (unknown, Literal(None))), Literal(False))
        return self.relation(_project(given, names, {node.name: answer}))

    def _questions(self, node: Asked) -> tuple[Questions, Relation]:
        """Return what is asked about rows, and the subquery in terms of the questions' columns."""
        wanted = {each.casefold() for each in free(node.subquery, self.declared)}
        names = self.names(node.input)
        columns = {each: self.name() for each in names if each.casefold() in wanted}
        subquery = renamed(node.subquery, columns, self.declared)
        return Questions(self, node.input, {name: each for each, name in columns.items()}), subquery

    def names(self, node: Relation) -> list[str]:
        """Return the columns of a relation."""
        return column_names(node, self.declared)

    def name(self) -> str:
        """Return a name that nothing has."""
        return f"#u{next(self._numbers)}"


@dataclass(frozen=True, slots=True)
class Questions:
    """The different values of the columns of a relation that a subquery names.

    `columns` are the names of those values, and which columns of the relation they are of.
    """

    unnesting: Unnesting
    given: Relation
    columns: Mapping[str, str]

    @property
    def relation(self) -> Relation:
        """The questions as a relation."""
        values = {name: Column(each) for name, each in self.columns.items()}
        return Distinct(_project(self.given, (), values))

    def joined(self, kind: JoinKind, given: Relation, answers: Relation) -> Relation:
        """Give each row the answers to its question."""
        pairs = [same(Column(each), Column(name)) for name, each in self.columns.items()]
        return Join(kind, given, answers, both(pairs))

    def asked(self, node: Relation) -> Relation:  # noqa: C901  a case for each node
        """Return a relation for each question, with the columns of both."""
        if not self._named(node):
            alone = self.unnesting.relation(node)
            return Join("inner", self.relation, alone) if self.columns else alone
        match node:
            case Windowed() | Table():
                raise AssertionError("a leaf names no columns of rows around it")
            case Filter(given, condition):
                return _filtered(self.asked(given), condition)
            case Project(given, outputs):
                return replace(node, input=self.asked(given), outputs=(*self._kept(), *outputs))
            case Distinct(given):
                return Distinct(self._only(given, self.asked(given)))
            case Top(given):
                return replace(node, input=self.asked(given), per=(*self.columns, *node.per))
            case Group(given, keys, _):
                found = replace(node, input=self.asked(given), keys=(*self._kept(), *keys))
                return found if keys else self._counted(node, found)
            case Join():
                return self._join(node)
            case Combined(_, left, right, _):
                one, other = (self._only(each, self.asked(each)) for each in (left, right))
                return replace(node, left=one, right=other)
            case Asked(given):
                return self.unnesting.relation(replace(node, input=self.asked(given)))
            case Hop():
                raise AssertionError("where rows travel is decided when subqueries are unnested")
            case _:
                assert_never(node)

    def _counted(self, node: Group, found: Relation) -> Relation:
        """Give a row to questions without any: their counts are 0."""
        again = self._again()
        joined = again.joined_to(self, found)
        values: dict[str, Expression] = {
            name: Column(other) for name, other in zip(self.columns, again.columns, strict=True)
        }
        for each in node.aggregates:
            value: Expression = Column(each.name)
            if each.kind == "count":
                value = Case(((IsNull(value), Literal(0)),), value)
            values[each.name] = value
        return _project(joined, (), values)

    def joined_to(self, other: Questions, answers: Relation) -> Relation:
        """Give each of these questions the answers to the same one of others, or NULLs."""
        pairs = [
            same(Column(one), Column(two))
            for one, two in zip(self.columns, other.columns, strict=True)
        ]
        return Join("left", self.relation, answers, both(pairs))

    def _join(self, node: Join) -> Relation:
        """Ask on the sides that name columns of questions, and where rows are preserved."""
        ask_left = self._named(node.left) or node.kind in ("left", "full")
        ask_right = self._named(node.right) or node.kind in ("right", "full")
        if not (ask_left or ask_right):
            ask_left = True
        names = [*self.unnesting.names(node.left), *self.unnesting.names(node.right)]
        left = self.asked(node.left) if ask_left else self.unnesting.relation(node.left)
        if not (ask_left and ask_right):
            right = self.asked(node.right) if ask_right else self.unnesting.relation(node.right)
            return _project(Join(node.kind, left, right, node.condition), [*self.columns, *names])
        again = self._again()
        swap = dict(zip(self.columns, again.columns, strict=True))
        right = again.asked(renamed(node.right, swap, self.unnesting.declared))
        condition = node.condition
        if condition is not None and node.kind == "right":
            condition = swapped(condition, swap)
        pairs = [same(Column(one), Column(two)) for one, two in swap.items()]
        marks = self.unnesting.name(), self.unnesting.name()
        left = _project(
            left, [*self.columns, *self.unnesting.names(node.left)], {marks[0]: Literal(True)}
        )
        joined = Join(
            node.kind, left, right, both([*pairs, *([] if condition is None else [condition])])
        )
        values: dict[str, Expression] = {
            one: Case(((IsNull(Column(marks[0])), Column(two)),), Column(one))
            for one, two in swap.items()
        }
        values |= {each: Column(each) for each in names}
        return _project(joined, (), values)

    def _again(self) -> Questions:
        """Return the same questions under other names."""
        named = {self.unnesting.name(): each for each in self.columns.values()}
        return replace(self, columns=named)

    def _only(self, node: Relation, asked: Relation) -> Relation:
        """Return the columns of the questions and of a relation, in this order."""
        return _project(asked, [*self.columns, *self.unnesting.names(node)])

    def _kept(self) -> tuple[Output, ...]:
        return tuple(Output(each, Column(each)) for each in self.columns)

    def _named(self, node: Relation) -> bool:
        """Say whether a relation names columns of the questions."""
        return any(
            isinstance(each, Column) and each.name in self.columns
            for value in expressions_within(node)
            for each in walk(value)
        )


# ---- small plans ---------------------------------------------------------------------------------


def _project(
    given: Relation, names: Iterable[str], values: Mapping[str, Expression] | None = None
) -> Project:
    """Keep some columns, and compute others."""
    kept = [Output(each, Column(each)) for each in names]
    return Project(given, (*kept, *(Output(name, each) for name, each in (values or {}).items())))


def _filtered(given: Relation, condition: Expression) -> Relation:
    """Filter rows; a condition on pairs is that of their join, which looks for them by it."""
    if isinstance(given, Join) and given.kind == "inner":
        found = [condition] if given.condition is None else [given.condition, condition]
        return replace(given, condition=both(found))
    return Filter(given, condition)


def _required(node: Asked, condition: Expression) -> bool:
    """Say whether a condition holds only where the answer of a subquery is true."""
    return Column(node.name) in conjuncts(condition)


def _single(node: Relation) -> bool:
    """Say whether a relation always has just one row."""
    match node:
        case Project(given):
            return _single(given)
        case Group(_, keys, _):
            return not keys
        case _:
            return False
