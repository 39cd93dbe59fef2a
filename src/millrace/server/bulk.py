"""Bulk operations: ten thousand queries are added, paused or dropped by one entry of the registry.

To add many, each is registered on a stand-in of the session that collects what would be recorded;
then all of it is recorded at once. So a bulk is checked like as many single calls, and is done as a
whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa

from millrace.errors import MillraceError, UnknownNameError
from millrace.server.principals import Principal
from millrace.session.registration import Registration
from millrace.session.session import Session


class Collecting:
    """A session that takes notes of what is to be recorded."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.changes: list[dict[str, Any]] = []
        self.tables: list[pa.RecordBatch] = []
        self._made: set[str] = set()
        self._next = session.engine.registry.catalog.next_qid
        self._registration = Registration(cast("Session", self))

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever the session has
        return getattr(self._session, name)

    def record(
        self, changes: list[dict[str, Any]], tables: Sequence[pa.RecordBatch] = ()
    ) -> list[int]:
        """Take note of changes; a feed that is made already is not made again."""
        first = []
        for change in changes:
            if change["do"] == "add feed":
                if change["feed"]["name"] in self._made and change["feed"]["kind"] == "shared":
                    continue
                self._made.add(change["feed"]["name"])
            if change["do"] == "add queries":
                first.append(self._next)
                self._next += change["n_rows"]
            moved = {"rows": change["rows"] + len(self.tables)} if "rows" in change else {}
            self.changes.append({**change, **moved})
        self.tables += tables
        return first


def options_of(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a query is to be kept and run, where that was said."""
    known = ("keep", "retain", "policy", "history", "partial", "unbounded")
    said = {name: asked.get(name) for name in known}
    return {name: each for name, each in said.items() if each is not None and each is not False}


def add_all(session: Session, who: Principal, wanted: Sequence[dict[str, Any]]) -> list[int]:
    """Register queries, all or none; return their ids. What fails says which one it was."""
    with session.updating:
        collecting = Collecting(session)
        first = session.engine.registry.catalog.next_qid
        ids = []
        for number, each in enumerate(wanted):
            name, into = each.get("name"), each.get("into")
            try:
                query = Session.query(
                    cast("Session", collecting),
                    each["sql"],
                    name=who.stored(name or f"query_{first + number}"),
                    into=who.stored(into) if into else None,
                    **options_of(each),
                )
            except MillraceError as error:
                error.detail = f"It is number {number} of {len(wanted)}. {error.detail}".strip()
                raise
            ids.append(query.id)
        if collecting.changes:
            session.record(*together(collecting.changes, collecting.tables))
        return ids


def together(
    changes: Sequence[dict[str, Any]], tables: Sequence[pa.RecordBatch]
) -> tuple[list[dict[str, Any]], list[pa.RecordBatch]]:
    """Put queries of one family that are added one after the other into one change.

    They get the same ids. A change is a block of the population, and each block costs who looks
    for a query: ten thousand blocks of one query made it 23 ms.
    """
    done: list[dict[str, Any]] = []
    parts: list[list[pa.RecordBatch]] = []
    for change in changes:
        if "rows" not in change:
            done.append(change)
        elif done and _alike(done[-1], change) and tables[change["rows"]].num_columns:
            last = done[-1]
            last["n_rows"] += change["n_rows"]
            last["names"] += change["names"]
            parts[last["rows"]].append(tables[change["rows"]])
        else:
            copied = {"names": list(change["names"])} if "names" in change else {}
            done.append({**change, **copied, "rows": len(parts)})
            parts.append([tables[change["rows"]]])
    return done, [each[0] if len(each) == 1 else pa.concat_batches(each) for each in parts]


def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
    both = one["do"] == other["do"] == "add queries"
    return both and one["family"] == other["family"] and "names" in one and "names" in other


def seen_feed(session: Session, who: Principal, qid: int) -> str:
    """Return the feed of a query; one of others is as unknown as one that is not there."""
    registry = session.engine.registry
    found = registry.population.find(qid)
    feed = None if found is None else registry.catalog.families[found[0]].feed
    if feed is None or not who.sees(feed):
        raise UnknownNameError(f'query "{qid}" does not exist')
    return feed


def change_all(session: Session, who: Principal, do: str, wanted: Sequence[str | int]) -> list[int]:
    """Pause, resume or drop queries by names or ids, all or none; return their ids."""
    with session.updating:
        registry = session.engine.registry
        names, feeds = registry.population.names, registry.catalog.feeds
        ids: list[int] = []
        own: dict[int, str] = {}
        for each in wanted:
            if isinstance(each, int):
                qid, name = each, None
            else:
                name = who.found(each)
                if name not in names:
                    raise UnknownNameError(f'query "{each}" does not exist')
                qid = names[name]
            feed = name if name in feeds and who.sees(name) else seen_feed(session, who, qid)
            ids.append(qid)
            if feeds[feed].kind == "query":
                own[qid] = feed
        session.record(*_changes(do, ids, own))
        return ids


def _changes(
    do: str, ids: list[int], own: dict[int, str]
) -> tuple[list[dict[str, Any]], list[pa.RecordBatch]]:
    """Return the changes; a query with a feed of its own is dropped with it."""
    if do != "drop":
        return [{"do": do, "qids": ids}], []
    changes: list[dict[str, Any]] = [{"do": "drop feed", "name": feed} for feed in own.values()]
    others = [qid for qid in ids if qid not in own]
    if not others:
        return changes, []
    changes.append({"do": "drop queries", "rows": 0})
    return changes, [pa.record_batch({"qid": pa.array(np.unique(others), pa.uint64())})]
