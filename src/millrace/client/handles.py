"""Handles on what stands in a server: queries, templates and tables, by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from millrace.client import calls
from millrace.client.blocking import Wire
from millrace.client.calls import Document, Ids, Moment, Place
from millrace.client.declarations import drop_text
from millrace.client.request import Request, get, path_of
from millrace.client.result import Result
from millrace.client.subscription import Subscription
from millrace.engine.given_rows import Rows


class RemoteQuery:
    """A standing query of a server; `name` is empty if it was not given one."""

    def __init__(self, wire: Wire, known: Document) -> None:
        self._wire = wire
        self.name, self.id = str(known.get("name") or ""), int(known["id"])

    def info(self) -> Document:
        """Return what the server knows of the query now: state, text, cost and more."""
        return self._wire.do(calls.document(get(path_of("queries", self._known_as))))

    def results(
        self,
        last: int | None = None,
        *,
        begin: Moment | None = None,
        end: Moment | None = None,
    ) -> Result:
        """Return the answers that are kept, oldest first, with the epoch of each.

        Parameters
        ----------
        last
            Only so many, the newest.
        begin, end
            Only those of a time from `begin` on and before `end`.
        """
        return self._wire.do(calls.results(self._known_as, begin, end, last))

    def changes(
        self, *, after: Place | None = None, timeout: float | None = None
    ) -> Iterator[Result]:
        """Yield answers as they are committed, each once, also over connections that break.

        Parameters
        ----------
        after
            Behind what to begin: the `cursor` of a result, or an epoch, such as the last `_epoch`
            that was seen; now by default.
        timeout
            End when no answer has come for so many seconds; None waits for ever.

        Raises
        ------
        LostAnswersError
            If answers that were not yielded yet are no longer kept; its `oldest` is a cursor to
            go on from.
        """
        start, schema = self._wire.do(calls.begin(self._known_as, after))
        followed = Subscription(
            self._known_as, schema, after=start, timeout=timeout, patience=self._wire.patience
        )
        return self._wire.follow(followed)

    def explain(self, *, analyze: bool = False) -> str:
        """Say how the query runs; with `analyze`, what it has done since the engine started."""
        return self._wire.do(calls.explain_query(self._known_as, analyze=analyze))

    def pause(self) -> None:
        """Answer nothing from the next epoch on, until `resume`."""
        self._wire.do(calls.set_state(self._known_as, "paused"))

    def resume(self) -> None:
        """Answer again from the next epoch on; also ends a suspension."""
        self._wire.do(calls.set_state(self._known_as, "running"))

    def set_policy(self, policy: str) -> None:
        """Keep answers that are retained in another way, from the next epoch on.

        Parameters
        ----------
        policy
            "lazy", "eager" or "none"; what is answered is the same. A template has one policy for
            all its queries.
        """
        self._wire.do(calls.set_policy("queries", self._known_as, policy))

    def drop(self) -> None:
        """Remove the query; answers that wait for a sink are still delivered."""
        self._wire.do(calls.document(Request("DELETE", path_of("queries", self._known_as))))

    @property
    def _known_as(self) -> str | int:
        return self.name or self.id

    def __repr__(self) -> str:
        return f"<query {self.name or self.id!r} of {self._wire.url}>"


class RemoteTemplate:
    """A query template of a server: its rows are standing queries."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire, self.name = wire, name

    def info(self) -> Document:
        """Return what the server knows of the template now."""
        return self._wire.do(calls.document(get(path_of("templates", self.name))))

    def insert(self, rows: Rows) -> pa.Array:
        """Register a query for each row of parameters, all or none; return their ids."""
        return self._wire.do(calls.insert_queries(self.name, rows, missing=False))

    def insert_missing(self, rows: Rows) -> pa.Array:
        """Register a query for each row that none has yet; return the ids of the new ones."""
        return self._wire.do(calls.insert_queries(self.name, rows, missing=True))

    def rows(self) -> Result:
        """Return the parameters of all its queries, with their ids in `_query`."""
        return self._wire.do(calls.template_rows(self.name))

    def ids(self) -> list[int]:
        """Return the ids of all its queries, ascending."""
        found: list[int] = (self.rows())["_query"].to_pylist()
        return found

    def results(
        self,
        last: int | None = None,
        *,
        begin: Moment | None = None,
        end: Moment | None = None,
    ) -> Result:
        """Return the answers of all its queries that are kept, oldest first, as of a query."""
        return self._wire.do(calls.results(self.name, begin, end, last))

    def update(self, rows: Rows) -> None:
        """Give queries, named by the column `_query`, other parameters; they keep their ids.

        Columns that are not given keep their values.
        """
        self._wire.do(calls.update_queries(self.name, rows))

    def delete(self, ids: Ids) -> None:
        """Remove queries by their ids, all or none."""
        self._wire.do(calls.delete_queries(self.name, ids))

    def query(self, qid: int) -> RemoteQuery:
        """Return a handle on one of its queries."""
        return RemoteQuery(self._wire, self._wire.do(calls.document(get(path_of("queries", qid)))))

    def set_policy(self, policy: str) -> None:
        """Keep answers that are retained in another way, from the next epoch on."""
        self._wire.do(calls.set_policy("templates", self.name, policy))

    def drop(self) -> None:
        """Remove the template and all its queries."""
        self._wire.do(calls.execute(drop_text("TEMPLATE", self.name)))

    def __len__(self) -> int:
        return int(self.info()["queries"])

    def __repr__(self) -> str:
        return f"<template {self.name!r} of {self._wire.url}>"


class RemoteTable:
    """A table of a server: rows that change, and that queries join with streams."""

    def __init__(self, wire: Wire, name: str) -> None:
        self._wire, self.name = wire, name

    def rows(self) -> Result:
        """Return the rows as they are now."""
        return self._wire.do(calls.table_rows(self.name))

    def insert(self, rows: Rows) -> int:
        """Add rows, all or none; return how many. A row whose key is there already is refused."""
        return self._wire.do(calls.insert_rows(self.name, rows, missing=False))

    def insert_missing(self, rows: Rows) -> int:
        """Add the rows that are not there just so; return how many."""
        return self._wire.do(calls.insert_rows(self.name, rows, missing=True))

    def update(self, values: Mapping[str, Any], where: str) -> int:
        """Give columns other values in the rows for which a condition is true; return how many."""
        return self._wire.do(calls.update_rows(self.name, values, where))

    def delete(self, where: str) -> int:
        """Remove the rows for which a condition is true; return how many."""
        return self._wire.do(calls.delete_rows(self.name, where))

    def drop(self) -> None:
        """Forget the table and its rows; no query may read it any more."""
        self._wire.do(calls.execute(drop_text("TABLE", self.name)))

    def __len__(self) -> int:
        return len(self.rows())

    def __repr__(self) -> str:
        return f"<table {self.name!r} of {self._wire.url}>"
