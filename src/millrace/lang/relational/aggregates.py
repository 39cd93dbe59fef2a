"""Aggregates: calls in a text become aggregates of a plan, each one once.

    count(*)  count(x)  count(DISTINCT x)  sum  avg  min  max          with FILTER (WHERE ...)
    stddev[_samp]  stddev_pop  variance, var_samp  var_pop
    first(x)  last(x)  first(x, t)  last(x, t)         at the least or the greatest time
    min_by(x, y)  max_by(x, y), or arg_min and arg_max  at the least or the greatest y
    median(x)  percentile_cont(x, f), quantile_cont  percentile_disc(x, f), quantile[_disc]
    percentile_cont(f) WITHIN GROUP (ORDER BY x [DESC])
    array_agg  count_if  bool_and, every  bool_or  any_value

The last ones are min and max: of booleans, and of whatever value there is.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import get_args

import pyarrow as pa
from sqlglot import exp

from millrace.lang.cursor import CONSTANT
from millrace.lang.errors import LanguageError, Span
from millrace.lang.refusals import NOT_YET, keyword, only
from millrace.lang.relational.context import Environment, Rows
from millrace.lang.relational.frame import Frame
from millrace.lang.relational.terms import Place, Question, Terms, with_answers
from millrace.plan.expressions import Column, Expression
from millrace.plan.foreign_functions import INSTEAD
from millrace.plan.relations import Aggregate, AggregateKind
from millrace.plan.types import BOOLEAN, DOUBLE, NUMBERS, kind_of, scale_of, shown
from millrace.schema import Column as Field

_KINDS: dict[str, AggregateKind] = {
    **{each: each for each in get_args(AggregateKind) if each != "only"},  # of subqueries alone
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "median": "percentile_cont",
    "quantile": "percentile_disc",
    "quantile_cont": "percentile_cont",
    "quantile_disc": "percentile_disc",
    "count_if": "count",
    "bool_and": "min",
    "every": "min",
    "bool_or": "max",
    "any_value": "min",
    "min_by": "first",
    "arg_min": "first",
    "max_by": "last",
    "arg_max": "last",
}
_PERCENTILES = (
    "percentile_cont", "percentile_disc", "quantile", "quantile_cont", "quantile_disc",
)  # fmt: skip
_OF_CONDITIONS = ("bool_and", "bool_or", "every")
_ORDERED = ("first", "last", "min_by", "arg_min", "max_by", "arg_max")
_COMPUTED = ("sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp", "percentile_cont")


@dataclass(frozen=True, slots=True)
class _Call:
    """The parts of a call: those that stand around it are None if they are missing."""

    name: str
    arguments: list[exp.Expr]
    node: exp.Expr
    distinct: bool = False
    where: exp.Expr | None = None
    within: exp.Ordered | None = None


@dataclass(slots=True)
class Calls:
    """The aggregates of one grouped query, over the rows below its groups.

    `questions` are the subqueries inside of aggregates; they are asked of those rows, so `rows`
    gets the answers while the calls are translated.
    """

    env: Environment
    frame: Frame
    rows: Rows
    found: list[Aggregate] = field(default_factory=list)
    columns: list[Field] = field(default_factory=list)

    def aggregate(self, node: exp.Expr) -> Expression:
        """Return the column of an aggregate's value."""
        made, kind = self._made(self._parts(node))
        for old in self.found:
            if repr(replace(old, name="")) == repr(made):
                self.env.pin(old.operand, old.where, old.by)
                return Column(old.name)
        name = self.env.made_up(node)
        self.found.append(replace(made, name=name))
        self.columns.append(Field(name, kind))
        return Column(name)

    # ---- the parts of a call --------------------------------------------------------------------

    def _parts(self, node: exp.Expr) -> _Call:
        match node:
            case exp.Filter():
                only(node, self.env.text.source, "this", "expression")
                return replace(self._parts(node.this), where=node.expression.this, node=node)
            case exp.WithinGroup():
                order = node.expression
                only(node, self.env.text.source, "this", "expression")
                if order is None or len(order.expressions) != 1:
                    raise self._fault(node, "WITHIN GROUP orders by one value")
                return replace(self._parts(node.this), within=order.expressions[0], node=node)
            case exp.Anonymous():
                return self._plain(node)
            case _:
                raise self._fault(node, "FILTER stands behind an aggregate")

    def _plain(self, node: exp.Anonymous) -> _Call:
        only(node, self.env.text.source, "this", "expressions")
        name, arguments = node.name.lower(), list(node.expressions)
        if name not in _KINDS:
            known = ", ".join(sorted(_KINDS))
            message = f"the aggregate {name} is not executed yet"
            detail, hint = f"The aggregates are {known}.", INSTEAD.get(name, "")
            raise self._fault(node, message, code=NOT_YET, detail=detail, hint=hint)
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            only(arguments[0], self.env.text.source, "expressions")
            return _Call(name, list(arguments[0].expressions), node, distinct=True)
        return _Call(name, arguments, node)

    # ---- what a call means ----------------------------------------------------------------------

    def _made(self, call: _Call) -> tuple[Aggregate, pa.DataType]:
        """Return an aggregate without a name, and its type."""
        kind = _KINDS[call.name]
        where = None if call.where is None else self._condition(call.where)
        if call.within is not None or call.name in (*_PERCENTILES, "median"):
            return self._percentile(call, Aggregate("", kind, where=where))
        if call.name in _ORDERED:
            return self._ordered(call, Aggregate("", kind, where=where))
        if len(call.arguments) != 1:
            raise self._fault(call.node, f"{call.name} takes one value", code="CQL032")
        operand = call.arguments[0]
        if isinstance(operand, exp.Star):
            if call.name != "count" or call.distinct:
                raise self._fault(operand, '"*" is not allowed here', hint="Name the column.")
            return Aggregate("", kind, where=where), pa.int64()
        if call.name == "count_if":
            if where is not None:
                hint = "Write count(*) FILTER (WHERE ...)."
                raise self._fault(call.node, "count_if has no FILTER", hint=hint)
            return Aggregate("", kind, where=self._condition(operand)), pa.int64()
        distinct = call.distinct and kind not in ("min", "max")
        value, given = self._value(operand)
        return Aggregate("", kind, value, distinct, where), self._type(kind, given, call)

    def _percentile(self, call: _Call, made: Aggregate) -> tuple[Aggregate, pa.DataType]:
        if call.distinct:
            raise self._fault(call.node, f"{call.name} has no DISTINCT", code="CQL032")
        arguments, descending = list(call.arguments), False
        if call.name == "median":
            arguments.append(exp.Literal.number("0.5"))
        if call.within is not None:
            if call.name not in _PERCENTILES:
                raise self._fault(call.node, f"{call.name} has no WITHIN GROUP", code="CQL032")
            arguments.insert(0, call.within.this)
            descending = bool(call.within.args.get("desc"))
        if len(arguments) != 2:
            hint = f"Write {call.name}(x, 0.9)." if call.name != "median" else "Write median(x)."
            message = f"{call.name} takes a value and a fraction"
            raise self._fault(call.node, message, code="CQL032", hint=hint)
        fraction = self._fraction(arguments[1])
        value, given = self._value(arguments[0])
        if descending and made.kind == "percentile_cont":  # which lies as far from both ends
            fraction, descending = 1 - fraction, False
        made = replace(made, operand=value, fraction=float(fraction), descending=descending)
        return made, self._type(made.kind, given, call)

    def _fraction(self, node: exp.Expr) -> Decimal:
        plain = isinstance(node, exp.Literal) and not node.is_string
        if not plain or not 0 <= Decimal(node.this) <= 1:
            hint = "Write a number such as 0.9."
            hint = CONSTANT if isinstance(node, exp.Placeholder) else hint
            raise self._fault(
                node, "the fraction is a number from 0 to 1", code="CQL032", hint=hint
            )
        return Decimal(node.this)

    def _ordered(self, call: _Call, made: Aggregate) -> tuple[Aggregate, pa.DataType]:
        if call.distinct:
            raise self._fault(call.node, f"{call.name} has no DISTINCT", code="CQL032")
        timed = call.name == made.kind
        if len(call.arguments) not in ((1, 2) if timed else (2,)):
            message = f"{call.name} takes a value and {'a time' if timed else 'what it is by'}"
            raise self._fault(call.node, message, code="CQL032")
        value, given = self._value(call.arguments[0])
        by = self._time(call) if len(call.arguments) == 1 else self._value(call.arguments[1])[0]
        return replace(made, operand=value, by=by), self._type(made.kind, given, call)

    def _time(self, call: _Call) -> Expression:
        """Return the time of the only stream of FROM."""
        item = self.frame.items[0] if len(self.frame.items) == 1 else None
        time = None if item is None or not item.stream else self.env.shared.times.get(item.stream)
        if item is None or time is None:
            raise self._fault(
                call.node,
                f"{call.name} needs a column to order by",
                code="CQL032",
                detail="FROM is not one stream alone, whose time it would be.",
                hint=f"Write {call.name}(value, time).",
            )
        names = self.env.shared.declared.streams[item.stream or ""].names
        return Column(item.columns[names.index(time)].column)  # which may have another name here

    # ---- operands -------------------------------------------------------------------------------

    def _value(self, node: exp.Expr) -> tuple[Expression, pa.DataType]:
        if isinstance(node, exp.Order):
            span = keyword("ORDER BY", self.env.text.source, node.expressions[0])
            hint = "array_agg lists values in their order; first(x, t) and last(x, t) take one."
            raise self._fault(span, "an aggregate has no ORDER BY", code=NOT_YET, hint=hint)
        return self.env.settled(self._raw(node), self.rows)

    def _condition(self, node: exp.Expr) -> Expression:
        return self.env.condition(self._raw(node), self.rows)

    def _raw(self, node: exp.Expr) -> Expression:
        questions: list[Question] = []
        place = Place("an aggregate", self.rows, questions)
        raw = Terms(self.env, self.frame, place).expression(node)
        self.rows = with_answers(self.rows, questions, self.env)
        return raw

    def _type(self, kind: AggregateKind, given: pa.DataType, call: _Call) -> pa.DataType:
        wanted = ""
        if kind in _COMPUTED and kind_of(given) not in NUMBERS:
            wanted = "numbers"
        if call.name in _OF_CONDITIONS and given != BOOLEAN:
            wanted = "conditions"
        if wanted:
            hint = f"{call.name} takes {wanted}."
            message = f"{call.name} of {shown(given)}"
            raise self._fault(call.node, message, code="CQL032", hint=hint)
        return result_type(kind, given)

    def _fault(self, node: exp.Expr | Span, message: str, **told: str) -> LanguageError:
        return self.env.text.fault(node, message, **told)


def result_type(kind: AggregateKind, given: pa.DataType) -> pa.DataType:
    """Return the type of an aggregate of values of a type."""
    match kind:
        case "count":
            return pa.int64()
        case "sum" if kind_of(given) == "integer":
            return pa.int64()
        case "sum" if kind_of(given) == "decimal":
            return pa.decimal128(38, scale_of(given))
        case "min" | "max" | "first" | "last" | "percentile_disc":
            return given
        case "array_agg":
            return pa.list_(given)
        case _:
            return DOUBLE
