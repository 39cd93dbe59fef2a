"""Binding of a query that is answered once: what it finds in what is held now.

It is the same language over the same kinds of relations, and its meaning is that of a standing
query at one instant. So ISTREAM and its sisters say nothing here, and rows may have an order. What
a name in FROM stands for is looked up as it is written; among a million queries only those are.

A window shows what is held between two instants: [RANGE 1 HOUR], [NOW], or BEGIN ... END ... .
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from millrace.lang.errors import LanguageError
from millrace.lang.queries import Parsed, deep
from millrace.lang.relational.context import Environment, Shared, Text, View
from millrace.lang.relational.query import answer_of
from millrace.lang.trees import WINDOW, CqlWindow, XStream, span_of
from millrace.plan.declared import Declared
from millrace.plan.relations import Relation
from millrace.schema import Columns, Schema

_NO_FILES = "A query reads streams that retain rows, tables, views, queries and templates."


@dataclass(frozen=True, slots=True)
class BoundOnce:
    """The plan of a query that is answered once, and the columns of its answer."""

    plan: Relation
    schema: Schema


def names_read(query: Parsed) -> Iterator[exp.Identifier]:
    """Yield the names in FROM that no WITH of the query explains; functions there are refused."""
    own = {each.alias.casefold() for each in query.tree.find_all(exp.CTE)}
    for table in query.tree.find_all(exp.Table):
        named = table.this
        if isinstance(named, exp.Identifier) and table.args.get("db") is None:
            if named.name.casefold() not in own:
                yield named
        elif not isinstance(named, XStream):
            raise LanguageError(
                "nothing of ours has that name",
                source=query.source,
                span=span_of(table),
                code="CQL001",
                detail=_NO_FILES,
                hint="Files are read by CREATE TABLE ... FROM files(...), or by a stream.",
            )


def bind_once(
    query: Parsed,
    declared: Declared,
    *,
    views: Mapping[str, View] | None = None,
    times: Mapping[str, str] | None = None,
) -> BoundOnce:
    """Return the plan of a query; the arguments are those of `bind_relational`.

    What has a time, and so may have a window, is among the streams of `declared`, all else among
    its tables.
    """
    for text in (query, *(each.query for each in (views or {}).values())):
        _check_streams(text)
        _check_windows(text)
    env = Environment(Shared(declared, views or {}, times or {}), Text(query.source), answer_of)
    try:
        with deep():
            rows = answer_of(query.tree, env).rows
    except RecursionError as cause:
        message = "query is nested too deeply"
        raise LanguageError(message, source=query.source, span=span_of(query.tree)) from cause
    return BoundOnce(rows.plan, Columns(rows.columns))


def _check_streams(query: Parsed) -> None:
    for each in query.tree.find_all(XStream):
        raise LanguageError(
            f"{each.args['kind']} tells how a relation changes, and this is asked once",
            source=query.source,
            span=span_of(each),
            code="CQL021",
            hint="Leave it out, or register the query with CREATE QUERY.",
        )


def _check_windows(query: Parsed) -> None:
    for node in query.tree.find_all(exp.Table, exp.Subquery, exp.Select):
        window = node.args.get(WINDOW)
        if isinstance(window, CqlWindow) and not _between_instants(window):
            raise LanguageError(
                "what is asked once has windows of time that do not slide",
                source=query.source,
                span=span_of(window),
                code="CQL010",
                hint="Write [RANGE 1 HOUR] or BEGIN ... END ...; for rows, ORDER BY and LIMIT.",
            )


def _between_instants(window: CqlWindow) -> bool:
    sizes = window.args.get("size"), window.args.get("slide")
    kind = window.args["kind"]
    timed = kind in ("NOW", "BEGIN", "RANGE")
    return (timed and sizes[1] is None) or not any(sizes)
