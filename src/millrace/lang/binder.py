"""Binding: a query's tree becomes a plan over the streams that exist, or a message says why not.

Only what is executed is let through: a selection over one stream. By CQL's defaults a stream
without a window is unbounded, and a query without ISTREAM, DSTREAM or RSTREAM is an Istream if it
only ever grows, so these all mean the same and are one plan:

    SELECT a FROM s WHERE p
    SELECT ISTREAM(a) FROM s [RANGE UNBOUNDED] WHERE p
    SELECT RSTREAM(a) FROM s [NOW] WHERE p
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import pyarrow as pa

from millrace.errors import MillraceError, UnknownNameError
from millrace.lang.errors import LanguageError, Span
from millrace.lang.notes import Notes
from millrace.lang.queries import Parsed, deep, query_of
from millrace.lang.refusals import SELECTIONS_ONLY
from millrace.lang.scope import Scope
from millrace.lang.selects import outputs_of, scope_of, select_of
from millrace.lang.settle import Settler
from millrace.lang.translate import Translator
from millrace.lang.trees import span_of
from millrace.plan.bind import bind_condition as plan_condition
from millrace.plan.bind import bind_expression, bind_selection
from millrace.plan.calls import Functions
from millrace.plan.expressions import Expression
from millrace.plan.nodes import Output, Selection
from millrace.schema import Column as Field
from millrace.schema import Columns, Schema, type_named

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Bound:
    """A selection whose constants have types, and where everything in it was written."""

    selection: Selection
    schema: Schema
    notes: Notes
    source: str
    parameters: tuple[str, ...] = ()


def bind_query(
    query: str | Parsed,
    streams: Mapping[str, Schema],
    functions: Functions | None = None,
    parameters: Mapping[str, str] | None = None,
    *,
    relations: Collection[str] = (),
) -> Selection:
    """Return the plan of a query.

    Parameters
    ----------
    query
        Its text, or what `parse` made of it.
    streams
        The streams that exist, by name.
    functions
        The registered functions: each one's name and the type of what it returns.
    parameters
        The named parameters (`:name`) that the query may use, each with the name of its type;
        `Parameter.number` is the place of the name in this mapping.
    relations
        The names of tables and views, which have no windows.

    Examples
    --------
    >>> trades = Schema.of("symbol text, price double")
    >>> str(bind_query("select Symbol from trades where price > 100", {"trades": trades}))
    'SELECT symbol FROM trades WHERE price > 100.0e0'
    """
    parsed = query_of(query) if isinstance(query, str) else query
    bound = bind_parsed(parsed, streams, functions or {}, parameters or {}, relations=relations)
    return checked(bound, bound.selection, functions or {})


def bind_parsed(
    parsed: Parsed,
    streams: Mapping[str, Schema],
    functions: Functions,
    parameters: Mapping[str, str],
    *,
    relations: Collection[str] = (),
) -> Bound:
    """Translate a query and settle its constants; `checked` is the last step."""
    source = parsed.source
    try:
        with deep():
            select, kind = select_of(parsed.tree, source)
            scope = scope_of(select, kind, streams, source, relations)
            translator = Translator(scope, parameters, source)
            outputs = outputs_of(select, scope, translator)
            where = select.args.get("where")
            condition = None if where is None else translator.expression(where.this)
    except RecursionError as cause:
        message = "query is nested too deeply"
        raise LanguageError(message, source=source, span=span_of(parsed.tree)) from cause
    notes = translator.notes
    settler = Settler(scope.schema, functions, notes, source)
    bound = Bound(Selection(scope.stream, ()), scope.schema, notes, source, tuple(parameters))
    try:
        settled = tuple(Output(each.name, settler.settle(each.value)) for each in outputs)
        selection = Selection(
            scope.stream, settled, None if condition is None else settler.settle(condition)
        )
    except MillraceError as cause:
        raise placed(cause, bound) from cause
    return replace(bound, selection=selection)


def bind_condition(
    condition: Parsed,
    columns: Mapping[str, str],
    functions: Functions | None = None,
    *,
    of: str = "",
) -> Expression:
    """Return a condition over named columns: those of UPDATE and DELETE, which may be `_query`.

    `of` is the name that may qualify them.

    Examples
    --------
    >>> from millrace.lang.statements import parse_one
    >>> deletion = parse_one("DELETE FROM alert WHERE low > 5 AND _query = 'q'")
    >>> bind_condition(deletion.where, {"low": "double", "_query": "text"}).left
    Compare(operator='>', left=Column(name='low'), right=Literal(value=5.0))
    """
    return _bound_alone(condition, columns, functions or {}, of, plan_condition)


def bind_value(
    value: Parsed, columns: Mapping[str, str], functions: Functions, *, of: str = ""
) -> tuple[Expression, pa.DataType]:
    """Return an expression over named columns, such as UPDATE gives a column, and its type."""
    return _bound_alone(value, columns, functions, of, bind_expression)


def _bound_alone(
    parsed: Parsed,
    columns: Mapping[str, str],
    functions: Functions,
    of: str,
    bind: Callable[[Expression, Schema, Functions], Found],
) -> Found:
    """Bind an expression that stands in no query."""
    schema = Columns(tuple(Field(name, type_named(kind)) for name, kind in columns.items()))
    scope = Scope("", of, schema, parsed.source)
    translator = Translator(scope, {}, parsed.source)
    bound = Bound(Selection("", ()), schema, translator.notes, parsed.source)
    settler = Settler(schema, functions, translator.notes, parsed.source)
    try:
        with deep():
            translated = translator.expression(parsed.tree)
        return bind(settler.settle(translated), schema, functions)
    except RecursionError as cause:
        span = span_of(parsed.tree)
        raise LanguageError(
            "condition is nested too deeply", source=parsed.source, span=span
        ) from cause
    except LanguageError as cause:
        if cause.hint == SELECTIONS_ONLY:
            cause.message = cause.message.replace("is not executed yet", "is not allowed here")
            cause.code = "CQL031"
            cause.hint = "It sees one row; write a subquery: (SELECT ... FROM ...)."
        raise
    except MillraceError as cause:
        raise placed(cause, bound) from cause


def checked(bound: Bound, selection: Selection, functions: Functions) -> Selection:
    """Let the plan's own binder have the last word; its message gets a position."""
    try:
        return bind_selection(selection, bound.schema, functions)
    except MillraceError as cause:
        raise placed(cause, bound) from cause


def placed(cause: MillraceError, bound: Bound) -> LanguageError:
    """Return an error of the plan with the place in the text that it is about."""
    if isinstance(cause, LanguageError):
        return cause
    span = bound.notes.span(cause.node) or Span(0, len(bound.source))
    code = "CQL006" if isinstance(cause, UnknownNameError) else "CQL032"
    names = bound.parameters  # which the plan knows by their numbers only
    message = re.sub(
        r"\$(\d+)\b", lambda found: f":{names[int(found[1])]}" if names else found[0], cause.message
    )
    return LanguageError(
        message,
        source=bound.source,
        span=span,
        code=code,
        detail=cause.detail,
        hint=cause.hint,
    )
