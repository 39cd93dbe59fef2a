"""What a name in FROM means: a query of WITH, a stream, a table, or a view that is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from sqlglot import exp

from millrace.lang.errors import LanguageError
from millrace.lang.relational.context import Answer, Environment, Rows, Text
from millrace.lang.relational.outputs import check_name
from millrace.lang.scope import listed, matches
from millrace.plan.expressions import Column
from millrace.plan.nearest import nearest
from millrace.plan.nodes import Output
from millrace.plan.relations import Project
from millrace.schema import Column as Field

Named = Literal["stream", "table", "view", "subquery"]


def resolve(identifier: exp.Identifier, env: Environment) -> tuple[Named, str]:
    """Return what a name means and how it is spelt, or raise."""
    declared = env.shared.declared
    hits = matches(identifier, env.named)
    if len(hits) == 1:
        return "subquery", hits[0]
    kinds: dict[str, Named] = {
        **dict.fromkeys(env.shared.views, "view"),
        **dict.fromkeys(declared.tables, "table"),
        **dict.fromkeys(declared.streams, "stream"),
    }
    hits = hits or matches(identifier, kinds)
    if len(hits) == 1:
        return kinds[hits[0]], hits[0]
    what = "stream" if set(kinds.values()) <= {"stream"} else "stream, table or view"
    if hits:
        raise env.text.fault(
            identifier,
            f'{what} "{identifier.name}" is ambiguous',
            code="CQL003",
            detail=f"It may be {listed(hits, 'or')}.",
            hint="Write the name in double quotes, exactly.",
        )
    known = [*env.named, *kinds]
    raise env.text.fault(
        identifier,
        f'{what} "{identifier.name}" does not exist',
        code="CQL001",
        detail=_known(env, kinds),
        hint=nearest(identifier.name, known),
    )


def _known(env: Environment, kinds: dict[str, Named]) -> str:
    if not kinds and not env.named:
        return "There are no streams."
    told = []
    for kind in ("stream", "table", "view"):
        names = [name for name, found in kinds.items() if found == kind]
        told += [f"The {kind}s are {listed(names)}."] if names else []
    told += [f"WITH has {listed(env.named)}."] if env.named else []
    return " ".join(told)


def named_answer(kind: Named, name: str, node: exp.Table, env: Environment) -> Answer:
    """Return the query that a name stands for."""
    if kind == "subquery":
        return env.named[name]
    shared = env.shared
    if name in shared.opened:
        circle = " reads ".join(f'"{each}"' for each in (*shared.opened, name))
        raise env.text.fault(node.this, f'view "{name}" reads itself', detail=f"{circle}.")
    if name not in shared.known_views:
        view = shared.views[name]
        inside = Environment(shared, Text(view.query.source), env.bind)
        shared.opened.append(name)
        try:
            answer = env.bind(view.query.tree, inside)
        except LanguageError as refusal:
            if refusal.source is view.query.source and not refusal.detail.startswith("In view"):
                refusal.detail = f'In view "{name}". {refusal.detail}'.rstrip()
            raise
        shared.opened.pop()
        if view.columns:
            if len(view.columns) != len(answer.rows.columns):
                given, n_columns = len(view.columns), len(answer.rows.columns)
                message = f'view "{name}" names {given} columns and its query has {n_columns}'
                raise env.text.fault(node.this, message, code="CQL032")
            answer = with_names(answer, view.columns)
        shared.known_views[name] = answer
    return shared.known_views[name]


def with_names(answer: Answer, names: Sequence[str]) -> Answer:
    """Return an answer whose columns have other names."""
    old = answer.rows.columns
    outputs = tuple(Output(new, Column(each.name)) for new, each in zip(names, old, strict=True))
    fields = tuple(Field(new, each.type) for new, each in zip(names, old, strict=True))
    rows = Rows(Project(answer.rows.plan, outputs), fields)
    stream = answer.stream and replace(answer.stream, relation=rows.plan)
    return Answer(rows, stream)


def renamed(
    given: list[exp.Identifier], columns: Sequence[Field], node: exp.Expr, env: Environment
) -> list[str]:
    """Return the names of columns: those that are given, then the old ones."""
    if len(given) > len(columns):
        message = f"{len(given)} names are given to {len(columns)} columns"
        raise env.text.fault(given[len(columns)], message, code="CQL004")
    names: dict[str, str] = {}
    for identifier in given:
        check_name(identifier.name, identifier, names, env)
        names[identifier.name.casefold()] = identifier.name
    for each in columns[len(given) :]:
        check_name(each.name, node, names, env)
        names[each.name.casefold()] = each.name
    return list(names.values())
