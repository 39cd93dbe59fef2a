"""Aggregates: calls in a text become aggregates of a plan, each one once.

    count(*)  count(x)  count(DISTINCT x)  sum  avg  min  max          with FILTER (WHERE ...)
    stddev[_samp]  stddev_pop  variance, var_samp  var_pop
    first(x)  last(x)  first(x, t)  last(x, t)         at the least or the greatest time
    min_by(x, y)  max_by(x, y), or arg_min and arg_max  at the least or the greatest y
    median(x)  percentile_cont(x, f), quantile_cont  percentile_disc(x, f), quantile[_disc]
    percentile_cont(f) WITHIN GROUP (ORDER BY x [DESC])
    array_agg(x [ORDER BY y])  string_agg(x, ',' [ORDER BY y]), group_concat, listagg
    string_agg(x, ',') WITHIN GROUP (ORDER BY y [DESC])
    mode  covar_pop(x, y)  covar_samp(x, y)  corr(x, y)  bit_and  bit_or  bit_xor
    count_if  bool_and, every  bool_or  any_value

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
from millrace.plan.aggregate_types import PAIRED, result_type, taken
from millrace.plan.expressions import Column, Expression
from millrace.plan.foreign_functions import INSTEAD
from millrace.plan.relations import Aggregate, AggregateKind
from millrace.plan.types import BOOLEAN, shown
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
    "group_concat": "string_agg",
    "listagg": "string_agg",
}
_PERCENTILES = (
    "percentile_cont", "percentile_disc", "quantile", "quantile_cont", "quantile_disc",
)  # fmt: skip
_DISTINCT_ROWS = "Count the rows of a query: SELECT count(*) FROM (SELECT DISTINCT a, b FROM ...)."
_OF_CONDITIONS = ("bool_and", "bool_or", "every")
_ORDERED = ("first", "last", "min_by", "arg_min", "max_by", "arg_max")
_SEPARATED = ("string_agg", "group_concat", "listagg")
_LISTED = ("array_agg", *_SEPARATED)


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

    def count(self) -> None:
        """Count the rows of a group, though nothing in the text does."""
        name = self.env.shared.name()
        self.found.append(Aggregate(name, "count"))
        self.columns.append(Field(name, pa.int64()))

    # ---- the parts of a call --------------------------------------------------------------------

    def _parts(self, node: exp.Expr) -> _Call:
        match node:
            case exp.Filter():
                only(node, self.env.text.source, "this", "expression")
                return replace(self._parts(node.this), where=node.expression.this, node=node)
            case exp.WithinGroup():
                only(node, self.env.text.source, "this", "expression")
                if node.expression is None:
                    raise self._fault(node, "WITHIN GROUP orders by one value", code="CQL032")
                within = self._one(node.expression, "WITHIN GROUP")
                return replace(self._parts(node.this), within=within, node=node)
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
        order = None
        if name in _LISTED and arguments and isinstance(arguments[-1], exp.Order):
            order, arguments[-1] = self._one(arguments[-1], name), arguments[-1].this
        if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
            only(arguments[0], self.env.text.source, "expressions")
            arguments = list(arguments[0].expressions)
            return _Call(name, arguments, node, distinct=True, within=order)
        return _Call(name, arguments, node, within=order)

    def _one(self, order: exp.Order, word: str) -> exp.Ordered:
        if len(order.expressions) != 1:
            span = keyword("ORDER BY", self.env.text.source, order.expressions[0])
            raise self._fault(span, f"{word} orders by one value", code="CQL032")
        found: exp.Ordered = order.expressions[0]
        only(found, self.env.text.source, "this", "desc", "nulls_first")
        return found

    # ---- what a call means ----------------------------------------------------------------------

    def _made(self, call: _Call) -> tuple[Aggregate, pa.DataType]:
        """Return an aggregate without a name, and its type."""
        where = None if call.where is None else self._condition(call.where)
        made = Aggregate("", _KINDS[call.name], where=where)
        if call.name in _LISTED:
            return self._listed(call, made)
        if made.kind in PAIRED:
            return self._paired(call, made)
        if call.name == "mode" and call.within is not None and not call.arguments:
            call = replace(call, arguments=[call.within.this], within=None)
        if call.within is not None or call.name in (*_PERCENTILES, "median"):
            return self._percentile(call, made)
        if call.name in _ORDERED:
            return self._ordered(call, made)
        return self._of_one(call, made)

    def _of_one(self, call: _Call, made: Aggregate) -> tuple[Aggregate, pa.DataType]:
        """Return an aggregate of one value of each row."""
        if len(call.arguments) != 1 or isinstance(call.arguments[0], exp.Tuple):
            hint = _DISTINCT_ROWS if call.name == "count" and call.distinct else ""
            message = f"{call.name} takes one value"
            raise self._fault(call.node, message, code="CQL032", hint=hint)
        operand = call.arguments[0]
        if isinstance(operand, exp.Star):
            if call.name != "count" or call.distinct:
                raise self._fault(operand, '"*" is not allowed here', hint="Name the column.")
            return made, pa.int64()
        if call.name == "count_if":
            if made.where is not None:
                hint = "Write count(*) FILTER (WHERE ...)."
                raise self._fault(call.node, "count_if has no FILTER", hint=hint)
            return replace(made, where=self._condition(operand)), pa.int64()
        if call.distinct and made.kind == "mode":
            hint = "Of values that are there once each it is the least: write min(x)."
            raise self._no_distinct(call, hint)
        distinct = call.distinct and made.kind not in ("min", "max", "bit_and", "bit_or")
        value, given = self._value(operand)
        made = replace(made, operand=value, distinct=distinct)
        return made, self._type(made.kind, given, call)

    def _listed(self, call: _Call, made: Aggregate) -> tuple[Aggregate, pa.DataType]:
        """Return a list, or texts that are joined, perhaps by an order."""
        arguments, order = list(call.arguments), call.within
        separated = call.name in _SEPARATED
        separator = self._separator(call, arguments.pop()) if len(arguments) == 2 else None
        if len(arguments) != 1 or (separator is not None and not separated):
            what = "a text and a separator" if separated else "one value"
            raise self._fault(call.node, f"{call.name} takes {what}", code="CQL032")
        if separated and separator is None:
            separator = "" if call.name == "listagg" else ","
        value, given = self._value(arguments[0])
        kind = self._type(made.kind, given, call)
        made = replace(made, operand=value, distinct=call.distinct, separator=separator)
        return (made if order is None else self._in_order(call, made, order)), kind

    def _in_order(self, call: _Call, made: Aggregate, order: exp.Ordered) -> Aggregate:
        by, _ = self._value(order.this)
        if call.distinct and by != made.operand:
            raise self._fault(
                order,
                f"{call.name} of DISTINCT values is ordered by them",
                code="CQL032",
                hint="A value that is there once may stand at several places of another order.",
            )
        descending, first = bool(order.args.get("desc")), bool(order.args.get("nulls_first"))
        return replace(made, by=by, descending=descending, nulls_first=first)

    def _separator(self, call: _Call, node: exp.Expr) -> str:
        if isinstance(node, exp.Literal) and node.is_string:
            return str(node.this)
        hint = CONSTANT if isinstance(node, exp.Placeholder) else "Write a text such as ', '."
        message = f"the separator of {call.name} is a constant"
        raise self._fault(node, message, code="CQL032", hint=hint)

    def _paired(self, call: _Call, made: Aggregate) -> tuple[Aggregate, pa.DataType]:
        if call.distinct or call.within is not None or len(call.arguments) != 2:
            message = f"{call.name} takes two numbers"
            raise self._fault(call.node, message, code="CQL032")
        (value, given), (by, other) = map(self._value, call.arguments)
        self._type(made.kind, other, call)
        return replace(made, operand=value, by=by), self._type(made.kind, given, call)

    def _percentile(self, call: _Call, made: Aggregate) -> tuple[Aggregate, pa.DataType]:
        if call.distinct:
            raise self._no_distinct(call, "Take it of (SELECT DISTINCT x FROM ...).")
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
            raise self._no_distinct(call, "Leave it out: the value is the same.")
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
            hint = "array_agg and string_agg have one; first(x, t) and last(x, t) take one value."
            raise self._fault(span, "the aggregate has no ORDER BY", code="CQL032", hint=hint)
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
        wanted = taken(kind, given)
        if call.name in _OF_CONDITIONS and given != BOOLEAN:
            wanted = "conditions"
        if wanted:
            hint = f"{call.name} takes {wanted}."
            message = f"{call.name} of {shown(given)}"
            raise self._fault(call.node, message, code="CQL032", hint=hint)
        return result_type(kind, given)

    def _no_distinct(self, call: _Call, hint: str) -> LanguageError:
        return self._fault(call.node, f"{call.name} has no DISTINCT", code="CQL032", hint=hint)

    def _fault(self, node: exp.Expr | Span, message: str, **told: str) -> LanguageError:
        return self.env.text.fault(node, message, **told)
