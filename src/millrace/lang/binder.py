"""Binding: a query's tree becomes a plan over the streams that exist, or a message says why not.

Only what is executed is let through: a selection over one stream. By CQL's defaults a stream
without a window is unbounded, and a query without ISTREAM, DSTREAM or RSTREAM is an Istream if it
only ever grows, so these all mean the same and are one plan:

    SELECT a FROM s WHERE p
    SELECT ISTREAM(a) FROM s [RANGE UNBOUNDED] WHERE p
    SELECT RSTREAM(a) FROM s [NOW] WHERE p
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from millrace.errors import MillraceError, UnknownNameError
from millrace.lang.errors import LanguageError, Span
from millrace.lang.notes import Notes
from millrace.lang.queries import Parsed, deep, query_of
from millrace.lang.refusals import node_refused, only, refused, window_refused
from millrace.lang.scope import Scope, matches, stream_of
from millrace.lang.settle import Settler
from millrace.lang.translate import Translator
from millrace.lang.trees import WINDOW, CqlWindow, XStream, span_of
from millrace.plan.bind import bind_selection
from millrace.plan.calls import Functions
from millrace.plan.expressions import Column, Expression
from millrace.plan.nodes import Output, Selection
from millrace.schema import Schema


@dataclass(frozen=True, slots=True)
class Bound:
    """A selection whose constants have types, and where everything in it was written."""

    selection: Selection
    schema: Schema
    notes: Notes
    source: str


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
    'SELECT symbol FROM trades WHERE price > 100.0'
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
            select, kind = _unwrapped(parsed.tree, source)
            scope = _scope(select, kind, streams, source, relations)
            translator = Translator(scope, parameters, source)
            outputs = _outputs(select, scope, translator)
            where = select.args.get("where")
            condition = None if where is None else translator.expression(where.this)
    except RecursionError as cause:
        message = "query is nested too deeply"
        raise LanguageError(message, source=source, span=span_of(parsed.tree)) from cause
    notes = translator.notes
    settler = Settler(scope.schema, functions, notes, source)
    bound = Bound(Selection(scope.stream, ()), scope.schema, notes, source)
    try:
        settled = tuple(Output(each.name, settler.settle(each.value)) for each in outputs)
        selection = Selection(
            scope.stream, settled, None if condition is None else settler.settle(condition)
        )
    except MillraceError as cause:
        raise placed(cause, bound) from cause
    return replace(bound, selection=selection)


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
    return LanguageError(
        cause.message,
        source=bound.source,
        span=span,
        code=code,
        detail=cause.detail,
        hint=cause.hint,
    )


def _unwrapped(tree: exp.Expr, source: str) -> tuple[exp.Select, XStream | None]:
    """Return the SELECT of a query and what makes a stream of it."""
    stream: XStream | None = None
    while True:
        match tree:
            case XStream() if tree.this is not None and stream is None:
                stream, tree = tree, tree.this
            case exp.Subquery() if not set(_set_arguments(tree)) - {"this"}:
                tree = tree.this
            case exp.Select():
                return tree, _select_stream(tree, stream, source)
            case _:
                raise node_refused(tree, source)


def _select_stream(
    select: exp.Select, outer: XStream | None, source: str
) -> XStream | None:
    only(select, source, "expressions", "from_", "where", "kind", "operation_modifiers")
    found = [each for each in select.expressions if isinstance(_bare(each), XStream)]
    if not found:
        return _executed(outer, source)
    if len(select.expressions) > 1 or outer is not None or found[0] is not _bare(found[0]):
        raise LanguageError(
            f"{_bare(found[0]).args['kind']} must be around the whole select list",
            source=source,
            span=span_of(found[0]),
            code="CQL020",
            hint="Write SELECT ISTREAM(a, b) FROM ...",
        )
    stream = found[0]
    assert isinstance(stream, XStream)
    if stream.this is not None:
        raise node_refused(stream.this, source)
    return _executed(stream, source)


def _executed(stream: XStream | None, source: str) -> XStream | None:
    if stream is None:
        return None
    if stream.args.get("distinct"):
        raise refused("DISTINCT", source, span_of(stream))
    if stream.args.get("every") is not None:
        raise refused("EVERY", source, span_of(stream))
    if stream.args["kind"] == "DSTREAM":
        raise refused("DSTREAM", source, span_of(stream))
    return stream


def _scope(  # noqa: PLR0913, PLR0917  what a FROM is read with
    select: exp.Select,
    kind: XStream | None,
    streams: Mapping[str, Schema],
    source: str,
    relations: Collection[str],
) -> Scope:
    origin = select.args.get("from_")
    if origin is None:
        raise LanguageError(
            "query has no FROM", source=source, span=span_of(select), hint="Name a stream."
        )
    table = origin.this
    if not isinstance(table, exp.Table) or isinstance(table.this, XStream | exp.Func):
        raise node_refused(table.this if isinstance(table, exp.Table) else table, source)
    only(table, source, "this", "db", "catalog", "alias", WINDOW)
    window = table.args.get(WINDOW)
    if isinstance(table.this, exp.Identifier) and matches(table.this, relations):
        raise _relation_refused(table, window, source)
    stream = stream_of(table, streams, source)
    _check_window(window, kind, source)
    alias = table.args.get("alias")
    if alias is not None:
        only(alias, source, "this")
    return Scope(stream, alias.name if alias is not None else stream, streams[stream], source)


def _relation_refused(table: exp.Table, window: CqlWindow | None, source: str) -> LanguageError:
    if window is None:
        return refused("a query over a table", source, span_of(table.this))
    return LanguageError(
        f'"{table.name}" is a table and has no window',
        source=source,
        span=span_of(window),
        code="CQL010",
        hint="Windows are for streams. Leave it out.",
    )


def _check_window(window: CqlWindow | None, kind: XStream | None, source: str) -> None:
    """Require that the window makes the query a selection of what arrives."""
    shape = "UNBOUNDED" if window is None or _unbounded(window) else window.args["kind"]
    if shape == "RANGE" and window is not None and window.args["size"] == 0:
        shape = "NOW"
    word = None if kind is None else kind.args["kind"]
    if (shape, word) in {("UNBOUNDED", None), ("UNBOUNDED", "ISTREAM"), ("NOW", "RSTREAM")}:
        return
    if shape == "UNBOUNDED" and kind is not None:
        raise LanguageError(
            "RSTREAM of a relation that grows needs EVERY",
            source=source,
            span=span_of(kind),
            code="CQL040",
            detail="It would repeat every row at every instant.",
            hint="Write ISTREAM(...), or put the window [NOW] behind the stream.",
        )
    assert window is not None, "a stream without a window is unbounded"
    if shape == "NOW":
        hint = "Write SELECT RSTREAM(...) FROM stream [NOW]."
        raise refused("[NOW] without RSTREAM", source, span_of(window), hint=hint)
    raise window_refused(window, source)


def _unbounded(window: CqlWindow) -> bool:
    return window.args["kind"] in ("RANGE", "ROWS") and window.args.get("size") is None


def _outputs(select: exp.Select, scope: Scope, translator: Translator) -> list[Output]:
    items = select.expressions
    if len(items) == 1 and isinstance(items[0], XStream):
        items = items[0].expressions
    if not items:
        raise LanguageError(
            "query selects nothing", source=scope.source, span=span_of(select), hint="Write *."
        )
    outputs: list[Output] = []
    for number, item in enumerate(items, 1):
        for each in _item(item, number, scope, translator):
            _check_name(each.name, item, outputs, scope.source)
            outputs.append(each)
    return outputs


def _item(item: exp.Expr, number: int, scope: Scope, translator: Translator) -> list[Output]:
    inner = _bare(item)
    star = inner.this if isinstance(inner, exp.Column) else inner
    if isinstance(star, exp.Star):
        only(star, scope.source)
        if isinstance(inner, exp.Column):
            scope.check_table(inner)
        if item is not inner:
            raise node_refused(item, scope.source)
        return [
            Output(each, translator.notes.at(Column(each), span_of(item)))
            for each in scope.schema.names
        ]
    value = translator.expression(inner)
    if isinstance(item, exp.Alias):
        only(item, scope.source, "this", "alias")
        return [Output(item.alias, value)]
    return [Output(_default_name(value, number), value)]


def _default_name(value: Expression, number: int) -> str:
    """Name a column of the answer; never after its constants, which differ within a family."""
    return value.name if isinstance(value, Column) else f"column_{number}"


def _check_name(name: str, item: exp.Expr, outputs: list[Output], source: str) -> None:
    if any(each.name == name for each in outputs):
        raise LanguageError(
            f'column "{name}" appears twice in the answer',
            source=source,
            span=span_of(item),
            code="CQL004",
            hint=f"Rename one: {name} AS another_name.",
        )
    if name.startswith("_"):
        raise LanguageError(
            f'column name "{name}" is reserved',
            source=source,
            span=span_of(item),
            code="CQL004",
            detail='Names that start with "_" belong to millrace.',
        )


def _bare(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item


def _set_arguments(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value not in (None, False, [])]
