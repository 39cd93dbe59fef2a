"""Translating: sqlglot's tree of an expression becomes a node of a plan.

Each construct is lowered to what it means (BETWEEN is two comparisons, IS DISTINCT FROM is made
of IS NULL and =), in the order in which it is written. What has no translation is refused by name.
A constant has the type it is written in; `settle` gives it the type of what it stands beside.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from decimal import Decimal

from sqlglot import exp

from millrace.lang.constants import negative
from millrace.lang.errors import LanguageError
from millrace.lang.intervals import interval_of, interval_span, is_interval
from millrace.lang.leaves import Leaves
from millrace.lang.notes import Origin
from millrace.lang.refusals import AGGREGATES, aggregate_refused, node_refused, only
from millrace.lang.scope import listed
from millrace.lang.trees import span_of
from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Compare,
    Comparison,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Operation,
)

LONGEST_CHAIN = 64
"""How many conditions a chain of AND or OR connects one after the other, and not as a tree."""

COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_OPERATIONS: dict[type[exp.Expr], Operation] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.DPipe: "||",
}
_BITS: dict[type[exp.Expr], str] = {
    exp.BitwiseAnd: "bitand",
    exp.BitwiseOr: "bitor",
    exp.BitwiseLeftShift: "bitshiftleft",
    exp.BitwiseRightShift: "bitshiftright",
    exp.Pow: "power",
}
_INSTANTS = ("date", "timestamp")
_PARTS = ("year", "quarter", "month", "week", "day", "isodow", "hour", "minute", "second", "epoch")
_FINER = ("millisecond", "microsecond")
_EXTRACTED = {
    **{each: each for each in (*_PARTS, *_FINER)},
    **{f"{each}s": each for each in _FINER},
    "dow": "dayofweek",
    "doy": "dayofyear",
}
_MATCHING = ("regexp_like", "regexp_matches")


class Translator(Leaves):
    """Translates the expressions of one query; `notes` say afterwards what came from where."""

    def expression(self, node: exp.Expr) -> Expression:
        """Translate one expression and everything below it."""
        translate = _TRANSLATIONS.get(type(node))
        if translate is None:
            raise node_refused(node, self._source)
        return self._noted(translate(self, node), node)

    def _noted(self, made: Expression, node: exp.Expr) -> Expression:
        return made if self.notes.span(made) else self.notes.at(made, span_of(node))

    def _all(self, nodes: Sequence[exp.Expr]) -> tuple[Expression, ...]:
        return tuple(self.expression(each) for each in nodes)

    def _sides(self, node: exp.Expr, *also: str) -> tuple[Expression, Expression]:
        only(node, self._source, "this", "expression", *also)
        return self.expression(node.args["this"]), self.expression(node.args["expression"])

    # ---- operators ------------------------------------------------------------------------------

    def _negative(self, node: exp.Neg) -> Expression:
        only(node, self._source, "this")
        operand = self.expression(node.this)
        origin = self.notes.origin(operand)
        folded = isinstance(node.this, exp.Literal) and origin is not None and not origin.negated
        if folded and isinstance(operand, Literal) and not isinstance(operand.value, str | bytes):
            assert isinstance(operand.value, int | float | Decimal)
            negated = Origin(node.this.meta["start"], negated=True)
            return self.notes.at(Literal(negative(operand.value)), span_of(node), negated)
        return Negative(operand)

    def _paren(self, node: exp.Paren) -> Expression:
        only(node, self._source, "this")
        return self.expression(node.this)

    def _compare(self, node: exp.Binary) -> Expression:
        if isinstance(node.args["this"], exp.Tuple) and isinstance(node, exp.EQ | exp.NEQ):
            only(node, self._source, "this", "expression")
            equal = self._equal_rows(node.args["this"], node.args["expression"])
            return equal if isinstance(node, exp.EQ) else Not(self._noted(equal, node))
        left, right = self._sides(node)
        return Compare(COMPARISONS[type(node)], left, right)

    def _arithmetic(self, node: exp.Binary) -> Expression:
        nodes = _left_spine(node, _OPERATIONS)
        first, other = nodes[0].args["this"], nodes[0].args["expression"]
        if isinstance(nodes[0], exp.Add) and is_interval(first) and not is_interval(other):
            first, other = other, first  # INTERVAL '1 hour' + ts
        result, moves = self.expression(first), not is_interval(first)
        for at, each in enumerate(nodes):
            only(each, self._source, "this", "expression", "typed", "safe")
            right = each.args["expression"] if at else other
            if moves and isinstance(each, exp.Add | exp.Sub) and is_interval(right):
                made = self._moved(result, right, back=isinstance(each, exp.Sub))
            else:
                made = Arithmetic(_OPERATIONS[type(each)], result, self.expression(right))
            result = self._noted(made, each)
        return result

    def _called(self, node: exp.Binary) -> Expression:
        """Translate an operator that is a function."""
        nodes = _left_spine(node, _BITS)
        result = self.expression(nodes[0].args["this"])
        for each in nodes:
            only(each, self._source, "this", "expression", "typed", "safe")
            operands = result, self.expression(each.args["expression"])
            result = self._noted(Call(_BITS[type(each)], operands), each)
        return result

    def _inverted(self, node: exp.BitwiseNot) -> Expression:
        only(node, self._source, "this")
        return Call("bitnot", (self.expression(node.this),))

    def _moved(self, instant: Expression, node: exp.Expr, *, back: bool) -> Expression:
        """Move an instant by an interval."""
        for unit, number in interval_of(node, self._source).steps():
            constants = Literal(unit), Literal(-number if back else number)
            pinned = [self._noted(each, node) for each in constants]
            instant = self._noted(Call("date_add", (*pinned, instant)), node)
        return instant

    def _interval(self, node: exp.Interval) -> Expression:
        found = interval_of(node, self._source)
        if found.months:
            raise LanguageError(
                "a month has no fixed length",
                source=self._source,
                span=interval_span(node, self._source),
                hint="Move an instant by it, as in ts + INTERVAL '1 month', or count days.",
            )
        return Literal(found.micros)

    def _connector(self, node: exp.Connector) -> Expression:
        kind = Both if isinstance(node, exp.And) else Either
        nodes = _left_spine(node, {type(node)})
        if len(nodes) > LONGEST_CHAIN:
            assert all(len(each.args) == 2 for each in nodes), "a connector has two sides"
            links = [self.expression(nodes[0].args["this"])]
            links += [self.expression(each.args["expression"]) for each in nodes]
            return self._tree(kind, links, node)
        result = self.expression(nodes[0].args["this"])
        for each in nodes:
            only(each, self._source, "this", "expression")
            result = self._noted(kind(result, self.expression(each.args["expression"])), each)
        return result

    def _tree(
        self, kind: type[Both | Either], links: list[Expression], node: exp.Expr
    ) -> Expression:
        """Connect the links of a long chain in a tree of little depth, in the same order."""
        if len(links) == 1:
            return links[0]
        middle = len(links) // 2
        halves = (self._tree(kind, each, node) for each in (links[:middle], links[middle:]))
        return self._noted(kind(*halves), node)

    def _not(self, node: exp.Not) -> Expression:
        only(node, self._source, "this")
        return Not(self.expression(node.this))

    def _is(self, node: exp.Is) -> Expression:
        only(node, self._source, "this", "expression")
        operand = self.expression(node.this)
        match node.args["expression"]:
            case exp.Null():
                return IsNull(operand)
            case exp.Boolean(this=True):
                return Both(self._known(operand, node), operand)
            case exp.Boolean():
                return Both(self._known(operand, node), self._noted(Not(operand), node))
            case other:
                raise self._fault(
                    other, "IS is followed by NULL, TRUE or FALSE", hint="Compare with = instead."
                )

    def _same(self, node: exp.NullSafeEQ | exp.NullSafeNEQ) -> Expression:
        left, right = self._sides(node)
        equal = self._noted(Compare("=", left, right), node)
        if _is_null(left) or _is_null(right):
            return IsNull(right if _is_null(left) else left)
        present = [self._known(each, node) for each in (left, right) if not _is_constant(each)]
        both_known = self._joined(Both, [*present, equal], node)
        if len(present) < 2:
            return both_known
        missing = [self._noted(IsNull(each), node) for each in (left, right)]
        return Either(self._joined(Both, missing, node), both_known)

    def _distinct(self, node: exp.NullSafeNEQ) -> Expression:
        return Not(self._noted(self._same(node), node))

    def _between(self, node: exp.Between) -> Expression:
        only(node, self._source, "this", "low", "high", "symmetric")
        operand, low, high = self._all([node.this, node.args["low"], node.args["high"]])
        between = self._within(operand, low, high, node)
        if not node.args.get("symmetric"):
            return between
        other = self._within(operand, high, low, node)
        return Either(self._noted(between, node), self._noted(other, node))

    def _within(
        self, operand: Expression, low: Expression, high: Expression, node: exp.Expr
    ) -> Expression:
        above = self._noted(Compare(">=", operand, low), node)
        return Both(above, self._noted(Compare("<=", operand, high), node))

    def _in(self, node: exp.In) -> Expression:
        if node.args.get("query") is not None:
            raise node_refused(node.args["query"], self._source)
        only(node, self._source, "this", "expressions")
        if not node.expressions:
            raise self._fault(node, "IN has nothing to choose from", hint="List the values.")
        if isinstance(node.this, exp.Tuple):
            rows = [self._equal_rows(node.this, each) for each in node.expressions]
            return self._tree(Either, rows, node)
        return In(self.expression(node.this), self._options(node.expressions))

    def _equal_rows(self, row: exp.Tuple, other: exp.Expr) -> Expression:
        """Return whether two rows of values are equal, which they are value by value."""
        width = len(row.expressions)
        if not isinstance(other, exp.Tuple) or len(other.expressions) != width:
            hint = f"Write {width} values in brackets."
            raise self._fault(other, f"a row of {width} values is compared with another", hint=hint)
        pairs = zip(self._all(row.expressions), self._all(other.expressions), strict=True)
        return self._tree(Both, [self._noted(Compare("=", *each), other) for each in pairs], other)

    def _options(self, nodes: list[exp.Expr]) -> tuple[Expression, ...]:
        if len(nodes) == 1 and isinstance(nodes[0], exp.Placeholder):
            return (self._noted(self._parameter(nodes[0]), nodes[0]),)
        return self._all(nodes)

    def _like(self, node: exp.Binary, escape: str | None = None) -> Expression:
        operand, pattern = self._sides(node, "negate")
        like = Like(operand, pattern, escape, ignore_case=isinstance(node, exp.ILike))
        return Not(self._noted(like, node)) if node.args.get("negate") else like

    def _escape(self, node: exp.Escape) -> Expression:
        only(node, self._source, "this", "expression")
        like, escape = node.this, node.args["expression"]
        if not isinstance(like, exp.Like | exp.ILike):
            raise self._fault(node, "ESCAPE belongs to LIKE")
        if not (isinstance(escape, exp.Literal) and escape.is_string and len(escape.this) == 1):
            raise self._fault(escape, "ESCAPE is one character in quotes")
        return self._like(like, escape.this)

    def _matches(self, node: exp.RegexpLike | exp.RegexpILike) -> Expression:
        ignore_case = isinstance(node, exp.RegexpILike)
        return self._matching(*self._sides(node), ignore_case=ignore_case)

    def _matching(
        self, operand: Expression, pattern: Expression, *, ignore_case: bool = False
    ) -> Expression:
        self.notes.pin(pattern)  # it is compiled when the query is bound
        return Matches(operand, pattern, ignore_case=ignore_case)

    # ---- functions ------------------------------------------------------------------------------

    def _case(self, node: exp.Case) -> Expression:
        only(node, self._source, "this", "ifs", "default")
        operand = None if node.this is None else self.expression(node.this)
        branches = []
        for each in node.args["ifs"]:
            condition = self.expression(each.this)
            if operand is not None:
                condition = self._noted(Compare("=", operand, condition), each.this)
            branches.append((condition, self.expression(each.args["true"])))
        default = node.args.get("default")
        otherwise = Literal(None) if default is None else self.expression(default)
        return Case(tuple(branches), otherwise)

    def _cast(self, node: exp.Cast | exp.TryCast) -> Expression:
        only(node, self._source, "this", "to", "safe")
        kind = self._type(node.args["to"])
        operand = node.this
        if isinstance(operand, exp.Literal) and operand.is_string and kind in _INSTANTS:
            span = span_of(operand)
            value = self._converted(operand.this, kind, span)
            return self.notes.at(Literal(value), span_of(node), Origin(span.first))
        return Cast(self.expression(operand), kind)

    def _call(self, node: exp.Anonymous) -> Expression:
        only(node, self._source, "this", "expressions")
        name = node.name.lower()
        if name in AGGREGATES:
            raise aggregate_refused(node, self._source)
        if name.startswith("current_"):
            hint = "Answers depend on the data alone: use the stream's own time column."
            raise self._fault(node, f"{name.upper()} is not known here", hint=hint)
        if name == "extract":
            return self._extract(*node.expressions)
        if name == "date_part" and len(node.expressions) == 2 and _is_text(node.expressions[0]):
            return self._extract(*node.expressions)
        if name in _MATCHING and len(node.expressions) == 2:
            return self._matching(*self._all(node.expressions))
        if name in _INSTANTS and len(node.expressions) == 1:
            return Cast(self.expression(node.expressions[0]), name)
        return Call(name, self._all(node.expressions))

    def _extract(self, unit: exp.Expr, operand: exp.Expr) -> Expression:
        word = unit.name.lower()
        if word not in _EXTRACTED:
            known = f"EXTRACT knows {listed(_EXTRACTED)}."
            raise self._fault(unit, f'"{unit.name}" cannot be extracted', detail=known)
        return Call(_EXTRACTED[word], (self.expression(operand),))

    # ---- the small print ------------------------------------------------------------------------

    def _known(self, operand: Expression, node: exp.Expr) -> Expression:
        return self._noted(Not(self._noted(IsNull(operand), node)), node)

    def _joined(
        self, kind: type[Both | Either], parts: list[Expression], node: exp.Expr
    ) -> Expression:
        result, *rest = parts
        for each in rest:
            result = self._noted(kind(result, each), node)
        return result


def _left_spine(node: exp.Expr, kinds: Collection[type[exp.Expr]]) -> list[exp.Expr]:
    """Return a node and what it is made of on the left, as long as it is of kinds; inner first."""
    spine = []
    each: exp.Expr | None = node
    while each is not None and type(each) in kinds:
        spine.append(each)
        each = each.args["this"]
    return spine[::-1]


def _is_null(node: Expression) -> bool:
    return isinstance(node, Literal) and node.value is None


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _is_constant(node: Expression) -> bool:
    return isinstance(node, Literal)


_TRANSLATIONS: dict[type[exp.Expr], Callable[..., Expression]] = {
    exp.Column: Translator._column,
    exp.Literal: Translator._literal,
    exp.HexString: Translator._hex,
    exp.Boolean: Translator._constant,
    exp.Null: Translator._constant,
    exp.Placeholder: Translator._single,
    exp.Neg: Translator._negative,
    exp.Paren: Translator._paren,
    exp.And: Translator._connector,
    exp.Or: Translator._connector,
    exp.Not: Translator._not,
    exp.Is: Translator._is,
    exp.NullSafeEQ: Translator._same,
    exp.NullSafeNEQ: Translator._distinct,
    exp.Between: Translator._between,
    exp.In: Translator._in,
    exp.Like: Translator._like,
    exp.ILike: Translator._like,
    exp.Escape: Translator._escape,
    exp.RegexpLike: Translator._matches,
    exp.RegexpILike: Translator._matches,
    exp.Case: Translator._case,
    exp.Cast: Translator._cast,
    exp.TryCast: Translator._cast,
    exp.Anonymous: Translator._call,
    exp.Interval: Translator._interval,
    **dict.fromkeys(COMPARISONS, Translator._compare),
    **dict.fromkeys(_OPERATIONS, Translator._arithmetic),
    **dict.fromkeys(_BITS, Translator._called),
    exp.BitwiseNot: Translator._inverted,
}
