"""Running printed SQL in DuckDB: in memory, alone, within limits, and without a way out.

Each question has a database of its own that holds what it reads and nothing else. Files, the
network and extensions are out of reach, and that cannot be changed again; neither is there a
directory to spill to. A question that takes too long is interrupted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from inspect import Parameter, Signature
from math import ceil
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.errors import (
    MachineError,
    MillraceError,
    PlanError,
    ReadLimitError,
    SeveralRowsError,
    SumOverflowError,
)
from millrace.operators.evaluate import Function as Registered
from millrace.operators.evaluate import evaluate
from millrace.operators.vectors import as_array
from millrace.reading.duckdb_sql import ListFunction, Printed
from millrace.reading.duckdb_terms import Function
from millrace.reading.duckdb_types import from_stored, to_stored, type_word
from millrace.reading.exact_lists import (
    exact_aggregates,
    most_frequent_places,
    percentiles_between,
)
from millrace.reading.room import LESS, Room, too_slow
from millrace.schema import Schema

if TYPE_CHECKING:
    import duckdb

_SETTINGS = {
    "threads": "1",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "temp_directory": "",
}
_BATCH = 65_536
LEAST_ROW_BYTES = 16
"""What a row takes at least while it is read: a key and a time."""
_SEVERAL = "More than one row returned by a subquery"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one question may take: seconds, bytes of memory, and rows and bytes of the answer."""

    seconds: float = 30.0
    memory_bytes: int = 1 << 30
    answer_rows: int = 1_000_000
    answer_bytes: int = 256 << 20


def room_for(limits: Limits) -> Room:
    """Return the room for what a question reads; its time begins now."""
    return Room(limits.memory_bytes // LEAST_ROW_BYTES, limits.memory_bytes, limits.seconds)


@dataclass
class _Faults:
    """What went wrong in functions of ours, which DuckDB knows only as a text."""

    found: list[Exception] = field(default_factory=list)


def run(
    printed: Printed,
    tables: Sequence[pa.Table],
    schema: Schema,
    functions: Mapping[str, Registered],
    limits: Limits,
    room: Room | None = None,
) -> pa.Table:
    """Return the answer of printed SQL over the tables that it names, in these columns.

    The time that it took to read the tables is part of its time, if they were taken from `room`.
    """
    import_duckdb()
    faults, left = _Faults(), (room or room_for(limits)).seconds_left
    with _opened(limits) as database:
        timer = threading.Timer(left or limits.seconds, database.interrupt)
        timer.daemon = True
        timer.start()
        try:
            _load(database, printed, tables)
            _declare(database, printed, functions, faults)
            database.execute("SET lock_configuration = true")
            return _answer(database, printed, schema, limits)
        except _errors() as cause:
            raise _in_our_words(cause, faults, limits) from cause
        finally:
            timer.cancel()


def import_duckdb() -> Any:  # noqa: ANN401  a module
    """Return the module, or say what to install."""
    try:
        import duckdb  # noqa: PLC0415  an extra brings it
    except ImportError as cause:
        raise MachineError(
            "what is asked once is answered by DuckDB, which is not installed",
            hint="Install it: pip install 'millrace[server]'.",
        ) from cause
    return duckdb


def _errors() -> tuple[type[Exception], ...]:
    return (import_duckdb().Error,)


def _opened(limits: Limits) -> duckdb.DuckDBPyConnection:
    memory = f"{max(limits.memory_bytes >> 20, 16)}MiB"
    database: duckdb.DuckDBPyConnection = import_duckdb().connect(
        ":memory:", config={**_SETTINGS, "memory_limit": memory}
    )
    return database


def _load(
    database: duckdb.DuckDBPyConnection, printed: Printed, tables: Sequence[pa.Table]
) -> None:
    """Copy what is read into tables, so that every comparison is DuckDB's and not a scanner's."""
    for number, (loaded, table) in enumerate(zip(printed.tables, tables, strict=True)):
        arrays = [to_stored(table.column(name)) for name, _ in loaded.columns]
        database.register("given", pa.table(arrays, [column for _, column in loaded.columns]))
        database.execute(f"CREATE TABLE l{number} AS SELECT * FROM given")
        database.unregister("given")


def _declare(
    database: duckdb.DuckDBPyConnection,
    printed: Printed,
    functions: Mapping[str, Registered],
    faults: _Faults,
) -> None:
    for number, each in enumerate(printed.terms.functions):
        call = _guarded(_evaluating(each, functions), faults)
        types = [type_word(arrow) for _, arrow in each.columns]
        _create(database, f"f{number}", call, types, type_word(each.arrow))
    for number, one in enumerate(printed.lists):
        call = _guarded(_aggregating(one), faults)
        given = type_word(one.operand)
        given = given if one.numbers else f"{given}[]"
        _create(database, f"g{number}", call, [given], type_word(one.arrow))


def _create(
    database: duckdb.DuckDBPyConnection,
    name: str,
    call: Callable[..., pa.ChunkedArray],
    types: Sequence[str],
    returned: str,
) -> None:
    places = [Parameter(f"p{at}", Parameter.POSITIONAL_ONLY) for at in range(len(types))]
    vars(call)["__signature__"] = Signature(places)  # by which DuckDB counts them
    special: Any = {"type": "arrow", "null_handling": "special"}  # names of DuckDB's own constants
    database.create_function(name, call, list(types), returned, **special)


def _evaluating(
    function: Function, functions: Mapping[str, Registered]
) -> Callable[..., pa.ChunkedArray]:
    names = [name for name, _ in function.columns]

    def evaluated(*given: pa.ChunkedArray) -> pa.ChunkedArray:
        arrays = [
            from_stored(_whole(each), arrow)
            for each, (_, arrow) in zip(given, function.columns, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, names)
        values = as_array(evaluate(function.node, batch, functions), batch.num_rows)
        return pa.chunked_array([to_stored(values)])

    return evaluated


def _aggregating(function: ListFunction) -> Callable[..., pa.ChunkedArray]:
    aggregate = function.aggregate

    def numbered(counts: pa.ChunkedArray) -> pa.ChunkedArray:
        share = Fraction(repr(float(aggregate.fraction or 0)))
        numbers = [max(ceil(share * (each or 0)), 1) for each in counts.to_pylist()]
        return pa.chunked_array([pa.array(numbers, pa.int64())])

    def between(lists: pa.ChunkedArray) -> pa.ChunkedArray:
        doubles = _whole(lists).cast(pa.list_(pa.float64()), safe=False)
        return pa.chunked_array([percentiles_between(float(aggregate.fraction or 0), doubles)])

    def totals(lists: pa.ChunkedArray) -> pa.ChunkedArray:
        given = _whole(lists).cast(pa.list_(function.operand))
        return pa.chunked_array([exact_aggregates(aggregate, given, function.arrow)])

    def often(lists: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([most_frequent_places(_whole(lists))])

    others = {"percentile_disc": numbered, "percentile_cont": between, "mode": often}
    return others.get(aggregate.kind, totals)


def _guarded(
    call: Callable[..., pa.ChunkedArray], faults: _Faults
) -> Callable[..., pa.ChunkedArray]:
    def guarded(*given: pa.ChunkedArray) -> pa.ChunkedArray:
        try:
            return call(*given)
        except Exception as cause:
            faults.found.append(cause)
            raise

    return guarded


def _whole(values: pa.ChunkedArray) -> pa.Array:
    return values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)


def _answer(
    database: duckdb.DuckDBPyConnection, printed: Printed, schema: Schema, limits: Limits
) -> pa.Table:
    batches, n_rows, n_bytes = [], 0, 0
    for batch in database.sql(printed.sql, params=printed.terms.parameters).to_arrow_reader(_BATCH):
        n_rows, n_bytes = n_rows + batch.num_rows, n_bytes + batch.nbytes
        if n_rows > limits.answer_rows or n_bytes > limits.answer_bytes:
            raise ReadLimitError(
                "the answer is too large",
                detail=f"It has more than {limits.answer_rows:,} rows, or "
                f"{limits.answer_bytes >> 20:,} MB.",
                hint="Add LIMIT, or ask for less.",
            )
        batches.append(batch)
    arrow = schema.to_arrow()
    if not batches:
        return arrow.empty_table()
    found = pa.Table.from_batches(batches)
    columns = [
        from_stored(each, field.type) for each, field in zip(found.columns, arrow, strict=True)
    ]
    return pa.table(columns, schema=arrow)


def _in_our_words(cause: Exception, faults: _Faults, limits: Limits) -> MillraceError:
    """Return what an error of DuckDB means."""
    if faults.found:
        fault = faults.found[0]
        if isinstance(fault, MillraceError):
            return fault
        return PlanError(
            "a function of the query raised", detail=f"{type(fault).__name__}: {fault}."
        )
    module = import_duckdb()
    if isinstance(cause, module.InterruptException):
        return too_slow(limits.seconds)
    if isinstance(cause, module.OutOfMemoryException):
        return ReadLimitError(
            "the query needs too much memory",
            detail=f"It may take {limits.memory_bytes >> 20:,} MB.",
            hint=LESS,
        )
    if _SEVERAL in str(cause):
        return SeveralRowsError(
            "a subquery that stands for one value has several rows",
            hint="Use an aggregate such as max(...), or ask with IN.",
        )
    if isinstance(cause, module.OutOfRangeException | module.ConversionException):
        return SumOverflowError(
            "a sum does not fit into its type",
            hint="Cast what is added to double, which holds more and is exact to 15 digits.",
        )
    raise cause
