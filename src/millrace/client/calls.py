"""Every call of a client, once for both of its forms.

A call is a generator: it yields requests, is sent the replies, and returns what the caller
wants. It neither opens connections nor waits; `Client` and `AsyncClient` drive it.

    def stats() -> Call[dict]:
        reply = yield get(path_of("stats"))
        return reply.json()
"""

from __future__ import annotations

import uuid
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from millrace.client.declarations import DURATIONS, drop_text, duration_text, table_text
from millrace.client.json_rows import json_value, table_of_lists
from millrace.client.reply import Reply
from millrace.client.request import (
    ARROW,
    Request,
    get,
    given,
    path_of,
    send,
    send_rows,
)
from millrace.client.result import Result
from millrace.engine.given_rows import Rows, table_of
from millrace.errors import MillraceError, PlanError, UnknownNameError
from millrace.reading.tried import DryRun
from millrace.schema import Schema
from millrace.time import print_instant, to_instant

Given = TypeVar("Given")
Call: TypeAlias = Generator[Request, Reply, Given]
Document: TypeAlias = dict[str, Any]
Moment: TypeAlias = str | datetime | int
Ids: TypeAlias = Iterable[int] | pa.Array
Which: TypeAlias = Iterable[str | int] | pa.Array
Place: TypeAlias = str | int
"""Where a subscription goes on: behind the cursor of a result, or behind an epoch."""
Duration: TypeAlias = str | timedelta | int

PUSHED_ROWS = 100_000
PUSHED_BYTES = 16 << 20
"""How many rows one request of a push carries at most, and about how many bytes."""
PAGE = 1_000
MOST_ROWS = 1_000_000
"""As many rows as a server gives in one answer."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a statement did: a sentence, or a table for one that asks."""

    message: str = ""
    result: Result | None = None

    @property
    def table(self) -> pa.Table | None:
        """The rows as an outcome of a session has them."""
        return None if self.result is None else self.result.to_arrow()


def document(request: Request) -> Call[Document]:
    """Send a request and return the JSON that is answered."""
    reply = yield request
    found: Document = reply.json() or {}
    return found


def table(request: Request) -> Call[Result]:
    """Send a request and return the rows that are answered."""
    reply = yield request
    return Result(reply.table())


def execute(text: str) -> Call[list[Outcome]]:
    """Do the statements of a script."""
    found = yield from document(send("POST", path_of("sql"), {"sql": text}, text=text))
    return [_outcome(each) for each in found.get("outcomes", [])]


def sql(text: str) -> Call[Result]:
    """Ask once; in Arrow's form if the server answers in it."""
    reply = yield send(
        "POST", path_of("sql"), {"sql": text}, accept=f"{ARROW}, application/json;q=0.5", text=text
    )
    if reply.is_arrow:
        return Result(reply.table())
    outcomes = [_outcome(each) for each in (reply.json() or {}).get("outcomes", [])]
    found = [each.result for each in outcomes if each.result is not None]
    if not found:
        raise PlanError(
            "the statement gives no rows",
            detail="; ".join(each.message for each in outcomes) or "It is empty.",
            hint="Statements that do something are for execute().",
        )
    return found[-1]


def query_text(asked: object) -> str:
    """Return a query as SQL; one that was built with `millrace.select` is spelt out."""
    text = str(asked)
    if not isinstance(asked, str) and not text.startswith("SELECT "):
        raise PlanError(
            "a plan cannot be sent to a server", hint="Write the query in SQL, or with select()."
        )
    return text


def query(asked: object, **fields: object) -> Call[Document]:
    """Register a query; under a name this may be repeated."""
    text = query_text(asked)
    body = {"sql": text, **given(**_spelt(fields))}
    return (
        yield from document(
            send("POST", path_of("queries"), body, repeatable="name" in body, text=text)
        )
    )


def queries(
    texts: Sequence[object], names: Sequence[str] | None, fields: Mapping[str, object]
) -> Call[list[int]]:
    """Register many queries, all or none."""
    if names is not None and len(names) != len(texts):
        raise PlanError(
            f"{len(texts):,} queries have {len(names):,} names", hint="Give each a name, or none."
        )
    each: list[Document] = [{"sql": query_text(text), **fields} for text in texts]
    if names is not None:
        each = [{**one, "name": name} for one, name in zip(each, names, strict=True)]
    return (yield from add_queries(each))


def add_queries(asked: Sequence[Mapping[str, Any]]) -> Call[list[int]]:
    """Register many queries, all or none; this may be repeated if all have names."""
    listed = [given(**_spelt(each)) for each in asked]
    lives = {each.pop("ttl", None) for each in listed}
    if len(lives) > 1:
        raise PlanError(
            "queries that are added together live for different times",
            detail=f"They are {', '.join(sorted(map(str, lives)))}.",
            hint="Give all of them the same ttl, or add them apart.",
        )
    body = {"add": listed, **given(ttl=lives.pop() if lives else None)}
    named = all("name" in each for each in listed)
    found = yield from document(send("POST", path_of("queries", "bulk"), body, repeatable=named))
    return [int(one) for one in found["ids"]]


def change_queries(what: str, which: Which) -> Call[Document]:
    """Pause, resume or drop many queries, all or none."""
    repeatable = what != "drop"
    body = {what: which.to_pylist() if isinstance(which, pa.Array) else list(which)}
    return (
        yield from document(send("POST", path_of("queries", "bulk"), body, repeatable=repeatable))
    )


def set_state(name: str | int, state: str) -> Call[Document]:
    """Pause or resume a query."""
    asked = send("PATCH", path_of("queries", name), {"state": state}, repeatable=True)
    return (yield from document(asked))


def set_policy(what: str, name: str | int, policy: str) -> Call[Document]:
    """Keep the answers of a query, or of a template, in another way."""
    asked = send("PATCH", path_of(what, name), {"policy": policy}, repeatable=True)
    return (yield from document(asked))


def query_page(
    search: str | None, state: str | None, after: str | None, limit: int
) -> Call[Document]:
    """Return one page of the list of queries."""
    asked = get(path_of("queries"), search=search, state=state, after=after, limit=limit)
    return (yield from document(asked))


def results(
    name: str | int, begin: Moment | None, end: Moment | None, last: int | None
) -> Call[Result]:
    """Return the answers of a query that are kept."""
    return (
        yield from table(
            get(
                path_of("queries", name, "results"),
                accept=ARROW,
                begin=instant(begin),
                end=instant(end),
                last=last,
            )
        )
    )


def stream_rows(
    stream: str, which: str, begin: Moment | None, end: Moment | None, limit: int | None
) -> Call[Result]:
    """Return rows of a stream: those that are kept, late ones, or dead letters.

    Their `_time` is a number of microseconds, as in a session.
    """
    path = path_of("streams", stream, which)
    most = MOST_ROWS if limit is None else limit
    asked = get(path, accept=ARROW, begin=instant(begin), end=instant(end), limit=most)
    found = (yield asked).table()
    at = found.schema.get_field_index("_time")
    return Result(found.set_column(at, "_time", found.column(at).cast(pa.int64())))


def part(name: str, request: Request) -> Call[list[Document]]:
    """Send a request and return one part of the JSON that is answered."""
    found = yield from document(request)
    return list(found[name])


def listed(what: str) -> Call[list[Document]]:
    """Return what is known of each stream, table or template."""
    return (yield from part(what, get(path_of(what))))


def dead_letters(stream: str | None, limit: int | None) -> Call[Result]:
    """Return the rows of a stream that could not be read, or those of all streams."""
    if stream is not None:
        return (yield from stream_rows(stream, "dead-letters", None, None, limit))
    found = []
    for each in (yield from listed("streams")):
        letters = yield from stream_rows(each["name"], "dead-letters", None, None, limit)
        found.append(letters.to_arrow())
    return Result(pa.concat_tables(found))


def change_settings(changes: Mapping[str, object]) -> Call[Document]:
    """Change settings, all or none."""
    return (yield from document(send("PATCH", path_of("settings"), changes, repeatable=True)))


def push(stream: str, rows: Rows, *, key: str | None = None) -> Call[int]:
    """Push rows in batches, each under a key of its own, so that none counts twice.

    How rows are cut depends on the rows alone: a push that is done again has the same batches.
    """
    given_rows = table_of(rows, "rows of a stream")
    key = key or uuid.uuid4().hex
    a_row = given_rows.nbytes / max(given_rows.num_rows, 1)
    most = max(min(PUSHED_ROWS, int(PUSHED_BYTES / max(a_row, 1))), 1)
    taken = 0
    for number, first in enumerate(range(0, given_rows.num_rows, most)):
        piece = given_rows.slice(first, most)
        path = path_of("streams", stream, "rows")
        asked = send_rows(path, piece, repeatable=True, key=f"{key}-{number}")
        found = yield from document(asked)
        taken += int(found["rows"])
    return taken


def instant(moment: Moment | None) -> str | None:
    """Spell a moment as the server reads it; texts such as `NOW - 10 minutes` it reads itself."""
    if moment is None or isinstance(moment, str):
        return moment
    return print_instant(moment if isinstance(moment, int) else to_instant(moment))


def retain(stream: str, duration: Duration) -> Call[Document]:
    """Keep the history of a stream for another while."""
    body = {"retain": duration_text(duration)}
    return (yield from document(send("PATCH", path_of("streams", stream), body, repeatable=True)))


def _spelt(fields: Mapping[str, Any]) -> Document:
    """Spell durations as the server reads them; a number is of microseconds, as in a session."""
    durations = {
        name: duration_text(value)
        for name, value in fields.items()
        if name in DURATIONS and value is not None
    }
    return {**fields, **durations}


def _outcome(found: Mapping[str, Any]) -> Outcome:
    if "columns" in found:
        return Outcome(result=Result(table_of_lists(found["rows"], found["columns"])))
    return Outcome(str(found.get("message", "")))


def standing(name: str) -> Call[tuple[str, Document]]:
    """Find a query or a template by its name; say which of the two it is."""
    try:
        found = yield from document(get(path_of("queries", name)))
    except UnknownNameError as error:
        try:
            found = yield from document(get(path_of("templates", name)))
        except UnknownNameError:
            raise error from None
        return "template", found
    return "query", found


def explain(text: str) -> Call[str]:
    """Say how a query would run."""
    asked = send("POST", path_of("explain"), {"sql": text}, repeatable=True, text=text)
    found = yield from document(asked)
    return str(found["text"])


def explain_query(name: str | int, *, analyze: bool) -> Call[str]:
    """Say how a standing query runs."""
    asked = get(path_of("queries", name, "explain"), analyze=analyze or None)
    found = yield from document(asked)
    return str(found["text"])


def dry_run(text: str, history: Duration | None) -> Call[DryRun]:
    """Run a query over history, and register nothing."""
    body = {"sql": text, **given(**_spelt({"history": history}))}
    asked = send("POST", path_of("dry-run"), body, repeatable=True, text=text)
    told = yield from document(asked)
    sample = table_of_lists(told["sample"], told["columns"])
    counts = int(told["rows"]), int(told["rows_in_all"])
    return DryRun(told["results"], sample, told["seconds"], *counts, told["less_retained"])


def insert_queries(template: str, rows: Rows, *, missing: bool) -> Call[pa.Array]:
    """Register a query for each row of parameters, all or none."""
    found = yield from document(_inserted("template", template, rows, missing=missing))
    return pa.array(found["ids"], pa.uint64())


def update_queries(template: str, rows: Rows) -> Call[Document]:
    """Give queries of a template other parameters; a second time this changes nothing."""
    path, given_rows = path_of("templates", template, "rows"), table_of(rows, "rows of parameters")
    return (yield from document(send_rows(path, given_rows, repeatable=True, method="PATCH")))


def delete_queries(template: str, ids: Ids) -> Call[Document]:
    """Remove queries of a template by their ids, all or none."""
    listed_ids = ids.to_pylist() if isinstance(ids, pa.Array) else [int(each) for each in ids]
    asked = send("POST", path_of("templates", template, "drop"), {"ids": listed_ids})
    return (yield from document(asked))


def declare_table(name: str, columns: str | Schema | Rows, key: str | Iterable[str]) -> Call[None]:
    """Declare a table; if it was not there, with the rows that it begins with, or not at all."""
    if isinstance(columns, str | Schema):
        yield from execute(table_text(name, columns, key))
        return
    rows = table_of(columns, "rows of a table")
    known = {each["name"] for each in (yield from listed("tables"))}
    yield from execute(table_text(name, Schema.from_arrow(rows.schema), key))
    if name in known or not rows.num_rows:
        return
    try:
        yield from insert_rows(name, rows, missing=False)
    except MillraceError:
        yield from execute(drop_text("TABLE", name))
        raise


def insert_rows(name: str, rows: Rows, *, missing: bool) -> Call[int]:
    """Insert rows into a table, all or none."""
    found = yield from document(_inserted("table", name, rows, missing=missing))
    return int(found["rows"])


def update_rows(name: str, values: Mapping[str, Any], where: str) -> Call[int]:
    """Give columns of a table other values where a condition is true."""
    body = {
        "values": {column: json_value(value) for column, value in values.items()},
        "where": where,
    }
    asked = send("PATCH", path_of("tables", name, "rows"), body, text=where)
    found = yield from document(asked)
    return int(found["rows"])


def delete_rows(name: str, where: str) -> Call[int]:
    """Remove rows of a table where a condition is true."""
    asked = send("DELETE", path_of("tables", name, "rows"), {"where": where}, text=where)
    found = yield from document(asked)
    return int(found["rows"])


def begin(name: str | int, after: Place | None) -> Call[tuple[str | None, pa.Schema]]:
    """Find where a subscription begins, and the columns of its answers.

    One that begins now asks for the cursor of now first. Otherwise what is committed between a
    connection that is lost before its first event, and the next, would be missed.
    """
    if after is not None and (isinstance(after, bool) or not isinstance(after, str | int)):
        raise PlanError(
            f"{after!r} is not a cursor",
            hint="Give the `cursor` of a result, an epoch, or nothing to begin now.",
        )
    reply = yield get(path_of("queries", name, "results"), accept=ARROW, last=0)
    schema = reply.table().schema
    if after is None:
        found = yield from document(get(path_of("queries", name, "changes"), wait=0))
        after = found.get("cursor")
    return None if after is None else str(after), schema


def template_rows(name: str) -> Call[Result]:
    """Return the rows of a template, page by page by their ids."""
    pages, after = list[pa.Table](), 0
    while True:
        path = path_of("templates", name, "rows")
        page = (yield get(path, accept=ARROW, after=after, limit=MOST_ROWS)).table()
        pages.append(page)
        if page.num_rows < MOST_ROWS:
            return Result(pa.concat_tables(pages))
        after = page.column("_query")[-1].as_py()


def table_rows(name: str) -> Call[Result]:
    """Return the rows of a table."""
    asked = get(path_of("tables", name, "rows"), accept=ARROW, limit=MOST_ROWS)
    return (yield from table(asked))


def _inserted(kind: str, name: str, rows: Rows, *, missing: bool) -> Request:
    """Send rows to insert; to insert what is missing a second time changes nothing."""
    path, given_rows = path_of(f"{kind}s", name, "rows"), table_of(rows, f"rows of a {kind}")
    return send_rows(path, given_rows, repeatable=missing, missing=missing or None)
