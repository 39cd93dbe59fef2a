"""One SELECT: FROM, WHERE, GROUP BY, HAVING, the select list, DISTINCT, ORDER BY and LIMIT.

They are bound in this order, each over the rows that the one before leaves. Subqueries are asked
of the rows of the clause that they stand in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from millrace.lang.refusals import NOT_YET, keyword, node_refused, only
from millrace.lang.relational.aggregates import Calls
from millrace.lang.relational.context import Answer, Environment, Rows
from millrace.lang.relational.frame import Frame
from millrace.lang.relational.grouping import Groups, grouped, keys_of, spell_out_aliases
from millrace.lang.relational.order import Ordering, cut, ordering
from millrace.lang.relational.outputs import Selected, selected
from millrace.lang.relational.sources import from_clause
from millrace.lang.relational.streams import stream_of_select, streamed
from millrace.lang.relational.terms import Place, Question, Terms, has_aggregate, with_answers
from millrace.lang.trees import WINDOW, XStream
from millrace.plan.expressions import Column
from millrace.plan.growth import monotonic
from millrace.plan.nodes import Output
from millrace.plan.relations import Distinct, Filter, Project
from millrace.plan.spelling import to_text
from millrace.schema import Column as Field

_CLAUSES = (
    "expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "limit",
    "offset", "with_", "kind", "operation_modifiers", WINDOW,
)  # fmt: skip


@dataclass(slots=True)
class _Stage:
    """How far a SELECT is bound: its rows so far, and its groups if it has any."""

    env: Environment
    frame: Frame
    rows: Rows
    groups: Groups | None = None


def answer_of_select(select: exp.Select, env: Environment) -> Answer:
    """Bind a SELECT."""
    only(select, env.text.source, *_CLAUSES)
    stream = stream_of_select(select, env)
    items = select.expressions if stream is None else stream.expressions
    if not items:
        raise env.text.fault(stream or select, "query selects nothing", hint="Write *.")
    _refuse_streams(items, env)
    rows, frame = from_clause(select, env)
    stage = _Stage(env, frame, _where(select, frame, rows, env))
    rows = _selected(select, stream, items, stage)
    return Answer(rows) if stream is None else streamed(rows, stream, env)


def _refuse_streams(items: Sequence[exp.Expr], env: Environment) -> None:
    for item in items:
        for node in item.walk(prune=lambda each: isinstance(each, exp.Query)):
            if isinstance(node, XStream):
                raise node_refused(node, env.text.source)


def _where(select: exp.Select, frame: Frame, rows: Rows, env: Environment) -> Rows:
    where = select.args.get("where")
    if where is None:
        return rows
    questions: list[Question] = []
    raw = Terms(env, frame, Place("WHERE", rows, questions)).expression(where.this)
    rows = with_answers(rows, questions, env)
    _warn_of_requalifying(select, questions, env)
    return replace(rows, plan=Filter(rows.plan, env.condition(raw, rows)))


def _warn_of_requalifying(select: exp.Select, questions: list[Question], env: Environment) -> None:
    """Warn where a row that arrived long ago may come and go with what a window holds now."""
    changing = [
        each for each in questions if each.kind != "scalar" and not monotonic(each.answer.plan)
    ]
    table = select.args["from_"].this
    default = env.shared.defaults.get(id(table))
    if changing and default is not None and default.args["kind"] == "RANGE":
        message = "every row that ever arrived is asked again whenever the subquery changes"
        hint = f"To ask it once, write SELECT RSTREAM(...) FROM {table.name} [NOW] ..."
        env.caution("CQL043", changing[0].node, message, hint)


def _selected(
    select: exp.Select, stream: XStream | None, items: Sequence[exp.Expr], stage: _Stage
) -> Rows:
    """Bind everything behind WHERE."""
    env, frame = stage.env, stage.frame
    calls = _group(select, items, stage)
    questions: list[Question] = []
    keys = None if stage.groups is None else stage.groups.columns
    known = () if stage.groups is None else stage.groups.asked
    place = Place("the select list", stage.rows, questions, calls, keys, known)
    terms = Terms(env, frame, place)
    answered = selected(items, frame, terms, env)
    having = select.args.get("having")
    if having is not None:
        spell_out_aliases(having, items, frame)
    condition = None if having is None else terms.expression(having.this)
    distinct = _distinct(select, stream, env)
    hidden: list[Selected] = []
    ordered = ordering(
        select,
        [each.name for each in answered],
        env,
        lambda node: _ordered_by(node, terms, (answered, hidden), distinct=distinct, env=env),
    )
    if stage.groups is not None and calls is not None:
        stage.rows = grouped(calls.rows, stage.groups.keys, calls)
        questions = [stage.groups.about(each) for each in questions]
    stage.rows = with_answers(stage.rows, questions, env)
    if condition is not None:
        over = condition if stage.groups is None else stage.groups.over(condition)
        plan = Filter(stage.rows.plan, env.condition(over, stage.rows))
        stage.rows = replace(stage.rows, plan=plan)
    return _finished(select, stage, answered, hidden, ordered, distinct=distinct)


def _group(select: exp.Select, items: Sequence[exp.Expr], stage: _Stage) -> Calls | None:
    """Find out what a SELECT is grouped by, if it is; the calls then take its aggregates."""
    group, having, order = (select.args.get(each) for each in ("group", "having", "order"))
    nodes = [*items, *(order.expressions if order is not None else ())]
    if group is None and having is None and not any(has_aggregate(n, stage.env) for n in nodes):
        return None
    stage.rows, keys = keys_of(group, items, stage.frame, stage.rows, stage.env)
    below = frozenset(each.name for each in stage.rows.columns)
    stage.groups = Groups(keys, below, stage.env)
    return Calls(stage.env, stage.frame, stage.rows)


def _distinct(select: exp.Select, stream: XStream | None, env: Environment) -> bool:
    distinct = select.args.get("distinct")
    if distinct is not None and distinct.args.get("on") is not None:
        span = keyword("DISTINCT ON", env.text.source, distinct.args["on"])
        hint = "Use GROUP BY, and first(...) or last(...)."
        raise env.text.fault(span, "DISTINCT ON is not executed yet", code=NOT_YET, hint=hint)
    return distinct is not None or (stream is not None and bool(stream.args.get("distinct")))


def _ordered_by(
    node: exp.Expr,
    terms: Terms,
    columns: tuple[list[Selected], list[Selected]],
    *,
    distinct: bool,
    env: Environment,
) -> str:
    """Return the column that holds what ORDER BY computes; if need be, one that is not shown."""
    answered, hidden = columns
    raw = terms.expression(node)
    for each in (*answered, *hidden):
        if repr(each.raw) == repr(raw):
            env.pin(each.raw)
            return each.name
    if distinct:
        hint = "Add it to the select list."
        message = "DISTINCT is ordered by columns of the answer"
        raise env.text.fault(node, message, code="CQL030", hint=hint)
    hidden.append(Selected(env.shared.name(), raw, node))
    return hidden[-1].name


def _finished(
    select: exp.Select,
    stage: _Stage,
    answered: list[Selected],
    hidden: list[Selected],
    ordered: Ordering,
    *,
    distinct: bool,
) -> Rows:
    rows = _projected([*answered, *hidden], stage)
    if distinct:
        rows = replace(rows, plan=Distinct(rows.plan))
    rows = cut(select, rows, ordered, stage.env)
    if not hidden:
        return rows
    shown = tuple(Output(each.name, Column(each.name)) for each in answered)
    return Rows(Project(rows.plan, shown), rows.columns[: len(answered)])


def _projected(columns: list[Selected], stage: _Stage) -> Rows:
    outputs, fields = [], []
    for each in columns:
        raw = each.raw if stage.groups is None else stage.groups.over(each.raw)
        value, found = stage.env.settled(raw, stage.rows, lists=True)
        if found == pa.null():
            raise stage.env.text.fault(
                each.node,
                f'column "{each.name}" of the answer has no type',
                code="CQL032",
                detail=f"It is {to_text(value)}.",
                hint="Cast it, or leave the column out.",
            )
        outputs.append(Output(each.name, value))
        fields.append(Field(each.name, found))
    return Rows(Project(stage.rows.plan, tuple(outputs)), tuple(fields))
