"""Scripts: statements are done one after another on a session.

    for outcome in Script(session).run(text):
        print(outcome.message)          # or outcome.table

A statement that fails stops the script; those before it have taken effect, itself has not. Each
is checked for what can be known without running when the whole script is parsed. A script is
checked without Spark by running it on a session in memory, whose sources deliver nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.connectors.named import check_connector
from millrace.connectors.sinks.callback import CallbackSink
from millrace.connectors.sinks.memory import MemorySink
from millrace.connectors.sinks.parquet import ParquetSink
from millrace.connectors.sinks.sink import Sink
from millrace.errors import MillraceError, PlanError, UnknownNameError
from millrace.lang.declarations import (
    Alter,
    Connector,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateTemplate,
    CreateView,
    DeleteRows,
    Drop,
    DryRun,
    Explain,
    InsertFile,
    InsertFound,
    InsertRows,
    Pause,
    Read,
    Register,
    Show,
    Statement,
    Subscribe,
    UpdateRows,
)
from millrace.lang.errors import LanguageError
from millrace.lang.query_options import QueryOptions
from millrace.lang.row_changes import question_of
from millrace.lang.statements import parse
from millrace.plan.nodes import Selection
from millrace.reading.held import ask_newest
from millrace.session.explanation import explain_query, explain_selection, standing_as
from millrace.session.following import read_rows
from millrace.session.held import SessionHeld
from millrace.session.listing import listed
from millrace.session.plan_explanation import explain_relation
from millrace.session.planning import bound_any
from millrace.session.query import Query
from millrace.session.relations import declare_table, declare_view
from millrace.session.row_changes import change_rows, given_columns
from millrace.session.statement_places import excerpt_for
from millrace.session.template import Template
from millrace.session.unknown import unknown

if TYPE_CHECKING:
    from millrace.session.session import Session

Receiver = Callable[[str, int, pa.Table], object]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement did: a sentence, or a table for one that asks."""

    statement: Statement
    message: str = ""
    table: pa.Table | None = None


class Script:
    """Does statements on a session.

    Parameters
    ----------
    show
        What a sink `TO console()` calls with the rows of each epoch.
    """

    def __init__(self, session: Session, show: Receiver = lambda *_: None) -> None:
        self.session, self._show = session, show

    def run(self, text: str) -> Iterator[Outcome]:
        """Do the statements of a script; nothing is done if any of them cannot be parsed."""
        for statement in parse(text):
            yield self.do(statement)

    def do(self, statement: Statement) -> Outcome:
        """Do one statement; an error shows the part of it that is meant."""
        try:
            return self.outcome(statement)
        except LanguageError:
            raise  # it shows its place by itself
        except MillraceError as error:
            error.show(excerpt_for(error, statement, given_columns(self.session, statement)))
            raise

    def outcome(self, statement: Statement) -> Outcome:
        """Do one statement."""
        match statement:
            case Show(what):
                return Outcome(statement, table=listed(self.session, what))
            case Explain():
                return Outcome(statement, self._explained(statement))
            case DryRun(query, history):
                bound_any(query, self.session)
                return Outcome(statement, str(self.session.dry_run(str(query), history)))
            case Read():
                return Outcome(statement, table=self.rows_for(statement))
            case _:
                return Outcome(statement, self._done(statement))

    def rows_for(self, statement: Statement) -> pa.Table | None:
        """Answer the question that a statement asks, if it asks one."""
        question = question_of(statement)
        return question and ask_newest(question, lambda: SessionHeld(self.session))

    def sees(self, feed: str) -> bool:  # noqa: ARG002  who runs a session sees all
        """Say whether the answers of a feed are among those that may be spoken of."""
        return True

    def _done(self, statement: Statement) -> str:  # noqa: C901  a case for each statement
        match statement:
            case CreateStream():
                return self._create_stream(statement)
            case CreateSink(name, _, _, _):
                self.session.sink(self.sink_of(statement))
                return f'sink "{name}" is attached'
            case CreateTable():
                return self._create_table(statement)
            case CreateView(name, query, columns):
                declare_view(self.session, name, query, columns)
                return f'view "{name}" is declared'
            case CreateQuery(name, query, into, unbounded, options):
                bound_any(query, self.session)
                words = {"unbounded": unbounded, **_said(options)}
                self.session.query(str(query), name=name, into=into, **words)
                return f'query "{name}" stands'
            case CreateTemplate(name, parameters, query, unbounded, options):
                bound_any(query, self.session, dict(parameters))
                words = {"unbounded": unbounded, **_said(options)}
                self.session.template(name, str(query), dict(parameters), **words)
                return f'template "{name}" is declared'
            case Subscribe(name, cursor):
                self._query(name)
                after = "" if cursor is None else f", after {cursor}"
                return f'query "{name}" is followed by `millrace query tail {name}`{after}'
            case InsertRows() | InsertFile() | InsertFound() | UpdateRows() | DeleteRows():
                return change_rows(self, statement)
            case Drop():
                return self._drop(statement)
            case Pause() | Alter():
                return self._altered(statement)
            case Register():
                raise PlanError(
                    f"{str(statement).split('(')[0].strip()} is not executed yet",
                    hint="Write CREATE STREAM or CREATE TABLE.",
                )
            case _:
                message = f"a statement of another kind: {statement}"
                raise AssertionError(message)

    def _altered(self, asked: Pause | Alter) -> str:
        if isinstance(asked, Pause):
            query = self._query(asked.name)
            query.resume() if asked.resume else query.pause()
            return f'query "{asked.name}" {"goes on" if asked.resume else "is paused"}'
        if asked.kind == "stream":
            assert asked.options.retain is not None, "nothing else of a stream is altered"
            self.session.retain(asked.name, asked.options.retain)
        else:
            assert asked.options.policy is not None, "nothing else of a query is altered"
            find = self._query if asked.kind == "query" else self.template
            find(asked.name).set_policy(asked.options.policy)
        return f'{asked.kind} "{asked.name}" has {asked.options} from the next epoch on'

    def _create_stream(self, asked: CreateStream) -> str:
        source = self.session.make_source(
            asked.source.kind, dict(asked.source.options), asked.name, asked.schema
        )
        self.session.stream(
            asked.name,
            source,
            time=asked.time,
            schema=asked.schema,
            delay=asked.delay,
            partition=asked.partition,
            order=asked.order,
            key=asked.key,
            retain=asked.retain,
            idle=asked.idle,
            json=asked.json,
        )
        return f'stream "{asked.name}" is declared'

    def _create_table(self, asked: CreateTable) -> str:
        rows, known = None, self.session.engine.registry.catalog.tables
        if asked.source is not None and asked.name not in known:
            rows = self.first_rows(asked.source)
        table = declare_table(self.session, asked.name, asked.schema, asked.key, rows)
        return f'table "{asked.name}" is declared' + (
            "" if rows is None else f", {len(table):,} rows"
        )

    def first_rows(self, source: Connector) -> pa.Table | None:
        """Read the rows that a table begins with."""
        return read_rows(self.check_rows(source))

    def check_rows(self, source: Connector) -> str:
        """Return the path of the rows that a table begins with, if they are in files."""
        options = dict(source.options)
        if check_connector("source", source.kind, options) != "files":
            raise PlanError(
                f'a table is not read from "{source.kind}"',
                hint="Write FROM files(path => '...'), or insert its rows.",
                node=("kind", source.kind),
            )
        return str(options["path"])

    def check_sink(self, asked: CreateSink) -> str:
        """Return the kind of a sink if it exists and its options fit; queries it names exist."""
        for name in asked.queries or ():
            self.session.standing_feed(name)
        return check_connector("sink", asked.target.kind, dict(asked.target.options))

    def sink_of(self, asked: CreateSink) -> Sink:
        """Make a sink, without attaching it."""
        options: dict[str, Any] = dict(asked.target.options)
        kind = self.check_sink(asked)
        common: dict[str, Any] = {"name": asked.name, "fan_out": asked.fan_out}
        if kind == "parquet":
            return ParquetSink(options.pop("path"), asked.queries, **common, **options)
        if kind == "memory":
            return MemorySink(asked.queries, **common, **options)
        return CallbackSink(self._show, asked.queries, **common)

    def _drop(self, asked: Drop) -> str:
        try:
            match asked.kind:
                case "stream":
                    self.session.drop_stream(asked.name)
                case "table":
                    self.session.standing_table(asked.name).drop()
                case "view":
                    self.session.drop_view(asked.name)
                case "sink":
                    self.session.engine.delivery.detach(asked.name)
                case "query":
                    self._query(asked.name).drop()
                case "template":
                    self.template(asked.name).drop()
        except UnknownNameError:
            if not asked.if_exists:
                raise
            return f'{asked.kind} "{asked.name}" does not exist'
        return f'{asked.kind} "{asked.name}" is dropped'

    def template(self, name: str) -> Template:
        """Return the template of that name, or say which ones there are."""
        feed = self.session.engine.registry.catalog.feeds.get(name)
        found = None if feed is None else self.session.standing(name)
        if not isinstance(found, Template):
            raise unknown(self.session, "template", name)
        return found

    def _query(self, name: str) -> Query:
        found = self.session.standing(name)
        if not isinstance(found, Query):
            raise unknown(self.session, "query", name)
        return found

    def _explained(self, asked: Explain) -> str:
        if isinstance(asked.query, str):
            return explain_query(self.session, asked.query, analyze=asked.analyze)
        bound = bound_any(asked.query, self.session)
        if asked.analyze:
            name = standing_as(self.session, str(asked.query), bound, self.sees)
            return explain_query(self.session, name, analyze=True)
        if isinstance(bound, Selection):
            return explain_selection(self.session, bound)
        return explain_relation(self.session, bound)


def _said(options: QueryOptions) -> dict[str, Any]:
    """Return the options that were given, as arguments."""
    return {name: value for name, value in asdict(options).items() if value is not None}
