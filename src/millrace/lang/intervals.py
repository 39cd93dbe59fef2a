"""Intervals: what `INTERVAL '5 minutes'` means.

Beside an instant it moves that one, by the calendar if it counts months. Anywhere else it is the
number of its microseconds, which is what the difference of two instants is too:

    ts + INTERVAL '1 month'             date_add('month', 1, ts)
    b.ts - a.ts < INTERVAL '1' HOUR     b.ts - a.ts < 3600000000
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeGuard

from sqlglot import exp

from millrace.errors import PlanError
from millrace.lang.errors import LanguageError, Span
from millrace.lang.refusals import keyword
from millrace.lang.trees import span_of
from millrace.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND, to_micros

_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_UNITS = {
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
    "millisecond": MILLISECOND,
    "microsecond": 1,
}
_TERM = re.compile(r"\s*([-+]?)\s*(\d+(?:\.\d+)?)\s*([a-zA-Zµ]+)\s*,?")


@dataclass(frozen=True, slots=True)
class Interval:
    """How many months, and how many microseconds."""

    months: int
    micros: int

    def steps(self) -> list[tuple[str, int]]:
        """Return by how many of which units an instant is moved.

        >>> Interval(14, 90_000_000).steps()
        [('month', 14), ('second', 90)]
        """
        whole = next(unit for unit, size in _UNITS.items() if self.micros % size == 0)
        found = [("month", self.months), (whole, self.micros // _UNITS[whole])]
        return [step for step in found if step[1]] or found[1:]


def is_interval(node: exp.Expr) -> TypeGuard[exp.Interval | exp.Paren | exp.Neg]:
    """Say whether a node is an interval, maybe in brackets or with a sign."""
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return isinstance(node, exp.Interval)


def interval_span(node: exp.Interval, source: str) -> Span:
    """Return where an interval is written, with its first word."""
    return keyword("INTERVAL", source, node).cover(span_of(node))


def interval_of(node: exp.Expr, source: str) -> Interval:
    """Return what an interval means."""
    if isinstance(node, exp.Paren):
        return interval_of(node.this, source)
    if isinstance(node, exp.Neg):
        found = interval_of(node.this, source)
        return Interval(-found.months, -found.micros)
    assert isinstance(node, exp.Interval), "nothing else is an interval"
    span, unit = interval_span(node, source), node.args.get("unit")
    if not isinstance(node.this, exp.Literal):
        hint = "To move an instant by a column, write date_add('minute', n, ts)."
        raise LanguageError("an interval is a constant", source=source, span=span, hint=hint)
    text = f"{node.this.this} {unit.name}" if unit is not None else str(node.this.this)
    try:
        return _read(text)
    except PlanError as cause:
        raise LanguageError(
            cause.message,
            source=source,
            span=span,
            code="CQL013",
            detail=cause.detail,
            hint=cause.hint,
        ) from cause


def _read(text: str) -> Interval:
    months = micros = position = 0
    while match := _TERM.match(text, position):
        sign, unit = -1 if match[1] == "-" else 1, match[3].lower()
        counted = _MONTHS.get(unit.removesuffix("s"))
        if counted is None:
            micros += sign * to_micros(f"{match[2]} {unit}")
        elif match[2].isdecimal():
            months += sign * int(match[2]) * counted
        else:
            raise PlanError(f'"{text}" is not a whole number of months')
        position = match.end()
    if position == 0 or text[position:].strip():
        to_micros(text)  # which says what is wrong
        raise PlanError(f'"{text}" is not an interval', hint="Write INTERVAL '5 minutes'.")
    return Interval(months, micros)
