"""What a session holds for questions that are asked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from millrace.lang.relational.context import View
from millrace.operators.evaluate import Function
from millrace.plan.nearest import nearest
from millrace.reading.adhoc import Timed
from millrace.reading.answers import no_answers
from millrace.reading.history import history, newest_time
from millrace.schema import Column, Columns, Schema
from millrace.session.planning import views_in
from millrace.session.query import Query
from millrace.session.template import Template
from millrace.session.unknown import MOST_COMPARED, there_are

if TYPE_CHECKING:
    from millrace.session.session import Session

_TIME = "_time"


class SessionHeld:
    """Tables, answers of queries, parameters of templates, and histories of streams."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._catalog = session.engine.registry.catalog
        self._manifest = session.engine.manifest

    def columns(self, name: str) -> Schema | None:
        """Return the columns of what has that name, None if nothing has."""
        if name in self._catalog.tables:
            return self._catalog.tables[name].schema
        found = self._standing(name)
        if found is not None:
            fields = self._schema(found)
            return Columns(tuple(Column(each.name, each.type) for each in fields))
        stream = self._catalog.streams.get(name)
        return None if stream is None or stream.retain is None else stream.schema

    def time(self, name: str) -> Timed | None:
        """Return by what rows of that name are windowed; None for what has no time."""
        if name in self._catalog.tables:
            return None
        found = self._standing(name)
        if isinstance(found, Template):
            return None
        if found is not None:
            return Timed(_TIME, newest_time(found.feed.sources, self._manifest, self._catalog))
        time = self._catalog.streams[name].time
        return Timed(time, newest_time((name,), self._manifest, self._catalog))

    def rows(
        self, name: str, begin: int | None, end: int | None, columns: Sequence[str]
    ) -> pa.Table:
        """Return the rows, oldest first; those with a time of [begin, end)."""
        if name in self._catalog.tables:
            return self._session.standing_table(name).rows()
        found = self._standing(name)
        if isinstance(found, Template):
            return found.rows()
        if found is not None:
            return found.results(begin=begin, end=end)
        root = self._session.engine.root
        return history(root, self._manifest, self._catalog, name, begin, end, columns=columns)

    def unknown(self, name: str) -> tuple[str, str, str]:
        """Return a fact, a detail and a hint about a name that cannot be read."""
        catalog, names = self._catalog, self._session.engine.registry.population.names
        if name in catalog.streams:
            fact = f'stream "{name}" keeps no history'
            return fact, "", "Declare the stream with RETAIN 1 HOUR, or so."
        asked = [each for each in dict.fromkeys([*catalog.feeds, *names]) if self.shown(each)]
        known = [*catalog.tables, *catalog.views, *catalog.streams, *map(self.shown, asked)]
        detail = there_are("names", dict.fromkeys(known))
        return f'"{name}" does not exist', detail, nearest(name, known[:MOST_COMPARED])

    @property
    def views(self) -> Mapping[str, View]:
        """The views, by name."""
        return views_in(self._session)

    @property
    def functions(self) -> Mapping[str, Function]:
        """The registered functions."""
        return self._session.functions

    @property
    def function_types(self) -> Mapping[str, pa.DataType]:
        """The types that they return."""
        return self._session.function_types

    def stored(self, name: str) -> str:
        """Return the name under which a query or template is stored; here, the same."""
        return name

    def shown(self, stored: str) -> str:
        """Return how a query or template is called; nothing if it may not be read."""
        return stored

    def _standing(self, name: str) -> Query | Template | None:
        registry, name = self._session.engine.registry, self.stored(name)
        if not self.shown(name):
            return None
        feed = registry.catalog.feeds.get(name)
        template = feed is not None and feed.kind == "template"
        known = template or name in registry.population.names
        return self._session.standing(name) if known else None

    @staticmethod
    def _schema(found: Query | Template) -> pa.Schema:
        if isinstance(found, Template):
            return found.rows().schema
        return no_answers(found.feed, "rows").schema
