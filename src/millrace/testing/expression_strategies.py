"""Hypothesis strategies: expressions of a kind over the columns of a schema.

An expression is drawn from the top: for a boolean a comparison, for that two sides that mix, and
so on down to columns and constants. A few that are drawn do not bind (the scale of a product is
too large); whoever asks for bound ones filters them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from hypothesis import strategies as st

from millrace.plan.expressions import (
    COMPARISONS,
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
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
from millrace.plan.types import Kind, kind_of
from millrace.schema import Schema, type_named
from millrace.testing.strategies import LETTERS, values

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

KINDS: tuple[Kind, ...] = (
    "boolean", "integer", "decimal", "floating", "text", "binary", "date", "timestamp"
)  # fmt: skip
_TYPES: dict[Kind, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "integer": ("bigint", "int", "tinyint"),
    "decimal": ("decimal(5,2)", "decimal(38,6)"),
    "floating": ("double", "float"),
    "text": ("text",),
    "binary": ("binary",),
    "date": ("date",),
    "timestamp": ("timestamp",),
}
_MIXING: dict[Kind, tuple[Kind, ...]] = {
    **{each: (each,) for each in KINDS},
    **dict.fromkeys(("integer", "decimal", "floating"), ("integer", "decimal", "floating")),
    **dict.fromkeys(("date", "timestamp"), ("date", "timestamp")),
}
REGEXES = ("a", "^a", "b$", "a|b", "[ab]+", "a.b", "(a)(b)?", "\\d", "é", "")
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")


@dataclass(frozen=True)
class Writer:
    """Draws the parts of one expression."""

    draw: Draw
    schema: Schema

    def of(self, kind: Kind, depth: int) -> Expression:
        """Draw an expression of a kind, of no more levels than `depth`."""
        if depth <= 1 or self.chance(4):
            return self.leaf(kind)
        made = self.one([*_PRODUCTIONS[kind] * 2, *_FOR_ANY])
        return cast(Expression, made(self, kind, depth - 1))

    def one(self, options: Any) -> Any:  # noqa: ANN401
        """Draw one of some options."""
        return self.draw(st.sampled_from(options))

    def chance(self, of: int) -> bool:
        """Draw true once in so many times."""
        return bool(self.draw(st.integers(1, of)) == of)

    def leaf(self, kind: Kind) -> Expression:
        """Draw a column, a constant or NULL."""
        columns = [each.name for each in self.schema if kind_of(each.type) == kind]
        if columns and not self.chance(3):
            return Column(self.one(columns))
        if self.chance(8):
            return Literal(None)
        constant = {"integer": "bigint", "floating": "double"}.get(kind, _TYPES[kind][0])
        return Literal(self.draw(values(type_named(constant))))

    def mixing(self, kind: Kind, depth: int) -> Expression:
        """Draw something of a kind that mixes with this one."""
        return self.of(self.one(_MIXING[kind]), depth)

    def number(self, depth: int) -> Expression:
        """Draw a number of any kind."""
        return self.mixing("integer", depth)

    def small(self) -> Expression:
        """Draw a small integer, or any once in a while."""
        if self.chance(6):
            return self.leaf("integer")
        return Literal(self.draw(st.integers(-4, 8)))


_CASTABLE: dict[Kind, tuple[Kind, ...]] = {
    "boolean": ("boolean", "integer", "decimal", "floating", "text"),
    "integer": ("boolean", "integer", "decimal", "floating", "text"),
    "decimal": ("integer", "decimal", "floating", "text"),
    "floating": ("integer", "decimal", "floating", "text"),
    "text": KINDS,
    "binary": ("text", "binary"),
    "date": ("text", "date", "timestamp"),
    "timestamp": ("text", "date", "timestamp"),
}


def _case(write: Writer, kind: Kind, depth: int) -> Expression:
    n_branches = write.draw(st.integers(1, 2))
    branches = [(write.of("boolean", depth), write.of(kind, depth)) for _ in range(n_branches)]
    return Case(tuple(branches), write.of(kind, depth))


def _choice(write: Writer, kind: Kind, depth: int) -> Expression:
    function = write.one(["coalesce", "greatest", "least", "nullif", "if"])
    parts = (write.of(kind, depth), write.of(kind, depth))
    return Call(function, (write.of("boolean", depth), *parts) if function == "if" else parts)


def _cast(write: Writer, kind: Kind, depth: int) -> Expression:
    source = write.one(_CASTABLE[kind])
    return Cast(write.of(source, depth), write.one(_TYPES[kind]))


_FOR_ANY = [_case, _choice, _cast]


def _comparison(write: Writer, _: Kind, depth: int) -> Expression:
    kind = write.one(KINDS)
    return Compare(write.one(COMPARISONS), write.mixing(kind, depth), write.mixing(kind, depth))


def _logic(write: Writer, _: Kind, depth: int) -> Expression:
    made = write.one([Both, Either, Not, IsNull])
    if made is Not:
        return Not(write.of("boolean", depth))
    if made is IsNull:
        return IsNull(write.of(write.one(KINDS), depth))
    return cast(Expression, made(write.of("boolean", depth), write.of("boolean", depth)))


def _membership(write: Writer, _: Kind, depth: int) -> Expression:
    kind = write.one(KINDS)
    n_options = write.draw(st.integers(0, 3))
    options = tuple(write.mixing(kind, min(depth, 2)) for _ in range(n_options))
    return In(write.of(kind, depth), options)


def _pattern(write: Writer, _: Kind, depth: int) -> Expression:
    subject = write.of("text", depth)
    if write.chance(3):
        return Matches(subject, Literal(write.one(REGEXES)))
    plain = write.draw(st.text(LETTERS, max_size=5))
    pattern = Literal(plain) if not write.chance(4) else write.of("text", depth)
    escape = write.one([None, None, "\\"])
    if escape and isinstance(pattern, Literal) and str(pattern.value).endswith(escape):
        escape = None
    return Like(subject, pattern, escape, ignore_case=write.chance(4))


def _text_test(write: Writer, _: Kind, depth: int) -> Expression:
    function = write.one(["starts_with", "ends_with", "contains"])
    return Call(function, (write.of("text", depth), write.of("text", depth)))


def _arithmetic(write: Writer, kind: Kind, depth: int) -> Expression:
    operators: tuple[Operation, ...] = ("+", "-", "*", "%", "/")
    operator = write.one(operators if kind != "decimal" else operators[:4])
    return Arithmetic(operator, write.of(kind, depth), write.of(kind, depth))


def _number_call(write: Writer, kind: Kind, depth: int) -> Expression:
    functions = ["abs", "sign", "floor", "ceil", "trunc", "round", "round", "mod", "negative"]
    function = write.one(functions)
    number = write.of(kind, depth)
    if function == "negative":
        return Negative(number)
    if function == "mod":
        return Call("mod", (number, write.of(kind, depth)))
    if function == "round" and write.chance(2):
        return Call("round", (number, write.small()))
    return Call(function, (number,))


def _double_call(write: Writer, _: Kind, depth: int) -> Expression:
    of_two = ["power", "atan2", "log"]
    of_one = ["sqrt", "cbrt", "ln", "log2", "log10", "exp", "sin", "cos", "tan", "asin", "acos",
              "atan", "degrees", "radians"]  # fmt: skip
    function = write.one([*of_one, *of_two])
    numbers = [write.number(depth) for _ in range(2 if function in of_two else 1)]
    return Call(function, tuple(numbers))


def _bits(write: Writer, _: Kind, depth: int) -> Expression:
    function = write.one(["bitand", "bitor", "xor", "bitnot", "bitshiftleft", "bitshiftright"])
    number = write.of("integer", depth)
    if function == "bitnot":
        return Call(function, (number,))
    shifts = function.startswith("bitshift")
    return Call(function, (number, write.small() if shifts else write.of("integer", depth)))


def _counting(write: Writer, _: Kind, depth: int) -> Expression:
    function = write.one(["length", "octet_length", "ascii", "strpos", "position"])
    n_texts = 2 if function in ("strpos", "position") else 1
    return Call(function, tuple(write.of("text", depth) for _ in range(n_texts)))


def _instant_part(write: Writer, _: Kind, depth: int) -> Expression:
    parts = ["year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear", "hour",
             "minute", "second", "millisecond", "microsecond", "epoch_ms"]  # fmt: skip
    return Call(write.one(parts), (write.mixing("date", depth),))


def _text_call(write: Writer, _: Kind, depth: int) -> Expression:
    function = write.one(sorted(_TEXT_CALLS))
    return Call(function, tuple(each(write, depth) for each in _TEXT_CALLS[function]))


def _a_text(write: Writer, depth: int) -> Expression:
    return write.of("text", depth)


def _a_value(write: Writer, depth: int) -> Expression:
    return write.of(write.one(KINDS), depth)


def _a_code(write: Writer, _: int) -> Expression:
    return Literal(write.one([0, 65, 233, 26085, 0x1F600, 0x10FFFF, 0xD800, -1, 2**40]))


def _a_number(write: Writer, _: int) -> Expression:
    return write.small()


def _a_regex(write: Writer, _: int) -> Expression:
    return Literal(write.one(REGEXES))


_TEXT_CALLS: dict[str, tuple[Callable[[Writer, int], Expression], ...]] = {
    "lower": (_a_text,),
    "upper": (_a_text,),
    "reverse": (_a_text,),
    "trim": (_a_text,),
    "ltrim": (_a_text, _a_text),
    "rtrim": (_a_text, _a_text),
    "substring": (_a_text, _a_number, _a_number),
    "left": (_a_text, _a_number),
    "right": (_a_text, _a_number),
    "repeat": (_a_text, _a_number),
    "replace": (_a_text, _a_text, _a_text),
    "split_part": (_a_text, _a_text, _a_number),
    "initcap": (_a_text,),
    "translate": (_a_text, _a_text, _a_text),
    "md5": (_a_text,),
    "chr": (_a_code,),
    "concat": (_a_text, _a_value, _a_value),
    "concat_ws": (_a_text, _a_text, _a_value, _a_text),
    "lpad": (_a_text, _a_number, _a_text),
    "rpad": (_a_text, _a_number, _a_text),
    "regexp_replace": (_a_text, _a_regex, lambda write, _: Literal(write.one(["", "x", "éé"]))),
    "regexp_extract": (_a_text, _a_regex),
}


def _joined(write: Writer, _: Kind, depth: int) -> Expression:
    return Arithmetic("||", write.of("text", depth), write.of("text", depth))


def _trunc(write: Writer, _: Kind, depth: int) -> Expression:
    return Call("date_trunc", (Literal(write.one(UNITS)), write.mixing("date", depth)))


def _moved(write: Writer, _: Kind, depth: int) -> Expression:
    """Draw another instant than one, or one out of a number."""
    instant, unit = write.mixing("date", depth), Literal(write.one(UNITS))
    match write.one(["date_add", "time_bucket", "to_timestamp"]):
        case "date_add":
            return Call("date_add", (unit, write.of("integer", depth), instant))
        case "time_bucket":
            return Call("time_bucket", (Literal(write.one([1, 7, 10**9, 0, -1])), instant))
        case _:
            return Call("to_timestamp", (write.number(depth),))


def _difference(write: Writer, _: Kind, depth: int) -> Expression:
    first, last = write.mixing("date", depth), write.mixing("date", depth)
    if write.one([True, False]):
        return Arithmetic("-", last, first)
    return Call("date_diff", (Literal(write.one(UNITS)), first, last))


def _epoch(write: Writer, _: Kind, depth: int) -> Expression:
    return Call("epoch", (write.mixing("date", depth),))


def _printed(write: Writer, _: Kind, depth: int) -> Expression:
    pattern = write.one(["%Y-%m-%d", "%H:%M:%S", "%j of %y, 100%%", ""])
    return Call("strftime", (write.mixing("date", depth), Literal(pattern)))


def _named(write: Writer, _: Kind, depth: int) -> Expression:
    return Call(write.one(["dayname", "monthname"]), (write.mixing("date", depth),))


def _day(write: Writer, _: Kind, depth: int) -> Expression:
    if write.one([True, False]):
        return Call("last_day", (write.mixing("date", depth),))
    return Call("make_date", (write.of("integer", depth), write.small(), write.small()))


def _leaf(write: Writer, kind: Kind, _: int) -> Expression:
    return write.leaf(kind)


_PRODUCTIONS: dict[Kind, list[Callable[[Writer, Kind, int], Expression]]] = {
    "boolean": [_comparison, _comparison, _logic, _logic, _membership, _pattern, _text_test],
    "integer": [_arithmetic, _number_call, _bits, _counting, _instant_part, _difference],
    "decimal": [_arithmetic, _number_call],
    "floating": [_arithmetic, _number_call, _double_call, _epoch],
    "text": [_text_call, _joined, _printed, _named],
    "binary": [_leaf],
    "date": [_day],
    "timestamp": [_trunc, _moved],
}


def expressions(
    schema: Schema, kind: Kind | None = None, *, depth: int = 4
) -> st.SearchStrategy[Expression]:
    """Draw an expression over the columns of a schema, of a kind or of any."""

    @st.composite
    def drawn(draw: Draw) -> Expression:
        write = Writer(draw, schema)
        return write.of(kind or write.one(KINDS), depth)

    return drawn()
