"""Where in a script a statement went wrong, if its error does not know that by itself.

An error may name the part that it is about (`node`): a value by its row and parameter, or a name
or an option as the parser marks them. Otherwise it is about the first name in the statement.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from millrace.errors import MillraceError
from millrace.lang.cursor import Mark
from millrace.lang.declarations import InsertRows, Read, Statement
from millrace.lang.errors import Span, excerpt
from millrace.lang.statements import parts
from millrace.lang.trees import span_of
from millrace.session.template import ValueAt


def excerpt_for(error: MillraceError, statement: Statement, columns: Sequence[str] = ()) -> str:
    """Return the line of the script that an error is about, with carets.

    `columns` are the parameters for which an INSERT gives values, in their order.
    """
    if not statement.written.script:
        return ""
    return excerpt(statement.written.script, _span(error, statement, columns))


def _span(error: MillraceError, statement: Statement, columns: Sequence[str]) -> Span:
    written = statement.written
    first_line = written.text.split("\n", 1)[0]
    whole = Span(written.first, written.first + len(first_line))
    if isinstance(statement, Read):
        table = statement.query.tree.find(exp.Table)
        return whole if table is None else span_of(table)
    marked = parts(written)
    found = marked.get(_part(error.node, statement, columns))
    return found or next(iter(marked.values()), whole)


def _part(node: object, statement: Statement, columns: Sequence[str]) -> Mark:
    """Return the part that an error is about, as the parser marks it."""
    match node:
        case ValueAt(row, parameter) if isinstance(statement, InsertRows):
            return "value", row, columns.index(parameter) if parameter in columns else 0
        case ValueAt(_, parameter):
            return "value", parameter
        case tuple():
            return node
    return ()
