"""Queries of queries: WITH, set operations, brackets, and ISTREAM(...) around a whole query."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from millrace.lang.refusals import keyword, node_refused, only
from millrace.lang.relational.context import Answer, Environment, Rows
from millrace.lang.relational.named import renamed, with_names
from millrace.lang.relational.order import cut, ordering
from millrace.lang.relational.select import answer_of_select
from millrace.lang.relational.streams import relation_of, streamed
from millrace.lang.trees import XStream
from millrace.plan.relations import Combined, SetKind
from millrace.plan.types import common_type, shown
from millrace.schema import Column as Field

_KINDS: dict[type[exp.Expr], SetKind] = {
    exp.Union: "union",
    exp.Except: "except",
    exp.Intersect: "intersect",
}
_CUTS = ("order", "limit", "offset", "with_")


def answer_of(tree: exp.Expr, env: Environment) -> Answer:
    """Bind a query."""
    env = _with(tree, env)
    match tree:
        case XStream() if tree.this is not None:
            return _streamed(tree, env)
        case exp.Subquery() if not isinstance(tree.this, exp.Table):
            only(tree, env.text.source, "this", *_CUTS)
            return _cut(tree, answer_of(tree.this, env), env)
        case exp.Select():
            return answer_of_select(tree, env)
        case exp.SetOperation():
            only(tree, env.text.source, "this", "expression", "distinct", *_CUTS)
            return _cut(tree, Answer(_combined(tree, env)), env)
        case _:
            raise node_refused(tree, env.text.source)


def _streamed(tree: XStream, env: Environment) -> Answer:
    inner = answer_of(tree.this, env)
    if inner.stream is not None:
        raise env.text.fault(
            tree,
            f"{tree.args['kind']} stands around a query that is a stream already",
            code="CQL020",
            hint="Leave one of them out.",
        )
    return streamed(inner.rows, tree, env)


def _with(tree: exp.Expr, env: Environment) -> Environment:
    """Return the environment of a query behind its WITH; each name sees those before it."""
    clause = tree.args.get("with_")
    if clause is None:
        return env
    if clause.args.get("recursive"):
        span = keyword("RECURSIVE", env.text.source, clause)
        detail = "A query would depend on its own answer at the same instant."
        raise env.text.fault(
            span, "WITH RECURSIVE is not part of CQL", code="CQL050", detail=detail
        )
    only(clause, env.text.source, "expressions")
    named: dict[str, Answer] = {}
    for each in clause.expressions:
        only(each, env.text.source, "this", "alias")
        alias = each.args["alias"]
        if any(alias.name.casefold() == name.casefold() for name in named):
            message = f'WITH has "{alias.name}" twice'
            raise env.text.fault(alias, message, code="CQL004", hint="Rename one.")
        answer = answer_of(each.this, replace(env, named={**env.named, **named}))
        given = list(alias.args.get("columns") or ())
        if given:
            answer = with_names(answer, renamed(given, answer.rows.columns, alias, env))
        named[alias.name] = answer
    return replace(env, named={**env.named, **named})


def _cut(tree: exp.Expr, answer: Answer, env: Environment) -> Answer:
    """Apply ORDER BY and LIMIT behind a whole query."""
    if all(tree.args.get(each) is None for each in ("order", "limit", "offset")):
        return answer
    rows = relation_of(answer, env.shared)
    ordered = ordering(tree, [each.name for each in rows.columns], env)
    return Answer(cut(tree, rows, ordered, env))


def _combined(tree: exp.SetOperation, env: Environment) -> Rows:
    kind = _KINDS[type(tree)]
    left, right = (
        relation_of(answer_of(each, env), env.shared) for each in (tree.this, tree.expression)
    )
    columns = _columns(kind, tree, (left, right), env)
    keep_all = tree.args.get("distinct") is False
    return Rows(Combined(kind, left.plan, right.plan, keep_all), columns)


def _columns(
    kind: SetKind, tree: exp.SetOperation, sides: tuple[Rows, Rows], env: Environment
) -> tuple[Field, ...]:
    left, right = (each.columns for each in sides)
    if len(left) != len(right):
        raise env.text.fault(
            tree.expression,
            f"{kind.upper()} has {len(left)} columns on the left and {len(right)} on the right",
            code="CQL032",
            hint="Select as many columns on both sides.",
        )
    columns = []
    for one, other in zip(left, right, strict=True):
        found = _common(one.type, other.type)
        if found is None:
            raise env.text.fault(
                tree.expression,
                f'column "{one.name}" is {_shown(one.type)} on the left of {kind.upper()} and '
                f"{_shown(other.type)} on the right",
                code="CQL032",
                hint="Cast one of them.",
            )
        columns.append(Field(one.name, found))
    return tuple(columns)


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    if pa.types.is_list(one) or pa.types.is_list(other):
        return one if one == other else None
    return common_type([one, other])


def _shown(arrow: pa.DataType) -> str:
    return f"a list of {shown(arrow.value_type)}" if pa.types.is_list(arrow) else shown(arrow)
