"""Needles: texts of which one must stand in every row that fulfils a condition.

A condition is a tree of AND and OR. Any one conjunct that is needle-able stands for all of it;
a disjunction is, if all its branches are:

    level = 'error' AND (message LIKE '%disk full%' OR message ~ 'quota (soft|hard)') AND size > 5
    needles          error | disk full, quota soft, quota hard        the second clause is taken:
    shortest         5     | 9                                        its shortest is the longest

Patterns that are parameters differ from query to query of a family, so a plan keeps the node and
`needles_of` reads each query's own value. A clause of parameters only is taken before one with a
constant, which all queries of the family share: finding that one would wake all of them.

Invariant: a row for which the condition is true holds at least one of the needles of the plans,
so rows without any may be skipped; the condition has still to be evaluated on the others. NOT and
IS NULL give none.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

import pyarrow as pa

from millrace.errors import PlanError
from millrace.index.text.patterns import Kind, ascii_runs, longest, read_like
from millrace.index.text.regexes import read_regex
from millrace.plan.expressions import (
    Both,
    Call,
    Column,
    Compare,
    Either,
    Expression,
    In,
    Like,
    Literal,
    Matches,
    Parameter,
    Scalar,
)
from millrace.schema import type_named

Form: TypeAlias = OneOf["like", "regex", "contains", "prefix", "suffix", "equals"]
"""How a pattern is to be read."""

SHORTEST = 2
"""Bytes; a shorter needle stands in nearly every text."""

_CALLS: dict[str, Form] = {"contains": "contains", "starts_with": "prefix", "ends_with": "suffix"}
# The length that a needle is taken to have while it is a parameter.
_GUESSES: dict[Form, int] = {
    "equals": 8,
    "prefix": 7,
    "suffix": 7,
    "contains": 6,
    "like": 5,
    "regex": 4,
}


@dataclass(frozen=True, slots=True)
class Needle:
    """A text to be found in a column; with `ignore_case` it is ASCII in lower case."""

    column: str
    text: str
    kind: Kind = "contains"
    ignore_case: bool = False

    def __post_init__(self) -> None:
        if self.ignore_case and not (self.text.isascii() and self.text == self.text.lower()):
            raise PlanError(
                f'needle "{self.text}" is not lower-case ASCII',
                detail="Only such a text can be found when case is ignored.",
            )


@dataclass(frozen=True, slots=True)
class NeedlePlan:
    """A pattern, constant or parameter, that gives needles in a column."""

    column: str
    pattern: Expression
    form: Form
    ignore_case: bool = False
    escape: str | None = None


def access_clause(
    condition: Expression, functions: Collection[str] = ()
) -> tuple[NeedlePlan, ...] | None:
    """Choose plans such that a row that fulfils the condition holds a needle of one of them.

    None if there are none. A needle of a constant pattern is at least `SHORTEST` bytes long; of
    a parameter, `needles_of` tells. Of `functions`, which are registered, nothing is known.

    Examples
    --------
    >>> access_clause(Like(Column("line"), Literal("%disk%full%")))
    (NeedlePlan(column='line', pattern=Literal(value='%disk%full%'), form='like', ...),)
    """
    if isinstance(condition, Both):
        clauses = [access_clause(each, functions) for each in _flat(condition, Both)]
        return max((each for each in clauses if each), key=_rank, default=None)
    if isinstance(condition, Either):
        plans: dict[NeedlePlan, None] = {}
        for branch in _flat(condition, Either):
            clause = access_clause(branch, functions)
            if clause is None:
                return None
            plans.update(dict.fromkeys(clause))
        return tuple(plans)
    foreign = isinstance(condition, Call) and condition.function in functions
    plans_here = () if foreign else _plans(condition)
    useful = plans_here and all(_length(plan) >= SHORTEST for plan in plans_here)
    return plans_here if useful else None


def needles_of(plan: NeedlePlan, value: Scalar | Collection[Scalar]) -> tuple[Needle, ...] | None:
    """Return the needles of a plan whose pattern has this value; for an IN list, a set of values.

    () if no row can fulfil it (the pattern is NULL), None if some can without a useful needle.
    """
    if isinstance(value, str) or not isinstance(value, Collection) or isinstance(value, bytes):
        value = (value,)
    needles: dict[Needle, None] = {}
    for each in value:
        if each is None:
            continue
        found = _read(plan, each) if isinstance(each, str) else ()
        if not found or min(len(needle.text.encode()) for needle in found) < SHORTEST:
            return None
        needles.update(dict.fromkeys(found))
    return tuple(needles)


def _read(plan: NeedlePlan, text: str) -> tuple[Needle, ...]:
    if plan.form == "regex":
        regex = read_regex(text, ignore_case=plan.ignore_case)
        return tuple(
            Needle(plan.column, each, "contains", regex.ignore_case) for each in regex.literals
        )
    pieces = read_like(text, plan.escape).pieces if plan.form == "like" else ((plan.form, text),)
    kind, needle = longest(ascii_runs(pieces) if plan.ignore_case else pieces)
    return (Needle(plan.column, needle, kind, plan.ignore_case),)


def _plans(condition: Expression) -> tuple[NeedlePlan, ...]:
    """Return the plans of a single test of a text column, or ()."""
    match condition:
        case Like(Column(name), pattern, escape, ignore_case):
            plans = [NeedlePlan(name, pattern, "like", ignore_case, escape)]
        case Matches(Column(name), pattern, ignore_case):
            plans = [NeedlePlan(name, pattern, "regex", ignore_case)]
        case Compare("=", Column(name), pattern) | Compare("=", pattern, Column(name)):
            plans = [NeedlePlan(name, pattern, "equals")]
        case In(Column(name), options):
            given = [option for option in options if option != Literal(None)]
            plans = [NeedlePlan(name, option, "equals") for option in given]
        case Call(function, (Column(name), pattern)) if function in _CALLS:
            plans = [NeedlePlan(name, pattern, _CALLS[function])]
        case _:
            return ()
    return tuple(plans) if all(_constant_text(plan.pattern) for plan in plans) else ()


def _constant_text(pattern: Expression) -> bool:
    if isinstance(pattern, Parameter):
        return bool(type_named(pattern.type) == pa.string())
    return isinstance(pattern, Literal) and isinstance(pattern.value, str)


def _length(plan: NeedlePlan) -> int:
    """Return how long the shortest needle of a plan is, 0 if it has none."""
    if not isinstance(plan.pattern, Literal):
        return _GUESSES[plan.form]
    needles = needles_of(plan, plan.pattern.value) or ()
    return min((len(needle.text.encode()) for needle in needles), default=0)


def _rank(plans: tuple[NeedlePlan, ...]) -> tuple[bool, int]:
    symbolic = all(isinstance(plan.pattern, Parameter) for plan in plans)
    return symbolic, min(map(_length, plans))


def _flat(condition: Expression, node: type[Both] | type[Either]) -> list[Expression]:
    """Return the operands of nested ANDs, or ORs, however deep, in the order written."""
    operands: list[Expression] = []
    waiting = [condition]
    while waiting:
        each = waiting.pop()
        if isinstance(each, node):
            waiting += (each.right, each.left)
        else:
            operands.append(each)
    return operands
