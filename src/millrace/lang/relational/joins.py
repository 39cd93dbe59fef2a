"""Joins: pairs of items of a FROM, by a condition or by columns of the same name."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from millrace.lang.refusals import NOT_YET, only
from millrace.lang.relational.context import Environment, Rows
from millrace.lang.relational.frame import Frame, Merged
from millrace.lang.relational.terms import Place, Question, Terms, asked, with_answers
from millrace.lang.trees import span_of
from millrace.plan.expressions import Both, Call, Column, Compare, Expression, walk
from millrace.plan.nodes import Output
from millrace.plan.relations import Filter, Join, JoinKind, Project
from millrace.plan.scopes import free
from millrace.schema import Column as Field

Side: TypeAlias = tuple[Rows, Frame]

_METHODS = {
    "NATURAL": (
        "It would join by whatever columns happen to have the same name.",
        "Write JOIN ... USING (column).",
    ),
    "ASOF": (
        "It would choose, for each row, the newest one before it.",
        "Join with the newest row of each key: quotes [PARTITION BY symbol ROWS 1].",
    ),
}
_ASKED = {"SEMI": "EXISTS", "ANTI": "NOT EXISTS"}
_KINDS: dict[str, JoinKind] = {"": "inner", "LEFT": "left", "RIGHT": "right", "FULL": "full"}


def joined(join: exp.Join, left: Side, right: Side, env: Environment) -> Side:
    """Return two sides of a join as one."""
    only(join, env.text.source, "this", "side", "kind", "on", "using", "method")
    kind = _kind(join, env)
    on, using = join.args.get("on"), join.args.get("using")
    frame = Frame(
        env.text.source,
        left[1].items + right[1].items,
        left[1].merged + right[1].merged,
        env.outer,
    )
    if using:
        return _using(kind, using, left, right, env)
    rows = _matched(kind, on, (left[0], right[0]), frame, env)
    return rows, replace(frame, outer=None)


def _matched(
    kind: JoinKind, on: exp.Expr | None, sides: tuple[Rows, Rows], frame: Frame, env: Environment
) -> Rows:
    """Return the pairs for which a condition is true, and what an outer join keeps alone."""
    rows = _pairs(kind, sides, None)
    if on is None:
        return rows
    questions: list[Question] = []
    raw = Terms(env, frame, Place("ON", rows, questions)).expression(on)
    if questions and kind == "inner":  # they are asked of pairs, as in WHERE
        rows = with_answers(rows, questions, env)
        return replace(rows, plan=Filter(rows.plan, env.condition(raw, rows)))
    for each in questions:
        sides = _asked_of_side(kind, each, sides, env)
    rows = _pairs(kind, sides, None)
    return _pairs(kind, sides, env.condition(raw, rows))


def _pairs(kind: JoinKind, sides: tuple[Rows, Rows], condition: Expression | None) -> Rows:
    left, right = sides
    return Rows(Join(kind, left.plan, right.plan, condition), left.columns + right.columns)


def _asked_of_side(
    kind: JoinKind, question: Question, sides: tuple[Rows, Rows], env: Environment
) -> tuple[Rows, Rows]:
    """Ask the rows of one side of an outer join, if the question is about no other ones."""
    left, right = sides
    operands = (
        each.name for part in question.operands for each in walk(part) if isinstance(each, Column)
    )
    named = {*operands, *free(question.answer.plan, env.shared.declared)}
    one, other = ({each.name for each in side.columns} & named for side in sides)
    if not one:
        return left, asked(right, question, env)
    if not other:
        return asked(left, question, env), right
    raise env.text.fault(
        question.node,
        f"a subquery about both sides of a {kind.upper()} JOIN is not executed yet",
        code=NOT_YET,
        detail="It would be asked of every pair of rows before it is known which rows have none.",
        hint="Write the inner join, and UNION ALL the rows for which NOT EXISTS (SELECT 1 ...).",
    )


def _kind(join: exp.Join, env: Environment) -> JoinKind:
    side, word = join.args.get("side") or "", join.args.get("kind") or ""
    method = join.args.get("method")
    if method:
        detail, hint = _METHODS.get(method, ("", "Write JOIN ... ON condition."))
        message = f"{method} JOIN is not part of CQL"
        raise env.text.fault(join.this, message, code="CQL050", detail=detail, hint=hint)
    if side not in _KINDS or word not in ("", "INNER", "OUTER", "CROSS"):
        name = " ".join([side, word]).strip()
        hint = f"Write WHERE {_ASKED[word]} (SELECT ...)." if word in _ASKED else ""
        raise env.text.fault(join.this, f"{name} JOIN is not part of CQL", code="CQL050", hint=hint)
    before = env.text.source[: span_of(join.this).first]
    worded = re.search(r"\bjoin[\s(]*$", before, re.IGNORECASE) is not None
    bare = join.args.get("on") is None and not join.args.get("using")
    if bare and worded and word != "CROSS":
        hint = "Write ON condition, or USING (column)."
        raise env.text.fault(join.this, "JOIN has no condition", hint=hint)
    if word == "CROSS" and not bare:
        raise env.text.fault(join.this, "CROSS JOIN has no condition", hint="Write JOIN.")
    return _KINDS[side]


def _using(
    kind: JoinKind, names: list[exp.Identifier], left: Side, right: Side, env: Environment
) -> Side:
    """Join by columns that both sides have, each of which is one column afterwards."""
    (before, one), (behind, other) = left, right
    merged: dict[str, Merged] = {}
    pairs: list[tuple[str, str]] = []
    conditions: list[Expression] = []
    for name in names:
        node = exp.Column(this=name)
        pair = one.column(node), other.column(node)
        if pair in pairs:
            raise env.text.fault(name, f'USING names "{name.name}" twice', code="CQL004")
        pairs.append(pair)
        equal = Compare("=", Column(pair[0]), Column(pair[1]))
        conditions.append(env.text.notes.at(equal, span_of(name)))
    rows = Rows(before.plan, before.columns + behind.columns)
    raw = conditions[0]
    for each in conditions[1:]:
        raw = env.text.notes.at(Both(raw, each), span_of(names[0]))
    plan = Join(kind, before.plan, behind.plan, env.condition(raw, rows))
    rows = replace(rows, plan=plan)
    for name, pair in zip(names, pairs, strict=True):
        rows, column = _one_of(kind, pair, name, (rows, env))
        members = {*pair}
        for old in (*one.merged, *other.merged):
            members |= old.members if old.column in pair else frozenset()
        shown = next(every.name for every in one.visible() if every.column == pair[0])
        merged[shown] = Merged(shown, column, frozenset(members))
    gone = frozenset[str]().union(*(each.members for each in merged.values()))
    kept = [old for old in (*one.merged, *other.merged) if old.column not in gone]
    frame = Frame(env.text.source, one.items + other.items, (*merged.values(), *kept))
    return rows, frame


def _one_of(
    kind: JoinKind, pair: tuple[str, str], node: exp.Identifier, within: tuple[Rows, Environment]
) -> tuple[Rows, str]:
    """Return the column that USING makes of two: the one that is never missing."""
    rows, env = within
    if kind != "full":
        return rows, pair[1] if kind == "right" else pair[0]
    name = env.made_up(node)
    either = Call("coalesce", (Column(pair[0]), Column(pair[1])))
    value, found = env.settled(either, rows)
    kept = tuple(Output(each.name, Column(each.name)) for each in rows.columns)
    columns = (*rows.columns, Field(name, found))
    return Rows(Project(rows.plan, (*kept, Output(name, value))), columns), name
