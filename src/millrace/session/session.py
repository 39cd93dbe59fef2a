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
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from millrace.connectors.compiled import compile_readers
from millrace.connectors.files import Files
from millrace.connectors.named import check_connector, files_source
from millrace.connectors.pushed import Pushed
from millrace.connectors.sinks.memory import MemorySink
from millrace.connectors.sinks.parquet import ParquetSink
from millrace.connectors.sinks.sink import FanOut, Sink
from millrace.engine.backend import Binding, Run
from millrace.engine.changing import changed
from millrace.engine.delivery import Delivery
from millrace.engine.epoch import Engine
from millrace.engine.feeds import FeedSpec
from millrace.engine.given_rows import Rows
from millrace.engine.local import LocalBackend
from millrace.engine.registry import Registry
from millrace.engine.settings import Settings
from millrace.engine.sink_status import SinkStatus
from millrace.engine.statistics import EpochStatistics
from millrace.engine.stores import DEAD_LETTERS, late_store, rows_store
from millrace.engine.streams import StreamSpec
from millrace.engine.sysstream import NAME as SYSSTREAM
from millrace.errors import PlanError
from millrace.operators.select import Function
from millrace.operators.typed_function import TypedFunction
from millrace.plan.bind import bind_selection
from millrace.reading.answers import no_answers
from millrace.reading.unexpired import unexpired
from millrace.schema import Schema, type_named
from millrace.session.arguments import (
    ids_of,
    names_of,
    require_not_reserved,
    require_sink,
    require_text,
    root_of,
)
from millrace.session.asks import Asks
from millrace.session.backends import backend_for
from millrace.session.declaring import columns_of, declare_stream
from millrace.session.following import Following
from millrace.session.registration import Registration
from millrace.session.relations import declare_table, declare_view
from millrace.session.table import Table
from millrace.session.telling import tell_of_itself
from millrace.state.fence import Fence
from millrace.state.root import Root
from millrace.state.run_store import RunStore
from millrace.time import Clock, WallClock, to_micros

if TYPE_CHECKING:
    from millrace.session.script import Outcome


class Session(Asks):
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
        self._root = root_of(root)
        self._clock = clock or WallClock()
        self.updating = threading.RLock()
        self.followers: list[Following] = []
        self._fence = Fence.acquire(self._root, who="millrace engine")
        try:
            self._backend = backend_for(spark, self._fence)
            self.engine = self._opened(settings or Settings(), threads=threads)
        except BaseException:
            self._fence.release()
            raise
        self._bindings: dict[str, Binding] = {}
        self._functions: dict[str, Function] = {}
        self._function_types: dict[str, pa.DataType] = {}
        self._registration = Registration(self)
        self.engine.functions = self._function_types
        self._run: Run | None = None
        self.allowed: Callable[[dict[str, Any]], object] = lambda _: None  # raises if it is not

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

        With `json`, rows are decoded from that column of JSON text by `schema`; text that is
        not JSON becomes a dead letter as it is.
        """
        require_not_reserved(name)
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
        if SYSSTREAM in catalog.streams:
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

    def now(self) -> int:
        """Return what time it is, by the clock that the session goes by, in us."""
        return self._clock.now()

    def change(self, *changes: dict[str, Any]) -> None:
        """Record changes of the registry, all or none, and let them take effect soon."""
        self.record(list(changes))

    def change_settings(self, changes: Mapping[str, object]) -> None:
        """Change settings by name, all or none; they hold from the next epoch on."""
        self.engine.settings = changed(self.engine.settings, changes)
        if self._run is not None:
            self._run.take_settings()

    def retain(self, stream: str, duration: str | int) -> None:
        """Keep the history of a stream for another while, from the next epoch on."""
        self.change({"do": "retain stream", "name": stream, "retain": to_micros(duration)})

    def record(
        self, changes: list[dict[str, Any]], tables: Sequence[pa.RecordBatch] = ()
    ) -> list[int]:
        """Record changes that come with tables; return the first id of each that adds queries."""
        for change in changes:
            self.allowed(change)
        first = self.engine.registry.record(changes, tables)
        if self._run is not None:
            self._run.nudge()
        return first

    def execute(self, text: str) -> list[Outcome]:
        """Do the statements of a script, such as CREATE STREAM, CREATE QUERY, INSERT and SHOW.

        Nothing is done if one of them cannot be parsed; otherwise those before one that fails.
        """
        from millrace.session.script import Script  # noqa: PLC0415  the language is slow to import

        return list(Script(self).run(text))

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
    def streams(self) -> Mapping[str, StreamSpec]:
        """The declared streams, by name."""
        return self.engine.registry.catalog.streams

    @property
    def functions(self) -> dict[str, Function]:
        """The registered functions."""
        return self._functions

    @property
    def function_types(self) -> dict[str, pa.DataType]:
        """The registered functions, and the types they return."""
        return self._function_types

    def dead_letters(self) -> pa.Table:
        """Return the rows that could not be read: stream, source, position, reason, raw bytes."""
        return self._table(DEAD_LETTERS)

    def late_rows(self, stream: str) -> pa.Table:
        """Return the rows of a stream that came too late, with their source and position."""
        return self._table(late_store(self.engine.registry.catalog.stream(stream)))

    def history(self, stream: str) -> pa.Table:
        """Return the rows of a stream that were in time and are within its retention."""
        spec = self.engine.registry.catalog.stream(stream)
        if spec.retain is None:
            raise PlanError(
                f'stream "{stream}" keeps no history',
                hint='Declare the stream with retain, such as retain="1 hour".',
            )
        return self._table(rows_store(spec))

    def statistics(self) -> list[EpochStatistics]:
        """Return the statistics of this session's last epochs, oldest first."""
        return list(self.engine.statistics)

    def sinks(self) -> tuple[SinkStatus, ...]:
        """Say how each sink is: cursor, lag, backlog, last error."""
        return self.engine.delivery.status()

    def close(self, *, drain: float = 30.0) -> None:
        """Stop the run, deliver what is committed (for at most `drain` seconds), free the root."""
        if self._run is not None:
            self._run.stop()
            self._run = None
        for following in self.followers:
            following.stop()
        self.engine.delivery.drain(drain)
        self.engine.delivery.stop()
        self.engine.registry.close()
        self._fence.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _nothing_of(self, query: str, fan_out: FanOut) -> pa.Table | None:
        """Return the table that a sink has of a query that matched nothing, if there is one."""
        feed = self.engine.registry.catalog.feeds.get(query)
        return None if feed is None else no_answers(feed, fan_out)

    def _opened(self, settings: Settings, *, threads: bool) -> Engine:
        """Read what the root holds."""
        root, fence, clock = self._root, self._fence, self._clock
        store = RunStore.open(root, fence)
        registry = Registry.open(root, fence.check)
        delivery = Delivery(root, fence.check, clock=clock, term=fence.term, threads=threads)
        return Engine(root, store, registry, delivery, settings, clock)

    def _table(self, store: str) -> pa.Table:
        """Return the rows of a store that have not expired."""
        engine, now = self.engine, self._clock.now()
        catalog, keep = engine.registry.catalog, engine.settings.keep_rejected
        return unexpired(self._root, engine.manifest, catalog, store, keep, now)

    def _require_functions(self) -> None:
        catalog = self.engine.registry.catalog
        for family in catalog.families.values():
            schema = catalog.stream(family.selection.stream).schema
            bind_selection(family.selection, schema, self._function_types)
