"""Parsing scripts: text becomes statements.

A script is statements with semicolons between them; -- and /* */ are comments. The first words
say which statement it is; what is SQL inside it (queries, conditions) is sqlglot's, the rest is
read here.

    CREATE STREAM trades (symbol text, price double, ts timestamp)
      TIMESTAMP BY ts DELAY 2 seconds RETAIN 1 hour KEY (symbol)
      FROM files(path => '/data/trades/*.parquet');
    CREATE QUERY TEMPLATE alert (sym text, low double)
      AS SELECT * FROM trades WHERE symbol = :sym AND price > :low;
    INSERT INTO alert VALUES ('ACME', 100), ('BOLT', 12.5);
    CREATE TABLE limits (symbol text, most double, PRIMARY KEY (symbol));
    CREATE QUERY big WITH (history = '1 hour', ttl = '7 days')
      AS SELECT symbol, price FROM trades WHERE price > 100;
    ALTER QUERY big SET (policy = 'eager');
    SUBSCRIBE big;
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

from sqlglot.tokens import Token

from millrace.lang import lexical
from millrace.lang.clauses import (
    connector,
    constant,
    keyed_schema,
    options,
    rest_as_query,
    schema,
    type_text,
)
from millrace.lang.cursor import Cursor, Mark
from millrace.lang.declarations import (
    Alter,
    Alterable,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateTemplate,
    CreateView,
    Drop,
    DryRun,
    Explain,
    FanOut,
    Kind,
    Listing,
    Pause,
    Read,
    Register,
    Show,
    Statement,
    Subscribe,
    Written,
)
from millrace.lang.errors import LanguageError, Span, place
from millrace.lang.queries import FIRST_WORDS, names_only
from millrace.lang.query_options import changed_option, query_options
from millrace.lang.row_changes import read_delete, read_insert, read_update
from millrace.plan.nearest import nearest

_LISTINGS = ("STREAMS", "QUERIES", "TEMPLATES", "SINKS", "FAMILIES", "TABLES", "VIEWS")
_ALTERABLE = ("STREAM", "QUERY", "TEMPLATE")
_KINDS = ("STREAM", "QUERY", "TEMPLATE", "SINK", "TABLE", "VIEW")
_CREATED = (
    "A view is computed where it is read; what CREATE QUERY names keeps its answers.",
    "Write DROP first; to declare the same again changes nothing.",
)
_FAN_OUTS = ("ROWS", "COUNTS", "SETS")


def parse(script: str) -> list[Statement]:
    """Return the statements of a script.

    Examples
    --------
    >>> [str(each) for each in parse("show queries; pause query big -- for a while")]
    ['SHOW QUERIES', 'PAUSE QUERY big']
    """
    pieces = ((span, lexical.tokenize(script, span)) for span in lexical.statements(script))
    return [_statement(script, span, tokens) for span, tokens in pieces if tokens]


def parse_one(text: str) -> Statement:
    """Return the only statement of a text."""
    found = parse(text)
    if len(found) != 1:
        message = "there is no statement" if not found else "there is more than one statement"
        raise LanguageError(message, source=text, span=Span(0, 0))
    return found[0]


def _statement(script: str, span: Span, tokens: list[Token]) -> Statement:
    cursor = Cursor(tokens, script)
    statement = _read(cursor)
    cursor.finish()
    line, column = place(script, span.first)
    written = Written(script[span.first : span.stop], line, column, script, span.first)
    return replace(statement, written=written)


def parts(written: Written) -> dict[Mark, Span]:
    """Say where the names, options and values of a statement stand in its script.

    It is read once more for that, so that statements which are in order need not know it.
    """
    span = Span(written.first, written.first + len(written.text))
    cursor = Cursor(lexical.tokenize(written.script, span), written.script)
    cursor.marks = {}
    _read(cursor)
    return cursor.marks


def _read(cursor: Cursor) -> Statement:
    word = cursor.word()
    if word in FIRST_WORDS or names_only(cursor.tokens):
        return Read(rest_as_query(cursor))
    read = _STATEMENTS.get(word)
    if read is None:
        known = sorted({*_STATEMENTS, "SELECT"})
        cursor.fail(
            "statement is not understood",
            hint=nearest(word, known) or f"A statement begins with {', '.join(known)}.",
        )
    cursor.index += 1
    return read(cursor)


def _one_of(cursor: Cursor, words: tuple[str, ...]) -> str:
    """Read one of some words and return it in small letters."""
    found = cursor.word()
    if found not in words:
        listed = ", ".join(words[:-1]) + f" or {words[-1]}"
        cursor.fail(f"{listed} was expected here", hint=nearest(found, words))
    cursor.index += 1
    return found.lower()


def _create(cursor: Cursor) -> Statement:
    word = cursor.word()
    if word in ("OR", "MATERIALIZED", "TEMPORARY", "TEMP"):
        cursor.fail(f"CREATE has no {word}", hint=_CREATED[word == "OR"])
    match _one_of(cursor, ("STREAM", "TABLE", "VIEW", "QUERY", "SINK")):
        case "stream":
            return _create_stream(cursor)
        case "sink":
            return _create_sink(cursor)
        case "table":
            return _create_table(cursor)
        case "view":
            return _create_view(cursor)
        case _:
            return _create_template(cursor) if cursor.accept("TEMPLATE") else _create_query(cursor)


def _new_name(cursor: Cursor, kind: str) -> str:
    """Read the name of what is created."""
    if cursor.word() == "IF":
        hint = "Leave IF NOT EXISTS out: to declare the same again changes nothing."
        cursor.fail("CREATE has no IF NOT EXISTS", hint=hint)
    return cursor.name(kind)


def _create_stream(cursor: Cursor) -> CreateStream:
    name, columns = _new_name(cursor, "stream"), schema(cursor)
    found: dict[str, Any] = {}
    while not cursor.accept("FROM"):
        word, span = cursor.word(), cursor.span
        read = _STREAM_CLAUSES.get(word)
        if read is None:
            cursor.fail(
                f"{', '.join(_STREAM_CLAUSES)} or FROM was expected here",
                hint=nearest(word, _STREAM_CLAUSES),
            )
        if word in found:
            cursor.fail(f"{word} is given twice", span=span)
        cursor.index += 1
        found[word] = read(cursor)
    if "TIMESTAMP" not in found:
        cursor.fail("the stream has no TIMESTAMP BY", hint="Name the column of the event time.")
    time, *order = found.pop("TIMESTAMP")
    clauses = {"partition" if key == "PARTITION BY" else key.lower(): found[key] for key in found}
    source = connector(cursor, "source")
    return CreateStream(name, columns, time, source, tuple(order), **clauses)


def _timestamp_by(cursor: Cursor) -> tuple[str, ...]:
    cursor.expect("BY")
    return cursor.listed(lambda: cursor.name("column"))


_STREAM_CLAUSES: dict[str, Callable[[Cursor], Any]] = {
    "TIMESTAMP": _timestamp_by,
    "DELAY": lambda cursor: cursor.duration("DELAY"),
    "RETAIN": lambda cursor: cursor.duration("RETAIN"),
    "IDLE": lambda cursor: cursor.duration("IDLE"),
    "PARTITION BY": lambda cursor: cursor.name("column"),
    "KEY": lambda cursor: cursor.names("column"),
    "JSON": lambda cursor: cursor.name("column"),
}


def _create_sink(cursor: Cursor) -> CreateSink:
    name = _new_name(cursor, "sink")
    queries: tuple[str, ...] | None = None
    if cursor.accept("FOR") and not cursor.accept("ALL"):
        queries = cursor.listed(lambda: cursor.name("query"))
    if not cursor.accept("AS"):
        cursor.expect("TO")
    target = connector(cursor, "sink's kind")
    fan_out = _one_of(cursor, _FAN_OUTS) if cursor.accept("AS") else "rows"
    return CreateSink(name, target, queries, cast(FanOut, fan_out))


def _create_query(cursor: Cursor) -> CreateQuery:
    name = _new_name(cursor, "query")
    into = cursor.name("feed") if cursor.accept("INTO") else None
    given, unbounded = query_options(cursor)
    cursor.expect("AS")
    return CreateQuery(name, rest_as_query(cursor), into, unbounded, given)


def _create_template(cursor: Cursor) -> CreateTemplate:
    name = _new_name(cursor, "template")
    seen = set[str]()
    parameters = cursor.wrapped(lambda: _parameter(cursor, seen))
    given, unbounded = query_options(cursor)
    cursor.expect("AS")
    return CreateTemplate(name, parameters, rest_as_query(cursor), unbounded, given)


def _parameter(cursor: Cursor, seen: set[str]) -> tuple[str, str]:
    span = cursor.span
    name = cursor.name("parameter")
    if name.casefold() in seen:
        cursor.fail(f'parameter "{name}" is declared twice', span=span, code="CQL004")
    seen.add(name.casefold())
    return name, type_text(cursor) + ("[]" if cursor.accept("[", "]") else "")


def _create_table(cursor: Cursor) -> CreateTable:
    name = _new_name(cursor, "table")
    if cursor.word() == "AS":
        hint = "Declare its columns and insert rows, or write CREATE VIEW name AS SELECT ..."
        cursor.fail("a table is not made of a query", hint=hint)
    columns, key = keyed_schema(cursor)
    source = connector(cursor, "source") if cursor.accept("FROM") else None
    return CreateTable(name, columns, key, source)


def _create_view(cursor: Cursor) -> CreateView:
    name = _new_name(cursor, "view")
    columns = cursor.names("column") if cursor.word() == "(" else ()
    cursor.expect("AS")
    return CreateView(name, rest_as_query(cursor), columns)


def _register(cursor: Cursor) -> Register:
    kind = _one_of(cursor, ("STREAM", "RELATION"))
    name, columns = cursor.name(kind), schema(cursor)
    given = options(cursor) if cursor.accept("WITH") else ()
    return Register("stream" if kind == "stream" else "relation", name, columns, given)


def _drop(cursor: Cursor) -> Drop:
    kind = cast(Kind, _one_of(cursor, _KINDS))
    exists = cursor.accept("IF", "EXISTS")
    return Drop(kind, cursor.name(kind), exists)


def _pause(cursor: Cursor) -> Pause:
    resume = cursor.last.text.upper() == "RESUME"
    cursor.expect("QUERY")
    return Pause(cursor.name("query"), resume)


def _alter(cursor: Cursor) -> Alter:
    kind = cast(Alterable, _one_of(cursor, _ALTERABLE))
    name = cursor.name(kind)
    cursor.expect("SET")
    return Alter(kind, name, changed_option(cursor, kind))


def _show(cursor: Cursor) -> Show:
    return Show(cast(Listing, _one_of(cursor, _LISTINGS)))


def _explain(cursor: Cursor) -> Explain | DryRun:
    if cursor.accept("DRY", "RUN"):
        history = cursor.duration("OVER") if cursor.accept("OVER") else None
        return DryRun(rest_as_query(cursor), history)
    analyze = cursor.accept("ANALYZE")
    if cursor.accept("QUERY") or cursor.accept("TEMPLATE"):
        return Explain(cursor.name("query"), analyze)
    if len(cursor.tokens) == cursor.index + 1 and cursor.word() not in FIRST_WORDS:
        cursor.fail("a query was expected here", hint="To name one, write EXPLAIN QUERY name.")
    return Explain(rest_as_query(cursor), analyze)


def _subscribe(cursor: Cursor) -> Subscribe:
    name = cursor.name("query")
    if not cursor.accept("FROM"):
        return Subscribe(name)
    span, found = cursor.span, constant(cursor)
    if isinstance(found, bool) or not isinstance(found, str | int):
        cursor.fail("a cursor was expected here", span=span, hint="It is a text, or an epoch.")
    return Subscribe(name, found)


_STATEMENTS: dict[str, Callable[[Cursor], Statement]] = {
    "ALTER": _alter,
    "CREATE": _create,
    "REGISTER": _register,
    "INSERT": read_insert,
    "UPDATE": read_update,
    "DELETE": read_delete,
    "DROP": _drop,
    "PAUSE": _pause,
    "RESUME": _pause,
    "SHOW": _show,
    "EXPLAIN": _explain,
    "SUBSCRIBE": _subscribe,
}
