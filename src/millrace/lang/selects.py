"""The parts of a SELECT: what makes a stream of it, what it reads, and what it answers.

Whatever is not a selection over one stream is refused here by its name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlglot import exp

from millrace.lang.errors import LanguageError
from millrace.lang.refusals import node_refused, only, refused, window_refused
from millrace.lang.scope import Scope, matches, stream_of
from millrace.lang.translate import Translator
from millrace.lang.trees import WINDOW, CqlWindow, XStream, span_of
from millrace.plan.expressions import Column, Expression
from millrace.plan.nodes import Output
from millrace.schema import Schema


def select_of(tree: exp.Expr, source: str) -> tuple[exp.Select, XStream | None]:
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


def _select_stream(select: exp.Select, outer: XStream | None, source: str) -> XStream | None:
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


def scope_of(
    select: exp.Select,
    kind: XStream | None,
    streams: Mapping[str, Schema],
    source: str,
    relations: Collection[str],
) -> Scope:
    """Return the stream that a SELECT reads; its window must make the query a selection."""
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
    if shape == "RANGE" and window is not None and window.args.get("size") == 0:
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
    bounds = window.args.get("size"), window.args.get("slide")
    return window.args["kind"] in ("RANGE", "ROWS") and bounds == (None, None)


def outputs_of(select: exp.Select, scope: Scope, translator: Translator) -> list[Output]:
    """Return the columns of the answer, translated."""
    items = select.expressions
    if len(items) == 1 and isinstance(items[0], XStream):
        items = items[0].expressions
    outputs: dict[str, Output] = {}
    for number, item in enumerate(items, 1):
        for each in _item(item, number, scope, translator):
            _check_name(each.name, item, outputs, scope.source)
            outputs[each.name] = each
    return list(outputs.values())


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


def _check_name(name: str, item: exp.Expr, outputs: Collection[str], source: str) -> None:
    if name in outputs:
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
            hint="Rename it: AS another_name.",
        )


def _bare(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item


def _set_arguments(node: exp.Expr) -> list[str]:
    return [key for key, value in node.args.items() if value not in (None, False, [])]
