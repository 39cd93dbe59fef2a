"""What a session holds for questions that are asked once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from millrace.engine.feeds import Family
from millrace.engine.hidden import is_hidden
from millrace.kernels.arrays import Hashes
from millrace.reading.held import CommittedHeld, Standing

if TYPE_CHECKING:
    from millrace.session.session import Session


class SessionHeld(CommittedHeld):
    """What its engine has committed at one moment, with the functions of the session."""

    def __init__(self, session: Session) -> None:
        engine = session.engine
        super().__init__(engine.root, engine.manifest, engine.registry.catalog)
        self._session, self._registry = session, engine.registry
        self.functions, self.function_types = session.functions, session.function_types

    def standing(self, name: str) -> Standing | None:
        """Return the query or the template of that name, None if there is none to be read."""
        feed, known = self._catalog.feeds.get(name), self._registry.population.names
        if feed is not None and feed.kind == "template":
            return Standing(feed)
        if name not in known or is_hidden(name):
            return None
        if feed is None:
            feed = self._catalog.feeds[self._registry.feed_of(known[name])]
        return Standing(feed, known[name])

    def names(self) -> Iterator[str]:
        """Yield how queries and templates are called."""
        known = dict.fromkeys([*self._catalog.feeds, *self._registry.population.names])
        yield from (each for each in known if not is_hidden(each))

    def table_rows(self, name: str) -> pa.Table:
        """Return the rows of a table."""
        return self._session.standing_table(name).rows()

    def constants(self, family: Family) -> tuple[Hashes, pa.Table]:
        """Return the ids of a family's queries, ascending, and their constants."""
        return self._registry.rows_of(family)
