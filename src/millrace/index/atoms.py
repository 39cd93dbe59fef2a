"""Atoms: what an index can test of a condition, and what is left over.

A condition is brought into a conjunction of clauses, each an OR of literals, with NOT pushed down
to the leaves (which three-valued logic allows). A literal is an *atom* if one side of it depends
on the row alone and the other on the query alone:

    price * size > :low        an interval on the computed column  price * size
    score(text) <= 0.5         a registered function is such a column too, computed once a batch
    symbol IN (:set)           points
    bid < ask                  no constant at all: the truth value is the column

A clause whose literals are all atoms goes to the index. Any other clause, such as
`price > :k * average`, is *residual*: it is evaluated for the pairs of row and query that the
index lets through. So are patterns over texts, unless a text index can take them (`needles`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

import pyarrow as pa

from millrace.index.text.group import has_text_tests
from millrace.operators.codes import has_codes, is_text
from millrace.operators.ranges import Bound
from millrace.plan.bind import Functions, type_of
from millrace.plan.expressions import (
    MIRRORED,
    OPPOSITES,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Comparison,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Parameter,
    walk,
)
from millrace.plan.spelling import to_json
from millrace.schema import Schema

Form: TypeAlias = OneOf["range", "like", "points", "null", "present"]

MOST_BOXES = 32


@dataclass(frozen=True, slots=True)
class Atom:
    """One test of a column; a missing bound leaves its end open, but never lets NULL in."""

    column: Expression
    type: pa.DataType
    form: Form = "range"
    low: Bound | None = None
    high: Bound | None = None
    points: tuple[Expression, ...] = ()
    pattern: Like | None = None

    @property
    def name(self) -> str:
        """What the column is known by."""
        return name_of(self.column)


Clause: TypeAlias = tuple[Atom, ...]


@dataclass(frozen=True, slots=True)
class Analysis:
    """A condition taken apart: it holds where every clause and the residual hold."""

    clauses: tuple[Clause, ...]
    residual: Expression | None
    condition: Expression | None


class Analyst:
    """Takes conditions over one stream apart."""

    def __init__(self, schema: Schema, functions: Functions) -> None:
        self._schema, self._functions = schema, functions

    def analyse(self, condition: Expression | None) -> Analysis:
        """Sort the clauses of a bound condition."""
        if condition is None:
            return Analysis((), None, None)
        clauses: list[Clause] = []
        residual: list[Expression] = []
        n_boxes, pointed = 1, False
        for conjunct in _conjuncts(condition, negated=False):
            clause = self._clause(conjunct)
            points = clause is not None and any(each.form == "points" for each in clause)
            if clause is None or (points and (pointed or len(clause) > 1)):
                residual.append(conjunct)
                continue
            size = 2 ** len(clause) - 1
            if n_boxes * size > MOST_BOXES:
                residual.append(conjunct)
                continue
            n_boxes, pointed = n_boxes * size, pointed or points
            clauses.append(clause)
        return Analysis(tuple(clauses), _all_of(residual), condition)

    def _clause(self, conjunct: Expression) -> Clause | None:
        """Return the atoms that a conjunct is the OR of; None if it is not."""
        literals = list(_disjuncts(conjunct))
        merged = self._one_column(literals)
        if merged is not None:
            return (merged,)
        found: list[Atom] = []
        for literal in literals:
            atoms = self._atoms(literal)
            if atoms is None:
                return self._truth(conjunct)
            found += atoms
        return tuple(found)

    def _one_column(self, literals: list[Expression]) -> Atom | None:
        """See `a = 1 OR a = 2` as `a IN (1, 2)`."""
        if len(literals) < 2 or not all(
            isinstance(each, Compare) and each.operator == "=" for each in literals
        ):
            return None
        sides = [self._sides(each) for each in literals if isinstance(each, Compare)]
        columns = {name_of(each[0]): each[0] for each in sides if each is not None}
        if None in sides or len(columns) != 1:
            return None
        points = tuple(each[2] for each in sides if each is not None)
        return self._points(columns.popitem()[1], points)

    def _points(self, column: Expression, points: tuple[Expression, ...]) -> Atom | None:
        kind = self._type(column)
        return Atom(column, kind, "points", points=points) if has_codes(kind) else None

    def _atoms(self, literal: Expression) -> list[Atom] | None:
        """Return the atoms whose OR a literal is."""
        match literal:
            case Compare("<>", _, _):
                sides = self._sides(literal)
                if sides is None:
                    return None
                column, _, value = sides
                return [self._ranged(column, "<", value), self._ranged(column, ">", value)]
            case Compare():
                sides = self._sides(literal)
                return None if sides is None else [self._ranged(*sides)]
            case In(column, points) if self._of_row(column) and all(
                _of_query(each) for each in points
            ):
                atom = self._points(column, points)
                return None if atom is None else [atom]
            case Like(column, pattern, _, ignore_case) if (
                self._of_row(column)
                and _of_query(pattern)
                and not ignore_case
                and is_text(self._type(column))
            ):
                return [Atom(column, self._type(column), "like", pattern=literal)]
            case IsNull(column) if self._of_row(column) and has_codes(self._type(column)):
                return [Atom(column, self._type(column), "null")]
            case Not(IsNull(column)) if self._of_row(column) and has_codes(self._type(column)):
                return [Atom(column, self._type(column), "present")]
            case _:
                truth = self._truth(literal)
                return None if truth is None else list(truth)

    def _truth(self, literal: Expression) -> Clause | None:
        """Take a test that is the same for all queries as a column of its own."""
        if not self._of_row(literal) or has_text_tests(literal, self._functions):
            return None
        true = Bound(Literal(value=True))
        return (Atom(literal, pa.bool_(), low=true, high=true),)

    def _ranged(self, column: Expression, operator: Comparison, value: Expression) -> Atom:
        kind, is_open = self._type(column), operator in ("<", ">")
        bound = Bound(value, is_open)
        if operator == "=":
            return Atom(column, kind, low=bound, high=bound)
        if operator in (">", ">="):
            return Atom(column, kind, low=bound)
        return Atom(column, kind, high=bound)

    def _sides(self, node: Compare) -> tuple[Expression, Comparison, Expression] | None:
        """Return column, operator and constant, if a comparison has just these."""
        for column, value, operator in (
            (node.left, node.right, node.operator),
            (node.right, node.left, MIRRORED[node.operator]),
        ):
            if self._of_row(column) and _of_query(value):
                kind = self._type(column)
                comparable = is_text(kind) == is_text(self._type(value)) or not is_text(kind)
                return (column, operator, value) if has_codes(kind) and comparable else None
        return None

    def _of_row(self, node: Expression) -> bool:
        """Say whether an expression depends on the row, and on no parameter."""
        nodes = list(walk(node))
        has_columns = any(isinstance(each, Column) for each in nodes)
        return has_columns and not any(isinstance(each, Parameter) for each in nodes)

    def _type(self, node: Expression) -> pa.DataType:
        return type_of(node, self._schema, self._functions)


def name_of(column: Expression) -> str:
    """Spell a column, computed or not: columns are the same if they are spelt alike.

    To Python `i + 1` equals `i + 1.0`, which is a column of another type.
    """
    return json.dumps(to_json(column))


def _of_query(node: Expression) -> bool:
    """Say whether an expression depends on no column and calls nothing of the user's."""
    return not any(isinstance(each, Column | Call | Case | Cast) for each in walk(node))


def _conjuncts(node: Expression, *, negated: bool) -> list[Expression]:
    """Split a condition at its ANDs, with NOT pushed down."""
    found: list[Expression] = []
    waiting = [(node, negated)]
    while waiting:
        each, negative = waiting.pop()
        match each:
            case Not(operand):
                waiting.append((operand, not negative))
            case Both(left, right) if not negative:
                waiting += [(right, False), (left, False)]
            case Either(left, right) if negative:
                waiting += [(right, True), (left, True)]
            case _:
                found.append(_pushed(each) if negative else each)
    return found


def _disjuncts(node: Expression) -> list[Expression]:
    """Split a clause at its ORs, with NOT pushed down."""
    found: list[Expression] = []
    waiting = [(node, False)]
    while waiting:
        each, negative = waiting.pop()
        match each:
            case Not(operand):
                waiting.append((operand, not negative))
            case Either(left, right) if not negative:
                waiting += [(right, False), (left, False)]
            case Both(left, right) if negative:
                waiting += [(right, True), (left, True)]
            case _:
                found.append(_pushed(each) if negative else each)
    return found


def _pushed(node: Expression) -> Expression:
    """Negate a node that is neither AND (of a clause) nor NOT."""
    match node:
        case Compare(operator, left, right):
            return Compare(OPPOSITES[operator], left, right)
        case _:
            return Not(node)


def _all_of(conjuncts: list[Expression]) -> Expression | None:
    whole: Expression | None = None
    for each in conjuncts:
        whole = each if whole is None else Both(whole, each)
    return whole
