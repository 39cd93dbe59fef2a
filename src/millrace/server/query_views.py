"""Queries as a client sees them: pages of the list, and one query in full."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from millrace.engine.catalog import Catalog
from millrace.engine.population import Population
from millrace.errors import PlanError, UnknownNameError
from millrace.kernels.arrays import Bools
from millrace.reading.query_list import Listed, Qids, QueryList
from millrace.reading.reader import Reader
from millrace.server.json_rows import instant_text
from millrace.server.principals import Principal, owner_of
from millrace.time import print_duration

if TYPE_CHECKING:
    from millrace.server.work_views import Costs


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A standing query.

    Parameters
    ----------
    name
        Its name; of a template's query the template's name and its id, such as `alert#7`.
    kind
        "query", "template" for a row of one, "shared" if it shares a feed.
    results, cost, state_bytes
        How many answers it has given that are known, its share of the engine's time, and how much
        it keeps; where work is shared, its part of it by estimate.
    reason
        Why it is suspended, or paused if a limit was exceeded.
    retain, policy
        For how long answers are kept, and how; None if they are kept by their number.
    """

    name: str
    id: int
    state: str
    kind: str
    text: str
    feed: str
    owner: str
    created: str | None
    expires: str | None
    results: int
    cost: float
    state_bytes: int
    reason: str = ""
    retain: str | None = None
    policy: str | None = None


@dataclass(frozen=True, slots=True)
class QueryPage:
    """Some queries, the token of the next page, and how many there are in all."""

    queries: tuple[QueryInfo, ...]
    next: str | None
    total: int


def page_of(
    reader: Reader,
    costs: Costs,
    who: Principal,
    search: str,
    state: str | None,
    after: str | None,
    limit: int,
) -> QueryPage:
    """Return a page of the queries that somebody sees."""
    suspended = reader.suspended()
    start = 0 if after is None else _read_token(after)
    with reader.registered() as (catalog, population, queries):
        page = queries.page(
            search=search,
            after=start,
            limit=limit,
            feeds=None if who.operator else who.sees,
            only=None if state is None else _in_state(state, suspended),
        )
        infos = tuple(
            _info(each, catalog, population, costs, who, suspended) for each in page.queries
        )
    token = _token(page.queries[-1].qid) if page.more and page.queries else None
    return QueryPage(infos, token, page.total)


def info_of(reader: Reader, costs: Costs, who: Principal, name: str) -> QueryInfo:
    """Return one query by its name, its id, or as template#id."""
    with reader.registered() as (catalog, population, queries):
        listed = find(who, name, population, queries)
        if listed is None:
            raise UnknownNameError(f'query "{name}" does not exist')
        return _info(listed, catalog, population, costs, who, reader.suspended())


def infos(reader: Reader, costs: Costs, who: Principal, qids: list[int]) -> list[QueryInfo]:
    """Return queries by their ids; those that are gone, or of others, are left out."""
    suspended = reader.suspended()
    with reader.registered() as (catalog, population, queries):
        found = (queries.find(qid) for qid in qids)
        return [
            _info(each, catalog, population, costs, who, suspended)
            for each in found
            if each is not None and who.sees(each.feed)
        ]


def is_id(text: str) -> bool:
    """Say whether a text is the id of a query, and no name.

    >>> is_id("17"), is_id("²"), is_id("9" * 400)
    (True, False, False)
    """
    return text.isascii() and text.isdigit() and len(text) < 20


def find(who: Principal, name: str, population: Population, queries: QueryList) -> Listed | None:
    """Find a query that somebody sees by its name, its id, or as template#id."""
    template, _, number = name.rpartition("#")
    if is_id(number):
        listed = queries.find(int(number))
        good = listed is not None and who.sees(listed.feed)
        return (
            listed if good and template in ("", who.shown(listed.feed if listed else "")) else None
        )
    listed = queries.find(population.names.get(who.found(name), 0))
    return listed if listed is not None and who.sees(listed.feed) else None


def _info(
    listed: Listed,
    catalog: Catalog,
    population: Population,
    costs: Costs,
    who: Principal,
    suspended: dict[int, Any],
) -> QueryInfo:
    feed = catalog.feeds[listed.feed]
    verdict = suspended.get(listed.qid)
    state = "suspended" if verdict else "paused" if listed.paused else "running"
    results, cost, state_bytes = costs.of(feed, listed.qid)
    shown = who.shown(listed.feed)
    return QueryInfo(
        name=who.shown(listed.name) if listed.name else f"{shown}#{listed.qid}",
        id=listed.qid,
        state=state,
        kind=feed.kind,
        text=listed.text,
        feed=shown,
        owner=owner_of(listed.feed),
        created=instant_text(population.registered(listed.qid)),
        expires=instant_text(population.expires.get(listed.qid)),
        results=results,
        cost=cost,
        state_bytes=state_bytes,
        reason=_reason(verdict) or (listed.paused and costs.work.quietened.get(listed.qid)) or "",
        retain=None if feed.retain is None else print_duration(feed.retain),
        policy=None if feed.retain is None else feed.policy,
    )


def _reason(verdict: dict[str, Any] | None) -> str:
    return "" if verdict is None else str(verdict.get("message", verdict.get("reason", "")))


def _in_state(state: str, suspended: dict[int, Any]) -> Callable[[Qids, Bools], Bools]:
    out = np.array(sorted(suspended), np.uint64)

    def only(qids: Qids, paused: Bools) -> Bools:
        off: Bools = np.isin(qids, out)
        if state == "suspended":
            return off
        return paused & ~off if state == "paused" else ~paused & ~off

    return only


def _token(qid: int) -> str:
    return base64.urlsafe_b64encode(f"q{qid}".encode()).decode().rstrip("=")


def _read_token(token: str) -> int:
    try:
        plain = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode("ascii")
        found = int(plain.removeprefix("q")) if plain.startswith("q") else int("")
    except (ValueError, binascii.Error) as cause:
        raise PlanError(
            f'"{token[:40]}" is not the token of a page', hint="Give `next` as it came."
        ) from cause
    return min(max(found, 0), (1 << 63) - 1)
