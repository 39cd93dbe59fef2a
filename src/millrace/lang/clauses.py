"""Clauses that several statements share: columns with types, options, constants, the query."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokens import Token, TokenType

from millrace.errors import SchemaError
from millrace.lang import constants
from millrace.lang.cursor import Cursor
from millrace.lang.declarations import Connector, Options
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.queries import Parsed, parse_condition, parse_query
from millrace.lang.words import Value
from millrace.plan.expressions import Scalar
from millrace.schema import Column, Schema, type_name, type_named

AS_SETS_ARE_WRITTEN = "A set is written in round brackets: ('ACME', 'BOLT'), ('ACME'), ()."

_WORDS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
_TYPED = {"DATE": "date", "TIMESTAMP": "timestamp"}


def rest_as_query(cursor: Cursor) -> Parsed:
    """Read everything that is left as a query."""
    tokens = _rest(cursor, "query")
    return parse_query(tokens, cursor.source)


def rest_as_condition(cursor: Cursor) -> Parsed:
    """Read WHERE and a condition, which is everything that is left."""
    if not cursor.accept("WHERE"):
        cursor.fail('"WHERE" was expected here', hint="To mean all rows, write WHERE TRUE.")
    tokens = _rest(cursor, "condition")
    return parse_condition(tokens, cursor.source)


def _rest(cursor: Cursor, what: str) -> list[Token]:
    tokens = cursor.tokens[cursor.index :]
    if not tokens:
        cursor.fail(f"a {what} was expected here")
    cursor.index = len(cursor.tokens)
    return tokens


def schema(cursor: Cursor) -> Schema:
    """Read columns and their types in round brackets."""
    first = cursor.span
    return _schema(cursor, cursor.wrapped(lambda: _column(cursor)), first)


def keyed_schema(cursor: Cursor) -> tuple[Schema, tuple[str, ...]]:
    """Read columns in round brackets, and `PRIMARY KEY` behind one of them or at the end."""
    first = cursor.span
    keys: list[tuple[str, ...]] = []
    items = cursor.wrapped(lambda: _keyed_column(cursor, keys))
    columns = [each for each in items if each is not None]
    return _schema(cursor, columns, first), keys[0] if keys else ()


def _keyed_column(cursor: Cursor, keys: list[tuple[str, ...]]) -> Column | None:
    span, found = cursor.span, None
    if cursor.accept("PRIMARY KEY"):
        key = cursor.names("column")
    else:
        found = _column(cursor)
        span = cursor.span
        if not cursor.accept("PRIMARY KEY"):
            return found
        key = (found.name,)
    if keys:
        cursor.fail("PRIMARY KEY is given twice", span=span, code="CQL004")
    keys.append(key)
    return found


def _schema(cursor: Cursor, columns: Sequence[Column], first: Span) -> Schema:
    try:
        return Schema(tuple(columns))
    except SchemaError as cause:
        span = Span(first.first, cursor.last.end + 1)
        raise LanguageError(
            cause.message,
            source=cursor.source,
            span=span,
            code="CQL004",
            detail=cause.detail,
            hint=cause.hint,
        ) from cause


def _column(cursor: Cursor) -> Column:
    found = Column(cursor.name("column"), type_named(type_text(cursor)))
    word = cursor.word()
    if word in ("NOT", "NULL", "DEFAULT", "UNIQUE", "CHECK", "REFERENCES", "GENERATED"):
        hint = "A column has a name and a type; a table may have a PRIMARY KEY. Leave it out."
        cursor.fail(f"{word} is not known behind a type", hint=hint)
    return found


def type_text(cursor: Cursor) -> str:
    """Read a type and return our name of it."""
    start = cursor.index
    first = cursor.span
    if not cursor.word():
        cursor.fail("a type was expected here")
    cursor.index += 1
    if cursor.accept("("):
        while cursor.token is not None and not cursor.accept(")"):
            cursor.index += 1
    span = Span(first.first, cursor.last.end + 1)
    try:
        return type_name(type_named(cursor.source[span.first : span.stop]))
    except SchemaError as cause:
        cursor.index = start
        raise LanguageError(
            cause.message,
            source=cursor.source,
            span=span,
            code="CQL033",
            detail=cause.detail,
            hint=cause.hint,
        ) from cause


def connector(cursor: Cursor, what: str) -> Connector:
    """Read the kind of a source or a sink and its options."""
    span, kind = cursor.span, cursor.name(what)
    cursor.mark("kind", kind, span=span)
    if cursor.word() != "(":
        cursor.fail('"(" was expected here', hint=f"Write {kind}(option => value, ...).")
    return Connector(kind, options(cursor))


def options(cursor: Cursor) -> Options:
    """Read `(option => value, ...)`, which may be empty."""
    if cursor.accept("(", ")"):
        return ()
    seen = set[str]()
    return cursor.wrapped(lambda: _option(cursor, seen))


def _option(cursor: Cursor, seen: set[str]) -> tuple[str, Value]:
    span = cursor.span
    name = cursor.name("option", reserved=True).lower()
    if name in seen:
        cursor.fail(f'option "{name}" is given twice', span=span, code="CQL004")
    seen.add(name)
    cursor.mark("option", name, span=span)
    cursor.expect("=>")
    return name, value(cursor)


def value(cursor: Cursor) -> Value:
    """Read a constant, or several: `('a', 'b')`, `()`."""
    if cursor.accept("(", ")"):
        return ()
    if cursor.word() == "(":
        return cursor.wrapped(lambda: constant(cursor))
    return constant(cursor)


def constant(cursor: Cursor) -> Scalar:
    """Read a constant: a text, a number, TRUE, FALSE, NULL, X'00FF', DATE or TIMESTAMP '...'."""
    first = cursor.span
    word = cursor.word()
    if word in _WORDS:
        cursor.index += 1
        return _WORDS[word]
    if word in ("ARRAY", "[", "{", "LIST", "SET"):
        cursor.fail("a constant was expected here", hint=AS_SETS_ARE_WRITTEN)
    kind = _TYPED.get(word)
    cursor.index += kind is not None
    negative = kind is None and cursor.accept("-")
    token = cursor.token
    if token is None:
        cursor.fail("a constant was expected here")
    cursor.index += 1
    span = Span(first.first, token.end + 1)
    try:
        match token.token_type:
            case TokenType.STRING if not negative:
                return constants.converter(kind or "text")(token.text)
            case TokenType.HEX_STRING if kind is None and not negative:
                return constants.to_bytes(token.text)
            case TokenType.NUMBER if kind is None:
                number = constants.number_of(token.text)
                return constants.negative(number) if negative else number
            case _:
                cursor.index -= 1
                cursor.fail("a constant was expected here")
    except constants.NotOfTypeError as cause:
        shown = quoted(cursor.source, span)
        raise LanguageError(
            f"{shown} {cause}",
            source=cursor.source,
            span=span,
            code="CQL032",
            hint=constants.hint_for(kind or "binary"),
        ) from cause
