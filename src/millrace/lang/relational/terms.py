"""Terms: expressions of a relational query, in which subqueries and aggregates may stand.

Each of these becomes a column with a name of ours. What it asks of the plan is kept beside:
a subquery as a `Question` about the rows, an aggregate as an `Aggregate` of the group.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa
from sqlglot import exp

from millrace.lang.refusals import AGGREGATES, only
from millrace.lang.relational.context import Environment, Rows
from millrace.lang.relational.frame import Frame
from millrace.lang.relational.streams import relation_of
from millrace.lang.translate import COMPARISONS, Translator
from millrace.plan.expressions import OPPOSITES, Cast, Column, Comparison, Expression, Not
from millrace.plan.relations import Asked, AskedKind
from millrace.plan.types import BOOLEAN, common_type, shown
from millrace.schema import Column as Field
from millrace.schema import type_name

_OWN_AGGREGATES = ("first", "last")  # unless a function of that name is registered


@dataclass(frozen=True, slots=True)
class Question:
    """A subquery about each row: the column of its answer, and what it compares."""

    name: str
    kind: AskedKind
    answer: Rows
    operands: tuple[Expression, ...]
    node: exp.Expr
    operator: Comparison = "="

    @property
    def type(self) -> pa.DataType:
        """The type of the answer."""
        return self.answer.columns[0].type if self.kind == "scalar" else BOOLEAN


class Aggregates(Protocol):
    """What takes the aggregates of an expression."""

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return the column of an aggregate's value."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where an expression stands: the clause, and what may stand in it.

    `questions` collects the subqueries. `keys` makes them be about groups: the columns that a
    correlated one may name. `known` are expressions that are columns of the groups already.
    """

    clause: str
    rows: Rows
    questions: list[Question] = field(default_factory=list)
    aggregates: Aggregates | None = None
    keys: frozenset[str] | None = None
    known: tuple[tuple[exp.Expr, str], ...] = ()


class Terms(Translator):
    """Translates the expressions of one clause."""

    def __init__(self, env: Environment, frame: Frame, place: Place) -> None:
        text = env.text
        super().__init__(frame, text.parameters, text.source, text.notes)
        self._env, self._frame, self._place = env, frame, place

    def expression(self, node: exp.Expr) -> Expression:
        """Translate one expression and everything below it."""
        for known, column in self._place.known:
            if known == node:
                return self._noted(Column(column), node)
        asked = self._asked(node)
        if asked is not None:
            return self._noted(asked, node)
        if is_aggregate(node, self._env):
            return self._noted(self._aggregate(node), node)
        return super().expression(node)

    # ---- subqueries -----------------------------------------------------------------------------

    def _asked(self, node: exp.Expr) -> Expression | None:
        match node:
            case exp.Subquery():
                return self._question("scalar", node, ())
            case exp.Exists():
                return self._question("exists", node.this, ())
            case exp.In() if node.args.get("query") is not None:
                only(node, self._source, "this", "query")
                return self._question("in", node.args["query"], self._operands(node.this))
            case exp.Binary() if isinstance(node.expression, exp.Any | exp.All):
                return self._quantified(node)
        return None

    def _quantified(self, node: exp.Binary) -> Expression | None:
        """Translate `x > ANY (...)`; `x > ALL (...)` means that x <= ANY is false."""
        operator = COMPARISONS.get(type(node))
        if operator is None:
            return None
        every = isinstance(node.expression, exp.All)
        operator = OPPOSITES[operator] if every else operator
        operands = self._operands(node.this)
        if len(operands) > 1 and operator != "=":
            message = "rows are compared by = ANY and <> ALL only"
            raise self._fault(node, message, hint="Compare one value.")
        found = self._question("in", node.expression.this, operands, operator)
        return Not(self._noted(found, node)) if every else found

    def _operands(self, node: exp.Expr) -> tuple[Expression, ...]:
        """Return what is looked for in a subquery: one value, several, or a whole row."""
        if isinstance(node, exp.Tuple):
            return self._all(node.expressions)
        plain = isinstance(node, exp.Column) and node.args.get("table") is None
        if plain and isinstance(node.this, exp.Identifier) and not self._frame.own(node.this):
            item = self._frame.item(node.this)
            if item is not None:
                return tuple(self._noted(Column(each.column), node) for each in item.columns)
        return (self.expression(node),)

    def _question(
        self,
        kind: AskedKind,
        query: exp.Expr,
        operands: tuple[Expression, ...],
        operator: Comparison = "=",
    ) -> Expression:
        place = self._place
        frame = self._frame
        if place.keys is not None:
            frame = Frame(frame.source, frame.items, frame.merged, frame.outer, place.keys)
        answer = self._env.bind(query, self._env.inside(frame, place.rows))
        rows = relation_of(answer, self._env.shared)
        _check_width(kind, rows, operands, query, self._env)
        name = self._env.made_up(query)
        place.questions.append(Question(name, kind, rows, operands, query, operator))
        return Column(name)

    # ---- aggregates -----------------------------------------------------------------------------

    def _aggregate(self, node: exp.Expr) -> Expression:
        place = self._place
        if place.aggregates is None:
            call = node if isinstance(node, exp.Anonymous) else node.this
            hint = "Put it into HAVING." if place.clause in ("WHERE", "ON") else ""
            message = f"the aggregate {call.name.lower()} is not allowed in {place.clause}"
            raise self._fault(node, message, code="CQL031", hint=hint)
        return place.aggregates.aggregate(node)


def is_aggregate(node: exp.Expr, env: Environment) -> bool:
    """Say whether a node is a call of an aggregate function."""
    if isinstance(node, exp.Filter | exp.WithinGroup):
        return True
    if not isinstance(node, exp.Anonymous):
        return False
    name = node.name.lower()
    own = name in _OWN_AGGREGATES and name not in env.shared.declared.functions
    return own or name in AGGREGATES


def has_aggregate(node: exp.Expr, env: Environment) -> bool:
    """Say whether an aggregate stands in an expression, outside of its subqueries."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if is_aggregate(each, env):
            return True
        if not isinstance(each, exp.Query | exp.Window):
            waiting.extend(each.iter_expressions())
    return False


def _check_width(
    kind: AskedKind, rows: Rows, operands: tuple[Expression, ...], node: exp.Expr, env: Environment
) -> None:
    n_wanted = {"scalar": 1, "in": len(operands)}.get(kind, len(rows.columns))
    if len(rows.columns) != n_wanted:
        columns = f"{n_wanted} column" + ("s" if n_wanted > 1 else "")
        raise env.text.fault(
            node,
            f"the subquery has {len(rows.columns)} columns where {columns} is needed"
            if n_wanted == 1
            else f"the subquery has {len(rows.columns)} columns where {columns} are needed",
            code="CQL032",
            hint="Select as many columns as are compared.",
        )


def asked(rows: Rows, question: Question, env: Environment) -> Rows:
    """Return rows, each with the answer of a question about it."""
    operands = []
    for raw, column in zip(question.operands, question.answer.columns, strict=False):
        value, found = env.settled(raw, rows)
        if pa.types.is_list(column.type):
            raise env.text.fault(question.node, "a value is compared with lists", code="CQL032")
        if common_type([found, column.type]) is None:
            raise env.text.fault(
                question.node,
                f"{shown(found)} is compared with {shown(column.type)}",
                code="CQL032",
                detail=f'Column "{column.name}" of the subquery is {shown(column.type)}.',
                hint="Compare values of one kind.",
            )
        typeless = pa.types.is_null(found)  # NULL as it is written
        operands.append(Cast(value, type_name(column.type)) if typeless else value)
    plan = Asked(
        rows.plan,
        question.name,
        question.kind,
        question.answer.plan,
        tuple(operands),
        question.operator,
    )
    return Rows(plan, (*rows.columns, Field(question.name, question.type)))


def with_answers(rows: Rows, questions: list[Question], env: Environment) -> Rows:
    """Return rows with the answers of questions, in the order in which they were asked."""
    for each in questions:
        rows = asked(rows, each, env)
    return rows
