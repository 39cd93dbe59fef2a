"""Parsing INSERT, UPDATE and DELETE: what changes the rows of a table, or a template's queries.

    INSERT INTO alert VALUES ('ACME', 100), ('BOLT', 12.5)
    INSERT INTO limits (symbol, most) SELECT symbol, max(price) FROM trades GROUP BY symbol
    UPDATE limits SET most = most * 2, note = 'twice' WHERE symbol = 'ACME'
    DELETE FROM limits WHERE most < 20

What UPDATE gives a column is a constant, as VALUES has them, or an expression over the row as it
was. If there is a subquery in it, or in the condition, the rows that are meant, and what they are
given, are found by a question that is asked once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sqlglot import exp

from millrace.lang.clauses import rest_as_condition, rest_as_query, value
from millrace.lang.cursor import Cursor
from millrace.lang.declarations import (
    DeleteRows,
    InsertFile,
    InsertFound,
    InsertRows,
    Read,
    Statement,
    UpdateRows,
)
from millrace.lang.errors import LanguageError, Span
from millrace.lang.queries import FIRST_WORDS, Parsed, parse_value
from millrace.lang.words import Value


def read_insert(cursor: Cursor) -> InsertRows | InsertFile | InsertFound:
    """Read what follows INSERT."""
    cursor.expect("INTO")
    name = cursor.name("template")
    if cursor.accept("FROM"):
        return InsertFile(name, cursor.text("the path of a file"))
    in_brackets = cursor.word() == "(" and _word(cursor, 1) in ("SELECT", "WITH", "(")
    columns = cursor.names("parameter") if cursor.word() == "(" and not in_brackets else ()
    if cursor.word() in FIRST_WORDS:
        return InsertFound(name, rest_as_query(cursor), columns)
    if not cursor.accept("VALUES"):
        hint = "Write VALUES (...), (...), a query, or FROM 'file'."
        cursor.fail('"VALUES" was expected here', hint=hint)
    return InsertRows(name, _rows(cursor, len(columns)), columns)


def _word(cursor: Cursor, ahead: int) -> str:
    return Cursor(cursor.tokens, cursor.source, index=cursor.index + ahead).word()


def _rows(cursor: Cursor, n_columns: int) -> tuple[tuple[Value, ...], ...]:
    width = n_columns
    rows: list[tuple[Value, ...]] = []
    while not rows or cursor.accept(","):
        first = cursor.span
        row = _row(cursor, len(rows))
        width = width or len(row)
        if len(row) != width:
            span = Span(first.first, cursor.last.end + 1)
            cursor.fail(f"the row has {len(row)} values and not {width}", span=span)
        rows.append(row)
    return tuple(rows)


def _row(cursor: Cursor, number: int) -> tuple[Value, ...]:
    places = count()
    return cursor.wrapped(lambda: _marked_value(cursor, number, next(places)))


def _marked_value(cursor: Cursor, *part: str | int) -> Value:
    first = cursor.span
    found = value(cursor)
    cursor.mark("value", *part, span=Span(first.first, cursor.last.end + 1))
    return found


def read_update(cursor: Cursor) -> UpdateRows:
    """Read what follows UPDATE."""
    name = cursor.name("template")
    cursor.expect("SET")
    seen = set[str]()
    values = cursor.listed(lambda: _assignment(cursor, seen))
    return UpdateRows(name, values, rest_as_condition(cursor))


def _assignment(cursor: Cursor, seen: set[str]) -> tuple[str, Value | Parsed]:
    span, name = cursor.span, cursor.name("parameter")
    if name.casefold() in seen:
        cursor.fail(f'"{name}" is given two values', span=span, code="CQL004")
    seen.add(name.casefold())
    cursor.expect("=")
    stop = _end_of_value(cursor)
    if stop == cursor.index:
        cursor.fail("a value was expected here")
    if _is_constant(cursor, stop):
        return name, _marked_value(cursor, name)
    tokens = cursor.tokens[cursor.index : stop]
    cursor.index = stop
    cursor.mark("value", name, span=Span(tokens[0].start, tokens[-1].end + 1))
    return name, parse_value(tokens, cursor.source)


def _end_of_value(cursor: Cursor) -> int:
    """Return where the next value, or the condition, begins: outside of all brackets."""
    depth = 0
    for ahead in range(len(cursor.tokens) - cursor.index):
        word = _word(cursor, ahead)
        depth += (word == "(") - (word == ")")
        if depth < 0 or (depth == 0 and word in (",", "WHERE")):
            return cursor.index + ahead
    return len(cursor.tokens)


def _is_constant(cursor: Cursor, stop: int) -> bool:
    """Say whether what stands before `stop` is a constant, or a set of them, and nothing else."""
    trial = Cursor(cursor.tokens[:stop], cursor.source, index=cursor.index)
    try:
        value(trial)
    except LanguageError as error:
        return error.code == "CQL032"  # it was meant to be one
    return trial.token is None


def read_delete(cursor: Cursor) -> DeleteRows:
    """Read what follows DELETE."""
    cursor.expect("FROM")
    return DeleteRows(cursor.name("template"), rest_as_condition(cursor))


def question_of(statement: Statement) -> Parsed | None:
    """Return what must be asked before a statement can be done, None if nothing has to be.

    For UPDATE and DELETE that is each row that is meant, and behind it the values of expressions.
    """
    match statement:
        case Read(query) | InsertFound(_, query, _):
            return query
        case UpdateRows(name, values, where):
            return _rows_meant(name, where, [each for _, each in values])
        case DeleteRows(name, where):
            return _rows_meant(name, where, [])
    return None


def _rows_meant(name: str, where: Parsed, values: Sequence[Value | Parsed]) -> Parsed | None:
    computed = [each.tree for each in values if isinstance(each, Parsed)]
    if not any(each.find(exp.Query) for each in (where.tree, *computed)):
        return None
    names = [exp.to_identifier(f"given {at}", quoted=True) for at in range(len(computed))]
    columns = [exp.Alias(this=each, alias=as_) for each, as_ in zip(computed, names, strict=True)]
    table = exp.Table(this=exp.to_identifier(name, quoted=True))
    tree = exp.select(exp.Star(), *columns).from_(table).where(where.tree)
    return Parsed(tree, where.source)
