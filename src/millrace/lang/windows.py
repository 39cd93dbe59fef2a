"""Windows: what stands in square brackets behind a stream.

    [NOW]  [ROWS UNBOUNDED]  [ROWS n SLIDE m]  [RANGE UNBOUNDED]  [RANGE 10 minutes SLIDE 1 minute]
    [PARTITION BY a, b ROWS n SLIDE m]

A number without a unit counts microseconds, and 10,000 may have its comma. The words are not
reserved: outside the brackets they are names.
"""

from __future__ import annotations

from typing import cast

from sqlglot import exp
from sqlglot.tokens import TokenType

from millrace.lang.cursor import Cursor
from millrace.lang.trees import CqlWindow, mark


def read_window(cursor: Cursor) -> CqlWindow:
    """Read a window with its brackets."""
    first = cursor.token
    cursor.expect("[")
    window = _window_words(cursor)
    cursor.expect("]")
    assert first is not None, "the bracket was there"
    return cast(CqlWindow, mark(window, first, cursor.last))


def _window_words(cursor: Cursor) -> CqlWindow:
    if cursor.accept("NOW"):
        return CqlWindow(kind="NOW")
    if cursor.accept("RANGE"):
        if cursor.accept("UNBOUNDED"):
            return CqlWindow(kind="RANGE")
        size = cursor.duration("RANGE", ticks=True)
        slide = cursor.duration("SLIDE", ticks=True) if cursor.accept("SLIDE") else None
        return CqlWindow(kind="RANGE", size=size, slide=slide)
    by = cursor.listed(lambda: _window_column(cursor)) if cursor.accept("PARTITION BY") else None
    if not cursor.accept("ROWS"):
        message = '"ROWS" was expected here' if by else "a window was expected here"
        cursor.fail(message, hint="Write NOW, ROWS n, RANGE duration or PARTITION BY c ROWS n.")
    if by is None and cursor.accept("UNBOUNDED"):
        return CqlWindow(kind="ROWS")
    size = cursor.integer("ROWS")
    slide = cursor.integer("SLIDE") if cursor.accept("SLIDE") else None
    kind = "PARTITION" if by else "ROWS"
    return CqlWindow(kind=kind, size=size, slide=slide, by=list(by) if by else None)


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
