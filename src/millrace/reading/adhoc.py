"""One-time SQL: a question over histories, results, parameters of templates, and tables.

    ask("SELECT s.name, count(*) FROM big b JOIN sectors s ON b.symbol = s.symbol GROUP BY 1", held)

The text is parsed and bound as that of a standing query is, and means what it would mean at this
instant. DuckDB gets SQL that is printed from the bound plan, never the text (`duckdb_sql`). What
has a time, a history or the answers of a query, may have a window: BEGIN ... END ..., as PSoup has
it, where NOW is the instant up to which it is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from millrace.lang.errors import LanguageError
from millrace.lang.queries import Parsed, query_of
from millrace.lang.relational.context import View
from millrace.lang.relational.once import bind_once, names_read
from millrace.lang.trees import span_of
from millrace.operators.evaluate import Function
from millrace.plan.declared import Declared
from millrace.plan.relations import Source, Windowed
from millrace.reading.duckdb_run import Limits, import_duckdb, room_for, run
from millrace.reading.duckdb_sql import Loaded, printed
from millrace.reading.room import Room
from millrace.schema import Schema

__all__ = ["Held", "Limits", "Timed", "ask"]


@dataclass(frozen=True, slots=True)
class Timed:
    """What is held of rows that have a time: which column it is, and the instant that is NOW."""

    column: str
    now: int


class Held(Protocol):
    """What can be read: streams that retain rows, queries, templates and tables, by name."""

    def columns(self, name: str) -> Schema | None:
        """Return the columns of what has that name, None if nothing has."""
        ...

    def time(self, name: str) -> Timed | None:
        """Return by what rows of that name are windowed; None for what has no time."""
        ...

    def rows(
        self, name: str, begin: int | None, end: int | None, columns: Sequence[str], room: Room
    ) -> pa.Table:
        """Return the rows, oldest first; those with a time of [begin, end) in microseconds.

        Only `columns` are looked at; there may be others. What is read takes its room.
        """
        ...

    def unknown(self, name: str) -> tuple[str, str, str]:
        """Return a fact, a detail and a hint about a name that cannot be read."""
        ...

    @property
    def views(self) -> Mapping[str, View]:
        """The views, by name."""
        ...

    @property
    def functions(self) -> Mapping[str, Function]:
        """The registered functions."""
        ...

    @property
    def function_types(self) -> Mapping[str, pa.DataType]:
        """The types that they return."""
        ...


Question: TypeAlias = str | Parsed


def ask(question: Question, held: Held, *, limits: Limits | None = None) -> pa.Table:
    """Answer a question over what is held now.

    Parameters
    ----------
    question
        Its text, or what `parse` made of it.
    held
        What there is to read.
    limits
        What the question may take.

    Raises
    ------
    LanguageError
        If the text cannot be bound; it says where.
    ReadLimitError
        If the answer takes longer, or is larger, than the limits allow.
    """
    import_duckdb()
    allowed = limits or Limits()
    room = room_for(allowed)
    parsed = query_of(question) if isinstance(question, str) else question
    declared, views, times = _declared(parsed, held)
    bound = bind_once(parsed, declared, views=views, times=times)
    found = printed(bound.plan, declared, held.functions)
    tables = [_rows(each, held, room) for each in found.tables]
    return run(found, tables, bound.schema, held.functions, allowed, room)


def _declared(parsed: Parsed, held: Held) -> tuple[Declared, dict[str, View], dict[str, str]]:
    """Look up the names that a question reads, also by way of views, which are opened."""
    streams: dict[str, Schema] = {}
    tables: dict[str, Schema] = {}
    times: dict[str, str] = {}
    views = {each.casefold(): each for each in held.views}
    opened: dict[str, View] = {}
    waiting = [parsed]
    while waiting:
        text = waiting.pop()
        for identifier in names_read(text):
            name = identifier.name
            view = views.get(name.casefold())
            schema = held.columns(name)
            if schema is not None:
                time = held.time(name)
                (tables if time is None else streams)[name] = schema
                times |= {} if time is None else {name: time.column}
            elif view is None:
                fact, detail, hint = held.unknown(name)
                raise LanguageError(
                    fact,
                    source=text.source,
                    span=span_of(identifier),
                    code="CQL001",
                    detail=detail,
                    hint=hint,
                )
            elif view not in opened:
                opened[view] = held.views[view]
                waiting.append(held.views[view].query)
    return Declared(streams, tables, held.function_types, once=True), opened, times


def _rows(loaded: Loaded, held: Held, room: Room) -> pa.Table:
    """Return the rows that a leaf of the plan shows now."""
    leaf, columns = loaded.leaf, [name for name, _ in loaded.columns]
    if not isinstance(leaf, Windowed):
        return held.rows(leaf.name, None, None, columns, room)
    assert isinstance(leaf.stream, Source), "a stream that a plan tells is not bound here"
    window, time = leaf.window, held.time(leaf.stream.name)
    assert time is not None, "what has no time has no window"
    begin, end = window.since, None if window.until is None else window.until + 1
    if window.size is not None:
        assert isinstance(window.size, int), "parameters are for templates"
        begin = time.now - window.size
    if window.lag or (window.size is not None and window.until is None):
        end = time.now - window.lag + 1
    return held.rows(leaf.stream.name, begin, end, columns, room)
