"""What is committed and registered, for questions that are asked once.

Tables, answers of queries, parameters of templates, and histories of streams have names that do
not clash. Who has a root open, an engine or a reader, says how names are found and tables read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.parameters import parameter_schema
from millrace.kernels.arrays import Hashes
from millrace.lang.queries import query_of
from millrace.lang.relational.context import View
from millrace.operators.evaluate import Function
from millrace.plan.nearest import MOST_COMPARED, nearest, there_are
from millrace.reading.adhoc import Question, Timed, ask
from millrace.reading.answers import answers, no_answers
from millrace.reading.history import history, newest_time
from millrace.reading.room import Room
from millrace.schema import Column, Columns, Schema
from millrace.state.manifest import Manifest
from millrace.state.names import MissingError
from millrace.state.root import Root

QUERY = "_query"
"""The column of a template's parameters that says whose they are."""
_TIME = "_time"


@dataclass(frozen=True, slots=True)
class Standing:
    """A query by its feed and its id; or a template, which has none."""

    feed: FeedSpec
    qid: int | None = None


class CommittedHeld(ABC):
    """Tables, answers of queries, parameters of templates, and histories of streams."""

    functions: Mapping[str, Function]
    function_types: Mapping[str, pa.DataType]

    def __init__(self, root: Root, manifest: Manifest, catalog: Catalog) -> None:
        self._root, self._manifest, self._catalog = root, manifest, catalog
        self.functions, self.function_types = {}, {}

    # ---- what a root that is open says -----------------------------------------------------------

    @abstractmethod
    def standing(self, name: str) -> Standing | None:
        """Return the query or the template of that name, None if there is none to be read."""

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Yield how queries and templates are called that may be read."""

    @abstractmethod
    def table_rows(self, name: str) -> pa.Table:
        """Return the rows of a table."""

    @abstractmethod
    def constants(self, family: Family) -> tuple[Hashes, pa.Table]:
        """Return the ids of a family's queries, ascending, and their constants."""

    @property
    def epoch(self) -> int:
        """The last epoch of which something is held."""
        return self._manifest.epoch

    # ---- what questions are told -----------------------------------------------------------------

    def columns(self, name: str) -> Schema | None:
        """Return the columns of what has that name, None if nothing has."""
        if name in self._catalog.tables:
            return self._catalog.tables[name].schema
        found = self.standing(name)
        if found is not None:
            return Columns(tuple(Column(each.name, each.type) for each in self._schema(found)))
        stream = self._catalog.streams.get(name)
        return None if stream is None or stream.retain is None else stream.schema

    def time(self, name: str) -> Timed | None:
        """Return by what rows of that name are windowed; None for what has no time."""
        if name in self._catalog.tables:
            return None
        found = self.standing(name)
        if found is None:
            time = self._catalog.streams[name].time
            return Timed(time, newest_time((name,), self._manifest, self._catalog))
        if found.qid is None:
            return None
        return Timed(_TIME, newest_time(found.feed.sources, self._manifest, self._catalog))

    def rows(
        self, name: str, begin: int | None, end: int | None, columns: Sequence[str], room: Room
    ) -> pa.Table:
        """Return the rows, oldest first; those with a time of [begin, end)."""
        if name in self._catalog.tables:
            return room.take(self.table_rows(name))
        found = self.standing(name)
        if found is not None and found.qid is None:
            return room.take(self._parameters(found.feed))
        if found is not None:
            return answers(
                self._root,
                self._manifest,
                found.feed,
                found.qid,
                begin=begin,
                end=end,
                functions=self.functions,
                room=room,
            )
        read = self._root, self._manifest, self._catalog
        return history(*read, name, begin, end, columns=columns, room=room)

    def unknown(self, name: str) -> tuple[str, str, str]:
        """Return a fact, a detail and a hint about a name that cannot be read."""
        catalog = self._catalog
        if name in catalog.streams:
            fact = f'stream "{name}" keeps no history'
            return fact, "", "Declare the stream with RETAIN 1 HOUR, or so."
        known = [*catalog.tables, *catalog.views, *catalog.streams, *self.names()]
        detail = there_are("names", dict.fromkeys(known))
        return f'"{name}" does not exist', detail, nearest(name, known[:MOST_COMPARED])

    @property
    def views(self) -> Mapping[str, View]:
        """The views, by name."""
        known = self._catalog.views.values()
        return {each.name: View(query_of(each.text), each.columns) for each in known}

    def _schema(self, found: Standing) -> pa.Schema:
        if found.qid is not None:
            return no_answers(found.feed, "rows").schema
        return self._parameters(found.feed).schema

    def _parameters(self, feed: FeedSpec) -> pa.Table:
        """Return the parameters of a template's queries, with their ids."""
        families = (self._catalog.families[key] for key in self._catalog.families_of(feed.name))
        family = next((each for each in families if each.parameters), None)
        ids, rows = np.zeros(0, np.uint64), parameter_schema(dict(feed.parameters).values())
        constants = rows.empty_table()
        if family is not None:
            ids, constants = self.constants(family)
        columns = {QUERY: pa.array(ids.astype(np.int64))}
        for at, (name, _) in enumerate(feed.parameters):
            columns[name] = constants.column(f"p{at}")
        return pa.table(columns)


def ask_newest(question: Question, held: Callable[[], CommittedHeld]) -> pa.Table:
    """Answer a question over the newest that is held; if files have just gone, once more."""
    while True:
        newest = held()
        try:
            return ask(question, newest)
        except MissingError:
            if held().epoch == newest.epoch:
                raise
