"""What CQL adds to sqlglot's tree: windows on streams, and relations turned into streams.

sqlglot's classes are kept for everything else. A window hangs on the table or the subquery that
it is written after, as the argument `cql_window`; sqlglot copies, compares and hashes arguments
that it does not know, and only its printers drop them: print with `printer.to_text` alone.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp
from sqlglot.tokens import Token

from millrace.lang.errors import Span

WINDOW = "cql_window"
"""The argument of a table or a subquery that holds its window, and of a SELECT its BEGIN, END."""


class CqlWindow(exp.Expression):
    """`[kind ...]`: sizes and slides are whole numbers, of rows or of microseconds.

    They may also be parameters; those of a range count units of so many microseconds.
    """

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,  # NOW, ROWS, RANGE, PARTITION or BEGIN
        "size": False,  # without one it is unbounded
        "unit": False,
        "slide": False,
        "slide_unit": False,
        "by": False,
        "since": False,  # BEGIN, as an instant; else its distance from now is the size
        "until": False,  # END, as an instant
        "lag": False,  # END, as its distance from now
    }


class XStream(exp.Expression):
    """`ISTREAM(...)` and its sisters, around a query or around a whole select list."""

    arg_types: ClassVar[dict[str, bool]] = {
        "kind": True,  # ISTREAM, DSTREAM or RSTREAM
        "this": False,
        "expressions": False,
        "distinct": False,
        "every": False,  # microseconds
    }


def mark(node: exp.Expr, first: Token, last: Token) -> exp.Expr:
    """Remember from which token to which a node was written."""
    node.update_positions(line=first.line, col=first.col, start=first.start, end=last.end)
    return node


def own_span(node: exp.Expr) -> Span | None:
    """Return where a node was written, if the parser said so."""
    meta = node._meta or {}  # its property `meta` would make a dictionary
    first, last = meta.get("start"), meta.get("end")
    return None if first is None or last is None else Span(first, last + 1)


def span_of(node: exp.Expr) -> Span:
    """Return what part of the text a node was written as: its own, else that of its parts."""
    found = span_of_parts(node)
    above = node.parent
    while found is None and above is not None:
        found, above = own_span(above), above.parent
    return found or Span(0, 0)


def span_of_parts(node: exp.Expr) -> Span | None:
    """Return where a node was written, else where its parts were, if any of them knows."""
    found: Span | None = None
    waiting = [node]
    while waiting:
        each = waiting.pop()
        span = own_span(each)
        if span is None:
            waiting.extend(each.iter_expressions())
        else:
            found = span if found is None else found.cover(span)
    return found
