"""A session: declare streams, ask standing queries, say where answers go, and start.

    with millrace.Session("/var/lib/alerts", spark=spark) as session:
        session.stream("trades", df, time="ts", delay="2 seconds", key="symbol", retain="1 hour")
        session.query(millrace.select("trades", "symbol", where=col("price") > 100), name="big")
        session.sink(millrace.ParquetSink("/data/answers"))
        run = session.start()

What was declared is kept in the root. A program that starts again declares the same things (its
sources exist only in its own memory); a declaration that contradicts the root is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.connectors.compiled import compile_readers
from millrace.connectors.files import Files
from millrace.connectors.named import check_connector, files_source
from millrace.connectors.pushed import Pushed
from millrace.connectors.sinks.memory import MemorySink
from millrace.connectors.sinks.parquet import ParquetSink
from millrace.connectors.sinks.sink import FanOut, Sink
from millrace.engine.backend import Binding, Run
from millrace.engine.feeds import FeedSpec
from millrace.engine.given_rows import Rows
from millrace.engine.local import LocalBackend
from millrace.engine.settings import Settings
from millrace.engine.streams import StreamSpec
from millrace.engine.sysstream import NAME as SYSSTREAM
from millrace.errors import PlanError
from millrace.operators.select import Function
from millrace.operators.typed_function import TypedFunction
from millrace.plan.bind import bind_selection
from millrace.plan.nodes import Selection
from millrace.plan.relations import Relation, StreamOf
from millrace.reading.answers import no_answers
from millrace.reading.tried import DryRun
from millrace.schema import Schema, type_named
from millrace.session.arguments import (
    ids_of,
    names_of,
    require_asked,
    require_not_reserved,
    require_sink,
    require_text,
    root_of,
)
from millrace.session.declaring import columns_of, declare_stream
from millrace.session.dry_run import Ground, Limits, dry_run
from millrace.session.keeping import Keeping
from millrace.session.life import Life
from millrace.session.open_root import OpenRoot
from millrace.session.query import Query
from millrace.session.registration import Registration
from millrace.session.relations import declare_table, declare_view
from millrace.session.table import Table
from millrace.session.telling import tell_of_itself
from millrace.session.template import Template
from millrace.state.root import Root
from millrace.time import Clock, to_micros

if TYPE_CHECKING:
    from millrace.session.script import Outcome


class Session(OpenRoot):
    """One engine on one root.

    Parameters
    ----------
    root
        The directory that holds everything durable; it is created if it does not exist.
    spark
        The `SparkSession` to run on; without one, epochs run in this process. A backend of
        another kind may be given in its place.
    settings
        How the engine runs.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | Root,
        *,
        spark: object = None,
        settings: Settings | None = None,
        clock: Clock | None = None,
        threads: bool = True,
    ) -> None:
        super().__init__(root_of(root), spark, settings or Settings(), clock, threads=threads)
        self._bindings: dict[str, Binding] = {}
        self._functions: dict[str, Function] = {}
        self._function_types: dict[str, pa.DataType] = {}
        self._registration = Registration(self)
        self.reads_queries = True  # by name, in FROM; a server says no: they may be of others
        self.engine.functions = self._function_types

    def function(self, name: str, function: Callable[..., pa.Array], *, returns: str) -> None:
        """Make a vectorised function known to queries: Arrow arrays in, one array out."""
        self._functions[name] = TypedFunction(name, function, type_named(returns))
        self._function_types[name] = type_named(returns)
        if self._run is not None:
            self._run.rebind(self._bindings, self._functions)

    def stream(  # noqa: PLR0913  a declaration has as many words as SQL's
        self,
        name: str,
        source: object,
        *,
        time: str,
        schema: str | Schema | None = None,
        delay: str | int = 0,
        partition: str | None = None,
        order: str | Iterable[str] = (),
        key: str | Iterable[str] = (),
        retain: str | int | None = None,
        idle: str | int | None = None,
        json: str | None = None,
    ) -> None:
        """Declare a stream and bind it to its source; `StreamSpec` explains the words.

        Columns in the place of a source, such as `"symbol text, ts timestamp"`, are those of a
        stream whose rows are pushed.

        With `json`, rows are decoded from that column of JSON text by `schema`; text that is
        not JSON becomes a dead letter as it is.
        """
        require_not_reserved(name)
        if isinstance(source, str | Schema):
            schema, source = source, Pushed()
        spec = StreamSpec(
            name,
            columns_of(self._backend, name, source, schema, json, [partition, *names_of(order)]),
            time,
            to_micros(delay),
            partition,
            names_of(order),
            names_of(key),
            None if retain is None else to_micros(retain),
            None if idle is None else to_micros(idle),
            json,
            isinstance(source, Files | Pushed),
            pushed=isinstance(source, Pushed),
        )
        if json is not None or (isinstance(source, Files) and source.is_text):
            compile_readers()
        self.bind(spec, source)

    def bind(self, spec: StreamSpec, source: object) -> None:
        """Declare a stream as it is described, and bind it to its source."""
        declare_stream(self, spec)
        self._bindings[spec.name] = Binding(self.engine.registry.catalog.stream(spec.name), source)
        if self._run is not None:
            self._run.rebind(self._bindings, self._functions)

    def drop_stream(self, name: str) -> None:
        """Forget a stream, its source and its history; no query may read it any more."""
        require_not_reserved(name)
        self.change({"do": "drop stream", "name": name})
        self._bindings.pop(name, None)
        if self._run is not None:
            self._run.rebind(self._bindings, self._functions)

    def table(
        self,
        name: str,
        columns: str | Schema | Rows,
        *,
        key: str | Iterable[str] = (),
    ) -> Table:
        """Declare a table, whose rows change and which queries may join with streams.

        Declaring the same table again changes nothing, not its rows either.

        Parameters
        ----------
        columns
            The columns and their types, such as `"symbol text, most double"`, or rows to begin
            with: an Arrow table, a data frame, columns by name.
        key
            The columns that no two rows may have in common, if there are such.
        """
        return declare_table(self, name, columns, names_of(key))

    def standing_table(self, name: str) -> Table:
        """Return a handle on a table by its name."""
        self.engine.registry.catalog.table(name)
        return Table(self, name)

    def view(self, name: str, text: str, *, columns: Iterable[str] = ()) -> None:
        """Declare a view: a name for a query that others may read.

        It is expanded when a query that reads it is registered; queries that were stay as they
        are when it is dropped. Declaring the same view again changes nothing.
        """
        require_text("the query of a view", text)
        declare_view(self, name, text, tuple(columns))

    def drop_view(self, name: str) -> None:
        """Forget a view; no other view may read it any more."""
        self.change({"do": "drop view", "name": name})

    def query(  # noqa: PLR0913  as many words as SQL's
        self,
        asked: str | Selection | Relation | StreamOf,
        *,
        name: str | None = None,
        into: str | None = None,
        keep: int | None = None,
        retain: str | int | None = None,
        policy: str | None = None,
        history: str | int | None = None,
        partial: bool = False,
        ttl: str | int | None = None,
        unbounded: bool = False,
    ) -> Query:
        """Register a standing query; it is durable on return and runs from the next epoch on.

        Registering the same query under the same name again changes nothing.

        Parameters
        ----------
        asked
            SQL, a selection built with `millrace.select`, or a plan (`millrace.plan.relations`).
        name
            What to call it; a number is chosen otherwise.
        into
            A feed to share with other queries whose answers have the same columns; it is made
            if it does not exist. Without it the query has a feed of its own, named like it.
        keep
            How many rows of answers are kept for `Query.results`, beside what sinks get; by
            default 10,000 of its own feed, or as many as the shared feed keeps.
        retain
            For how long answers are kept instead, such as `"1 hour"`, by their times.
        policy
            How those are kept. `"lazy"`, the default for a selection, stores each row of the
            stream once for all queries, and for each query which rows are its answers; `"eager"`
            stores answers as rows of their own; `"none"` stores nothing for the query, which is
            asked anew of the rows that the stream retains. Joins, windows and aggregates know the
            latter two, and `"eager"` by default. The answers are the same.
        history
            How far back before its birth the query sees what its streams retain, such as
            `"1 hour"`. Its answers to that come first and are marked (`_backfill`); more than is
            retained is refused, unless the history may be `partial`.
        ttl
            How long the query lives, by the wall clock.
        unbounded
            Whether the query may remember more and more for as long as it runs, such as a join
            of streams without windows. Otherwise such a query is refused.
        """
        require_asked(asked)
        keeping = Keeping.asked(keep, retain, policy)
        life = Life.asked(history, ttl, partial=partial)
        return self._registration.query(
            asked, name=name, into=into, keeping=keeping, life=life, unbounded=unbounded
        )

    def queries(  # noqa: PLR0913  as many words as SQL's
        self,
        texts: Sequence[str | Selection],
        *,
        into: str,
        names: Sequence[str] | None = None,
        keep: int = 0,
        retain: str | int | None = None,
        policy: str | None = None,
        history: str | int | None = None,
        partial: bool = False,
        ttl: str | int | None = None,
    ) -> list[int]:
        """Register many queries into one feed, all or none; return their ids.

        A query that stands in the feed already, under the same name, is left as it is. What is kept
        of their answers is said as for `query`.
        """
        for each in texts:
            require_asked(each)
        keeping = Keeping.asked(keep, retain, policy)
        life = Life.asked(history, ttl, partial=partial)
        return self._registration.queries(texts, into=into, names=names, keeping=keeping, life=life)

    def template(  # noqa: PLR0913  as many words as SQL's
        self,
        name: str,
        text: str | Relation | StreamOf,
        parameters: Mapping[str, str] | None = None,
        *,
        keep: int = 0,
        retain: str | int | None = None,
        policy: str | None = None,
        history: str | int | None = None,
        partial: bool = False,
        ttl: str | int | None = None,
        unbounded: bool = False,
        **more: str,
    ) -> Template:
        """Declare a query template: `:name` in its text stands for a parameter of that type.

        Each row that is inserted into it is a standing query. Declaring the same template again
        changes nothing.

        Parameters
        ----------
        text
            SQL, or a plan with parameters (`millrace.plan.expressions.Parameter`).
        parameters, more
            The parameters and their types, such as `sym="text", low="double"`.
        keep
            How many rows of answers are kept for readers, beside what sinks get.
        retain, policy
            For how long answers are kept instead, and how; see `query`.
        history, partial, ttl
            How far back its queries see, and how long the template lives; see `query`.
        unbounded
            Whether its queries may remember more and more for as long as they run.
        """
        if not isinstance(text, StreamOf | Relation):
            require_text("the text of a template", text)
        declared = {**(parameters or {}), **more}
        keeping = Keeping.asked(keep, retain, policy)
        life = Life.asked(history, ttl, partial=partial)
        return self._registration.template(
            name, text, declared, keeping=keeping, life=life, unbounded=unbounded
        )

    def standing(self, name: str) -> Query | Template:
        """Return a handle on a query or template by its name."""
        return self._registration.standing(name)

    def standing_feed(self, name: str) -> FeedSpec:
        """Return where the answers of a query, a template or a shared feed go, by its name."""
        return self.engine.registry.catalog.feed(name)

    def drop_queries(self, qids: Iterable[int]) -> None:
        """Remove queries by their ids, all or none."""
        ids = pa.record_batch({"qid": pa.array(ids_of(qids), pa.uint64())})
        self.record([{"do": "drop queries", "rows": 0}], [ids])

    def sink(self, sink: Sink) -> None:
        """Deliver answers to a sink, from where its cursor stands."""
        require_sink(sink)
        if isinstance(sink, MemorySink):
            sink.nothing_of = self._nothing_of
        if isinstance(sink, ParquetSink):
            sink.require_place(self.engine.delivery.next_epoch(sink, self.engine.manifest))
        self.engine.delivery.attach(sink)

    def start(self) -> Run:
        """Begin to run epochs."""
        catalog = self.engine.registry.catalog
        if SYSSTREAM in catalog.streams and SYSSTREAM not in self._bindings:
            tell_of_itself(self)
        missing = [name for name in catalog.streams if name not in self._bindings]
        if missing:
            raise PlanError(
                f'stream "{missing[0]}" is declared in the root and has no source',
                detail=f"The root knows the streams {', '.join(catalog.streams)}.",
                hint="Declare it with Session.stream before start, or drop it.",
            )
        self._require_functions()
        self.engine.delivery.committed(self.engine.manifest)
        self._run = self._backend.start(self.engine, self._bindings, self._functions)
        return self._run

    def execute(self, text: str) -> list[Outcome]:
        """Do the statements of a script, such as CREATE STREAM, CREATE QUERY, INSERT and SHOW.

        Nothing is done if one of them cannot be parsed; otherwise those before one that fails.
        """
        from millrace.session.script import Script  # noqa: PLC0415  the language is slow to import

        return list(Script(self).run(text))

    def dry_run(
        self, text: str, history: str | int | None = None, *, limits: Limits | None = None
    ) -> DryRun:
        """Say what a query would have answered over what its streams retain; nothing is registered.

        Tried are the rows of the last `history`, such as `"1 hour"`, or all; within the limits.
        """
        require_text("the text of a query", text)
        engine = self.engine
        ground = Ground(
            engine.root,
            engine.manifest,
            engine.registry.catalog,
            self.functions,
            self.function_types,
            lambda name: self.standing_table(name).rows(),
        )
        return dry_run(ground, text, history, limits)

    def make_source(
        self, kind: str, options: dict[str, Any], stream: str, schema: Schema
    ) -> object:
        """Make the source that a CREATE STREAM names; without Spark it is fed by hand."""
        name = check_connector("source", kind, options)
        if name == "push":
            return Pushed()
        if name == "files" and not isinstance(self._backend, LocalBackend):
            return files_source(options)
        return self._backend.make_source(name, options, stream, schema)

    @property
    def fed_by_hand(self) -> bool:
        """Whether epochs run when somebody feeds rows, and not by themselves."""
        return type(self._backend) is LocalBackend

    @property
    def functions(self) -> dict[str, Function]:
        """The registered functions."""
        return self._functions

    @property
    def function_types(self) -> dict[str, pa.DataType]:
        """The registered functions, and the types they return."""
        return self._function_types

    def _nothing_of(self, query: str, fan_out: FanOut) -> pa.Table | None:
        """Return the table that a sink has of a query that matched nothing, if there is one."""
        feed = self.engine.registry.catalog.feeds.get(query)
        return None if feed is None else no_answers(feed, fan_out)

    def _require_functions(self) -> None:
        catalog = self.engine.registry.catalog
        for family in catalog.families.values():
            schema = catalog.stream(family.selection.stream).schema
            bind_selection(family.selection, schema, self._function_types)
