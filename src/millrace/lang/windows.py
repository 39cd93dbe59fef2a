"""Windows: what stands in square brackets behind a stream.

    [NOW]  [ROWS UNBOUNDED SLIDE m]  [ROWS n SLIDE m]  [PARTITION BY a, b ROWS n SLIDE m]
    [RANGE UNBOUNDED SLIDE 1 hour]  [RANGE 10 minutes SLIDE 1 minute]  [RANGE INTERVAL '10' MINUTE]
    [BEGIN TIMESTAMP '2024-05-01' END NOW]  [BEGIN NOW - 1 hour END NOW - 5 minutes SLIDE 1 minute]

In a template sizes and slides may be parameters: [ROWS :n], [RANGE :w minutes SLIDE :l seconds].
A number without a unit counts microseconds, and 10,000 may have its comma. The words are not
reserved: outside the brackets they are names. BEGIN and END may also stand behind a query, without
brackets, and are then the window of every stream of its FROM that has none.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TypeAlias, cast

from sqlglot import exp
from sqlglot.tokens import TokenType

from millrace.lang.constants import NotOfTypeError, converter, hint_for
from millrace.lang.cursor import Cursor
from millrace.lang.errors import quoted
from millrace.lang.trees import CqlWindow, mark

Length: TypeAlias = tuple[int | exp.Placeholder | None, int | None]
"""How long something is, and the unit that a parameter counts."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
_NOTHING = None, None
_BOUND = "Write NOW, NOW - duration or TIMESTAMP '...'."


def read_window(cursor: Cursor) -> CqlWindow:
    """Read a window with its brackets."""
    first = cursor.token
    cursor.expect("[")
    window = _window_words(cursor)
    cursor.expect("]")
    assert first is not None, "the bracket was there"
    return cast(CqlWindow, mark(window, first, cursor.last))


def read_span(cursor: Cursor) -> CqlWindow:
    """Read BEGIN and END without brackets, as they stand behind a query."""
    first = cursor.token
    cursor.expect("BEGIN")
    window = _span_words(cursor)
    assert first is not None, "the word was there"
    return cast(CqlWindow, mark(window, first, cursor.last))


def begins_span(cursor: Cursor) -> bool:
    """Say whether BEGIN and an instant come next, so that BEGIN is not a name."""
    start = cursor.index
    found = cursor.accept("BEGIN")
    token = cursor.token
    found = found and token is not None
    if found and token is not None:
        constant = token.token_type in (TokenType.STRING, TokenType.NUMBER)
        found = constant or cursor.word() in ("NOW", "TIMESTAMP")
    cursor.index = start
    return found


def _span_words(cursor: Cursor) -> CqlWindow:
    since, (size, unit) = _bound(cursor, "BEGIN")
    if not cursor.accept("END"):
        cursor.fail('"END" was expected here', hint="Write BEGIN ... END NOW.")
    until, (lag, _) = _bound(cursor, "END")
    slide, slide_unit = _slide(cursor)
    return CqlWindow(
        kind="BEGIN", since=since, size=size, unit=unit, until=until, lag=lag, slide=slide,
        slide_unit=slide_unit,
    )  # fmt: skip


def _bound(cursor: Cursor, word: str) -> tuple[int | None, Length]:
    """Read an end of a span: an instant, or how long before now it is; the other one is None."""
    if cursor.accept("NOW"):
        if cursor.word() == "+":
            cursor.fail(f"{word} is after now", hint=_BOUND, code="CQL014")
        if not cursor.accept("-"):
            return None, (0, None)
        return None, _duration(cursor, word, lasting=word == "BEGIN")
    first = cursor.span
    typed = cursor.accept("TIMESTAMP")
    token = cursor.token
    if token is not None and not typed and token.token_type == TokenType.NUMBER:
        if not token.text.isdecimal() or int(token.text) > _LAST:
            cursor.fail(f"{word} must be an instant", hint=_BOUND)
        cursor.index += 1
        return int(token.text), _NOTHING
    if token is None or token.token_type != TokenType.STRING:
        cursor.fail(f"an instant was expected behind {word}", hint=_BOUND)
    cursor.index += 1
    try:
        instant = converter("timestamp")(token.text)
    except NotOfTypeError as cause:
        span = first._replace(stop=token.end + 1)
        message = f"{quoted(cursor.source, span)} {cause}"
        cursor.fail(message, span=span, code="CQL032", hint=hint_for("timestamp"))
    assert isinstance(instant, datetime)
    return (instant - _EPOCH) // timedelta(microseconds=1), _NOTHING


def _window_words(cursor: Cursor) -> CqlWindow:
    if cursor.accept("NOW"):
        if cursor.word() == "SLIDE":
            hint = "Write RANGE and how much it shows: RANGE 10 seconds SLIDE 10 seconds."
            cursor.fail("the window NOW does not slide", hint=hint)
        return CqlWindow(kind="NOW")
    if cursor.accept("BEGIN"):
        return _span_words(cursor)
    if cursor.accept("RANGE"):
        size, unit = _NOTHING if cursor.accept("UNBOUNDED") else _duration(cursor, "RANGE")
        slide, slide_unit = _slide(cursor)
        return CqlWindow(kind="RANGE", size=size, slide=slide, unit=unit, slide_unit=slide_unit)
    by = cursor.listed(lambda: _window_column(cursor)) if cursor.accept("PARTITION BY") else None
    if not cursor.accept("ROWS"):
        message = '"ROWS" was expected here' if by else "a window was expected here"
        hint = "Write NOW, ROWS n, RANGE duration, PARTITION BY c ROWS n or BEGIN ... END ..."
        if by and cursor.word() == "RANGE":
            hint = "A range holds the same rows with and without a partition: leave it out."
        cursor.fail(message, hint=hint)
    size = None
    if not cursor.accept("UNBOUNDED"):
        size = _parameter(cursor) or cursor.integer("ROWS")
    slide = (_parameter(cursor) or cursor.integer("SLIDE")) if cursor.accept("SLIDE") else None
    kind = "PARTITION" if by else "ROWS"
    return CqlWindow(kind=kind, size=size, slide=slide, by=list(by) if by else None)


def _slide(cursor: Cursor) -> Length:
    return _duration(cursor, "SLIDE") if cursor.accept("SLIDE") else _NOTHING


def _duration(cursor: Cursor, word: str, *, lasting: bool = True) -> Length:
    """Read a duration, or a parameter and the unit that it counts, where it may be one."""
    named = _parameter(cursor) if lasting else None
    if named is None:
        return cursor.duration(word, ticks=True), None
    return named, cursor.unit()


def _parameter(cursor: Cursor) -> exp.Placeholder | None:
    """Read `:name` if it comes next."""
    first = cursor.token
    if first is None or not cursor.accept(":"):
        return None
    found = exp.Placeholder(this=cursor.name("parameter"))
    return cast(exp.Placeholder, mark(found, first, cursor.last))


def _window_column(cursor: Cursor) -> exp.Column:
    parts = [_identifier(cursor)]
    while cursor.accept("."):
        parts.append(_identifier(cursor))
    *table, name = parts
    if len(table) > 1:
        cursor.fail("a column was expected here")
    return exp.Column(this=name, table=table[0] if table else None)


def _identifier(cursor: Cursor) -> exp.Identifier:
    token = cursor.token
    name = cursor.name("column")
    assert token is not None, "a name was read"
    quoted = token.token_type == TokenType.IDENTIFIER
    return cast(exp.Identifier, mark(exp.Identifier(this=name, quoted=quoted), token, token))
