"""What a gateway may ask the engine to do: registrations, statements, changes of tables.

Each command is a method `do_<name>(who, frame)` that returns the answer as a frame. Commands run
in threads: the registry puts changes that come together into one entry of its log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa

from millrace.engine.changing import listed
from millrace.engine.streams import SYSSTREAM
from millrace.engine.work import Done
from millrace.errors import NameTakenError, PlanError, UnknownNameError
from millrace.lang.declarations import (
    CreateSink,
    CreateStream,
    CreateTable,
    CreateView,
    Drop,
    InsertFile,
    InsertFound,
    InsertRows,
    Statement,
)
from millrace.lang.errors import LanguageError, Span
from millrace.lang.statements import parse
from millrace.server.audit import Audit
from millrace.server.bulk import add_all, change_all, options_of, seen_feed
from millrace.server.declared import Declared
from millrace.server.principals import Principal, owner_of
from millrace.server.query_views import is_id
from millrace.server.quietening import Quietening
from millrace.server.quotas import Quotas
from millrace.server.statements import (
    QUESTIONS,
    OwnScript,
    changes_something,
    one_explained,
    told_as_theirs,
)
from millrace.server.told_rows import not_theirs
from millrace.server.turns import Turns
from millrace.server.wire import Frame
from millrace.session.dataflow import Dataflow
from millrace.session.explanation import expanded_text, explain_query
from millrace.session.life import end_of
from millrace.session.query import Query
from millrace.session.script import Outcome
from millrace.session.session import Session
from millrace.session.template import QUERY, Template
from millrace.time import to_micros

WATCHMAN = Principal("", "admin", "server")
"""Who does what nobody has asked for: ends queries, and quietens tenants."""

_INSERTS = (InsertRows, InsertFile, InsertFound)
_ALONE = (CreateStream, CreateSink, CreateTable, CreateView, *_INSERTS, Drop)
"""What looks at what there is, and then changes it; also what a server that starts declares."""


class Commands:
    """The commands of one session."""

    def __init__(
        self, session: Session, *, audit: Audit, quotas: Quotas, paths: Sequence[Path] = ()
    ) -> None:
        self.session, self._audit, self._paths = session, audit, paths
        self.declared = Declared(session)
        self._dataflow = Dataflow(session)
        self.turns = Turns()
        session.allowed = require_allowed_feed
        self.quietening = Quietening(
            session,
            audit=audit,
            quotas=quotas,
            pause=lambda ids: change_all(session, WATCHMAN, "pause", ids),
        )
        self._marks = threading.local()
        session.engine.registry.marks = lambda: getattr(self._marks, "now", {})

    def run(self, name: str, who: Principal, frame: Frame) -> Frame:
        """Do one command."""
        command = getattr(self, f"do_{name}", None)
        if command is None:
            raise PlanError(f'command "{name}" does not exist')
        with told_as_theirs(who):
            done: Frame = command(who, frame)
        return done

    def do_register(self, who: Principal, frame: Frame) -> Frame:
        """Register a query."""
        asked = frame.body
        name = asked.get("name")
        into = asked.get("into")
        with self._marked(who, asked.get("ttl")):
            query = self._registered(
                asked["sql"],
                name=who.stored(name) if name else self._free_name(who),
                into=who.stored(into) if into else None,
                **options_of(asked),
            )
        self._audit.write(who, "add", queries=[query.name or query.id], text=asked["sql"])
        return Frame({"id": query.id, "name": query.name, "feed": query.feed.name})

    def do_bulk(self, who: Principal, frame: Frame) -> Frame:
        """Add, pause, resume or drop many queries, all or none."""
        asked = frame.body
        if asked.get("add") is not None:
            with self._marked(who, asked.get("ttl")):
                ids = add_all(self.session, who, asked["add"])
            self._audit.write(who, "add", queries=ids, count=len(ids))
            return Frame({"ids": ids})
        [(do, wanted)] = [
            (each, asked[each]) for each in ("pause", "resume", "drop") if asked.get(each)
        ]
        with self._marked(who, None):
            ids = change_all(self.session, who, do, wanted)
        self._audit.write(who, do, queries=ids, count=len(ids))
        return Frame({"ids": ids})

    def do_drop(self, who: Principal, frame: Frame) -> Frame:
        """Remove a query, or a template with its queries."""
        found = self._standing(who, frame.body["query"])
        with self._marked(who, None):
            found.drop()
        self._audit.write(who, "drop", queries=[frame.body["query"]])
        return Frame({})

    def do_state(self, who: Principal, frame: Frame) -> Frame:
        """Pause a query, or let it go on."""
        found = self._standing(who, frame.body["query"])
        if isinstance(found, Template):
            raise PlanError(f'"{frame.body["query"]}" is a template', hint="Name one of its rows.")
        with self._marked(who, None):
            found.pause() if frame.body["state"] == "paused" else found.resume()
        self._audit.write(who, frame.body["state"], queries=[frame.body["query"]])
        return Frame({})

    def do_policy(self, who: Principal, frame: Frame) -> Frame:
        """Keep the answers of a query, or of a template's, in another way."""
        query, policy = frame.body["query"], frame.body["policy"]
        found = self._standing(who, query)
        with self._marked(who, None):
            found.set_policy(policy)
        self._audit.write(who, "policy", queries=[query], policy=policy)
        return Frame({})

    def do_sql(self, who: Principal, frame: Frame) -> Frame:
        """Do some statements of a text; what those that ask return comes beside their messages."""
        outcomes: list[dict[str, Any]] = []
        tables: list[pa.Table] = []
        script = OwnScript(self.session, who, self._paths, next(iter(frame.tables), None))
        with self._marked(who, None):
            for statement in parse(frame.body["sql"])[slice(*frame.body["places"])]:
                outcome = self._outcome(script, statement)
                if outcome.table is not None:
                    outcomes.append({"table": len(tables)})
                    tables.append(outcome.table)
                else:
                    outcomes.append({"message": outcome.message})
                    if changes_something(statement):
                        self._audit.write(who, "sql", text=str(outcome.statement.written.text))
        return Frame({"outcomes": outcomes}, tuple(tables))

    def do_explain(self, who: Principal, frame: Frame) -> Frame:
        """Explain a standing query, or a text."""
        text, analyze = frame.body.get("sql"), bool(frame.body.get("analyze"))
        if text is not None:
            if analyze:
                who.require_operator("EXPLAIN ANALYZE of a text")
            return Frame({"text": self._explained(who, text, analyze=analyze)})
        found = self._standing(who, frame.body["query"])
        name = found.name or found.feed.name
        return Frame({"text": explain_query(self.session, name, analyze=analyze)})

    def do_expand(self, who: Principal, frame: Frame) -> Frame:
        """Return the text of a standing query with everything written out that was left out."""
        feed = self._standing(who, frame.body["query"]).feed
        return Frame({"text": expanded_text(self.session, feed, frame.body["text"])})

    def do_template_insert(self, who: Principal, frame: Frame) -> Frame:
        """Insert rows of parameters into a template: each is a standing query."""
        template = self._template(who, frame.body["template"])
        [rows] = frame.tables
        with self._marked(who, frame.body.get("ttl")):
            insert = template.insert_missing if frame.body.get("missing") else template.insert
            ids = insert(rows).to_pylist()
        name = frame.body["template"]
        self._audit.write(who, "insert", template=name, queries=ids, count=len(ids))
        return Frame({"ids": ids})

    def do_template_update(self, who: Principal, frame: Frame) -> Frame:
        """Give queries of a template other parameters."""
        template = self._template(who, frame.body["template"])
        [rows] = frame.tables
        with self._marked(who, None):
            template.update(rows)
        ids = rows.column(QUERY).to_pylist()
        self._audit.write(who, "update", template=template.name, queries=ids, count=len(ids))
        return Frame({"ids": ids})

    def do_template_drop(self, who: Principal, frame: Frame) -> Frame:
        """Remove queries of a template by their ids."""
        template = self._template(who, frame.body["template"])
        with self._marked(who, None):
            template.delete(frame.body["ids"])
        self._audit.write(who, "drop", template=template.name, queries=frame.body["ids"])
        return Frame({"ids": frame.body["ids"]})

    def do_table_change(self, who: Principal, frame: Frame) -> Frame:
        """Insert, update or delete rows of a table."""
        who.require_operator("changing a table")
        table = self.session.standing_table(frame.body["table"])
        asked = frame.body
        with self._marked(who, None):
            match asked["how"]:
                case "insert":
                    n_rows = table.insert(frame.tables[0])
                case "insert missing":
                    n_rows = table.insert_missing(frame.tables[0])
                case "update":
                    n_rows = table.update(asked["values"], asked["where"])
                case _:
                    n_rows = table.delete(asked["where"])
        self._audit.write(who, asked["how"], table=table.name, count=n_rows)
        return Frame({"rows": n_rows})

    def do_token(self, who: Principal, frame: Frame) -> Frame:
        """Write down that a gateway has made a token, or is about to forget one."""
        who.require("admin")
        self._audit.write(who, frame.body["what"], about=frame.body["about"])
        return Frame({})

    def do_settings(self, who: Principal, frame: Frame) -> Frame:
        """Return the settings, after changing some of those that may change while it runs."""
        changes = frame.body.get("change") or {}
        engine = self.session.engine
        if changes:
            who.require_operator("changing a setting")
            self.session.change_settings(changes)
            self._audit.write(who, "set", settings=changes)
        about = listed(engine.settings)
        changeable = [each["name"] for each in about]
        return Frame(
            {"settings": asdict(engine.settings), "changeable": changeable, "about": about}
        )

    def do_retain(self, who: Principal, frame: Frame) -> Frame:
        """Keep the history of a stream for another while."""
        who.require_operator("changing how long a stream is kept")
        stream, duration = frame.body["stream"], frame.body["duration"]
        self.session.retain(stream, duration)
        self._audit.write(who, "retain", stream=stream, duration=duration)
        return Frame({})

    def do_dataflow(self, who: Principal, frame: Frame) -> Frame:
        """Return the running dataflow, or what of it has a word in it; of others, counts."""
        find, found = str(frame.body.get("find") or "").strip(), None
        with suppress(UnknownNameError):  # then it is a part of a name, or of a text
            found = self._standing(who, find) if find else None
        graph = self._dataflow.graph(
            None if who.operator else who.sees,
            who.shown,
            find=find,
            query=found.id if isinstance(found, Query) else None,
        )
        return Frame({"epoch": self.session.engine.manifest.epoch, **graph})

    def do_watch(self, who: Principal, frame: Frame) -> Frame:  # noqa: ARG002  a command's form
        """Let the engine tell of itself for the next hour, and of the gateway that asks."""
        telling = self.session.engine.sysstream
        if telling is not None:
            telling.ask(time.time_ns() // 1_000)
            if frame.body.get("gateway"):
                telling.gateways[frame.body["gateway"]] = frame.body["told"]
        return Frame({})

    def work(self) -> dict[str, Any]:
        """Say what the engine has done: plans, sinks, tenants, and what troubles it."""
        engine = self.session.engine
        plans = {
            str(number): [work.n_epochs, *_total(work.total.values())]
            for number, work in engine.work.plans.items()
        }
        sinks = [
            {"name": each.name, "state": each.state, "lag_epochs": each.lag_epochs,
             "backlog_rows": each.backlog_rows}
            for each in self.session.sinks()
        ]  # fmt: skip
        told = self.quietening.told()
        return {"plans": plans, "sinks": sinks, "trouble": engine.trouble, **told}

    def quieten(self) -> int:
        """Pause queries of tenants that answer, or keep, more than they may."""
        return self.quietening.look()

    def expire(self) -> int:
        """Drop the queries whose time is over; return how many."""
        now = time.time_ns() // 1_000
        registry = self.session.engine.registry
        due = [qid for qid, at in list(registry.population.expires.items()) if at <= now]
        if due:
            ids = change_all(self.session, WATCHMAN, "drop", due)
            self._audit.write(WATCHMAN, "expire", queries=ids)
        return len(due)

    def _outcome(self, script: OwnScript, statement: Statement) -> Outcome:
        """Do a statement: questions a few at a time, declarations one after the other."""
        script.check(statement)
        if isinstance(statement, QUESTIONS):
            with self.turns.taken():
                return script.do(statement)
        if not isinstance(statement, _ALONE):
            return script.do(statement)
        with self.declared.watching():
            self.declared.expect(statement)
            outcome = script.do(statement)
            self.declared.take(outcome.statement)
        return outcome

    def _explained(self, who: Principal, text: str, *, analyze: bool) -> str:
        """Explain a text; an error tells the place in it, and not in the statement around it."""
        before = f"EXPLAIN {'ANALYZE ' if analyze else ''}"
        try:
            asked = one_explained(before + text)
            return OwnScript(self.session, who, self._paths).do(asked).message
        except LanguageError as error:
            first, stop = (max(each - len(before), 0) for each in error.span)
            raise LanguageError(
                error.message,
                source=text,
                span=Span(first, stop),
                code=error.code,
                detail=error.detail,
                hint=error.hint,
            ) from error

    def _registered(self, text: str, *, into: str | None, **options: Any) -> Query:  # noqa: ANN401
        """Register a query; if somebody has made its feed meanwhile, into that one."""
        feeds = self.session.engine.registry.catalog.feeds
        made = into in feeds
        try:
            return self.session.query(text, into=into, **options)
        except NameTakenError:
            if into is None or made or into not in self.session.engine.registry.catalog.feeds:
                raise
            return self.session.query(text, into=into, **options)

    def _free_name(self, who: Principal) -> str | None:
        """Return a name for a query of a tenant that was not given one."""
        if not who.tenant:
            return None
        registry = self.session.engine.registry
        number = registry.catalog.next_qid
        while who.stored(f"query_{number}") in registry.population.names:
            number += 1
        return who.stored(f"query_{number}")

    @contextmanager
    def _marked(self, who: Principal, ttl: str | float | None) -> Iterator[None]:
        """Let what is registered meanwhile say when, by whom, and until when."""
        now = time.time_ns() // 1_000
        end = {} if ttl is None else {"expires": end_of(_span(ttl), now)}
        self._marks.now = {"at": now, "by": who.token, **end}
        try:
            yield
        finally:
            self._marks.now = {}

    def _standing(self, who: Principal, name: str) -> Query | Template:
        """Return what a name, an id, or a template's name and an id stand for."""
        template, _, number = name.rpartition("#")
        if not template and is_id(name):
            feed = seen_feed(self.session, who, int(name))
            return Query(self.session, int(name), feed)
        if template and is_id(number):
            return self._template(who, template).query(int(number))
        return self._named(who, name)

    def _named(self, who: Principal, name: str) -> Query | Template:
        """Return what a name stands for; what is of others stands for nothing."""
        found = self.session.standing(who.found(name))
        if not who.sees(found.feed.name):
            raise UnknownNameError(f'query "{name}" does not exist')
        return found

    def _template(self, who: Principal, name: str) -> Template:
        found = self._named(who, name)
        if not isinstance(found, Template):
            raise UnknownNameError(
                f'template "{name}" does not exist', detail=f'"{name}" is a query.'
            )
        return found


def require_allowed_feed(change: dict[str, Any]) -> None:
    """Refuse a query of a tenant that would hear of what is of others."""
    if change["do"] == "add feed" and owner_of(change["feed"]["name"]):
        plan = change["feed"]["plan"]
        if SYSSTREAM in [change["feed"]["stream"], *(plan["sources"] if plan else ())]:
            raise not_theirs()


def _span(ttl: str | float) -> int:
    """Return a time to live in microseconds."""
    try:
        span = to_micros(ttl) if isinstance(ttl, str) else round(ttl * 1e6)
    except (ValueError, OverflowError):  # NaN, Infinity, a number of thousands of digits
        span = 0
    if span <= 0:
        raise PlanError(
            f"a query cannot live for {str(ttl)[:40]}", hint='Write "1 hour", or seconds.'
        )
    return span


def _total(done: Iterable[Done]) -> list[float]:
    rows = seconds = 0.0
    for each in done:
        rows, seconds = rows + each.rows, seconds + each.seconds
    return [rows, round(seconds, 6)]
