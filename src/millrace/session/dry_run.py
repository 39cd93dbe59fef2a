"""Dry runs: what a query would have answered, had it stood while the rows that are retained came.

A session in memory declares the streams, tables and views that the query names, and the functions,
registers the query, and is fed with what the streams retain, oldest first. So whatever can stand
can be tried, it is run by the code that would run it, and it leaves no trace.

Cost: that of the rows themselves, read some at a time (`tried_rows`) and answered in this process;
no more of them, and for no longer, than the limits say. If not all was tried, the number of results
is one "at least". Tables that it names are copied.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from millrace.engine.catalog import Catalog
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.engine.streams import SYSSTREAM
from millrace.engine.sysstream import sysstream_spec
from millrace.errors import PlanError
from millrace.operators.evaluate import Function
from millrace.plan.nodes import Selection
from millrace.plan.relations import StreamOf
from millrace.reading.history import newest_time, retained_since
from millrace.reading.tried import DryRun
from millrace.schema import type_name
from millrace.session.planning import bound_any, sources_of
from millrace.session.query import Query
from millrace.session.tried_rows import TriedRows
from millrace.state.manifest import Manifest
from millrace.state.memory_root import MemoryRoot
from millrace.state.order import TIME
from millrace.state.root import Root
from millrace.time import to_micros

if TYPE_CHECKING:
    from millrace.lang.queries import Parsed
    from millrace.lang.relational.bound import BoundRelation
    from millrace.session.session import Session

ROWS_AT_ONCE = 20_000
SAMPLE_ROWS = 10
_NAME = "dry_run"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many rows a dry run reads at most, and for how many seconds it goes on."""

    rows: int = 1_000_000
    seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Ground:
    """What a query is tried on: what is committed and declared, by whoever has the root open.

    `table_rows` returns the rows of a table, and `require` refuses streams that may not be read.
    """

    root: Root
    manifest: Manifest
    catalog: Catalog
    functions: Mapping[str, Function]
    function_types: Mapping[str, pa.DataType]
    table_rows: Callable[[str], pa.Table]
    require: Callable[[Sequence[str]], None] = lambda _: None


def dry_run(
    ground: Ground,
    query: str | Parsed,
    over: str | int | None = None,
    limits: Limits | None = None,
) -> DryRun:
    """Try a query on what its streams retain, of the last `over`, or all."""
    from millrace.session.session import Session  # noqa: PLC0415  it imports this module

    begun, allowed = time.perf_counter(), limits or Limits()
    how = Settings(shards=1, spread="never", merging=False)
    with Session(MemoryRoot(), threads=False, settings=how) as alone:
        _declare(ground, alone, names_in(query, ground.catalog))
        names = _streams_of(bound_any(query, alone))
        ground.require(names)
        begin = _begin(ground, names, None if over is None else to_micros(over))
        history = TriedRows(ground.root, ground.manifest, ground.catalog, names, begin)
        whole, tried, n_results = history.count(), 0, 0
        standing = alone.query(str(query), name=_NAME, keep=SAMPLE_ROWS, unbounded=True)
        run = alone.start()
        assert isinstance(run, LocalRun), "it runs in this process"
        for part in chain.from_iterable(map(_parts, history.loads(whole))):
            n_rows = sum(each.num_rows for each in part.values())
            spent = time.perf_counter() - begun
            if tried and (tried + n_rows > allowed.rows or spent > allowed.seconds):
                break
            n_results += run.feed(**part).results
            tried += n_rows
        _require_answers(standing)
        sample = standing.results(SAMPLE_ROWS).drop_columns(["_epoch"])
    seconds = time.perf_counter() - begun
    return DryRun(n_results, sample, seconds, tried, whole, _partial(ground, names, begin))


def _streams_of(bound: Selection | BoundRelation) -> list[str]:
    if isinstance(bound, Selection):
        return [bound.stream]
    plan = bound.plan if isinstance(bound.plan, StreamOf) else StreamOf("istream", bound.plan)
    return list(dict.fromkeys(sources_of(plan)))


def names_in(query: str | Parsed, catalog: Catalog) -> frozenset[str] | None:
    """Return the streams, tables and views that a query names, also by way of views.

    None, if something is named that is none of them: who is told so is told what there is.
    """
    from millrace.lang.queries import query_of  # noqa: PLC0415  slow to import
    from millrace.lang.relational.once import names_read  # noqa: PLC0415  slow to import

    known = [*catalog.streams, *catalog.tables, *catalog.views]
    spelt = {each.casefold(): each for each in known}
    found: set[str] = set()
    waiting = [query_of(query) if isinstance(query, str) else query]
    while waiting:
        for identifier in names_read(waiting.pop()):
            name = spelt.get(identifier.name.casefold())
            if name is None:
                return None
            if name in catalog.views and name not in found:
                waiting.append(query_of(catalog.views[name].text))
            found.add(name)
    return frozenset(found)


def _begin(ground: Ground, names: Sequence[str], over: int | None) -> int | None:
    """Return from which instant on rows are tried; None is from the first on."""
    for name in names:
        if ground.catalog.stream(name).retain is None:
            raise PlanError(
                f'stream "{name}" keeps no history to try a query on',
                hint="Declare the stream with RETAIN 1 HOUR, or so.",
            )
    now = newest_time(tuple(names), ground.manifest, ground.catalog)
    return None if over is None else now - over


def _partial(ground: Ground, names: Sequence[str], begin: int | None) -> bool:
    """Say whether there would be more rows if more were retained."""
    specs = (ground.catalog.stream(name) for name in names)
    since = (retained_since(each, ground.manifest, ground.catalog) for each in specs)
    return begin is not None and any(begin < each for each in since)


def _declare(ground: Ground, alone: Session, names: Collection[str] | None) -> None:
    """Declare what a query names; or all there is, without its rows, if it names what is not."""
    catalog = ground.catalog
    for name, function in ground.functions.items():
        alone.function(name, function, returns=type_name(ground.function_types[name]))
    for spec in catalog.streams.values():
        if names is None or spec.name in names:
            if spec.name == SYSSTREAM:  # it is there by its history, and tells nothing of this one
                alone.bind(sysstream_spec(), Feed(spec.schema))
            else:
                alone.stream(spec.name, Feed(spec.schema), time=spec.time, order=spec.order)
    for table in catalog.tables.values():
        if names is None or table.name in names:
            declared = alone.table(table.name, table.schema, key=table.key)
            if names is not None:
                declared.insert(ground.table_rows(table.name))
    for view in catalog.views.values():
        if names is None or view.name in names:
            alone.view(view.name, view.text, columns=view.columns)


def _parts(tables: dict[str, pa.Table]) -> Iterator[dict[str, pa.Table]]:
    """Yield the rows of all streams, stretch by stretch of time."""
    times = np.sort(np.concatenate([each.column(TIME).to_numpy() for each in tables.values()]))
    cuts = np.unique(times[ROWS_AT_ONCE::ROWS_AT_ONCE])
    bounds = {
        name: [0, *np.searchsorted(each.column(TIME).to_numpy(), cuts).tolist(), each.num_rows]
        for name, each in tables.items()
    }
    for at in range(len(cuts) + 1):
        yield {
            name: each.slice(bounds[name][at], bounds[name][at + 1] - bounds[name][at])
            .drop_columns([TIME])
            for name, each in tables.items()
        }  # fmt: skip


def _require_answers(query: Query) -> None:
    failure = query.failure
    if failure is not None:
        raise PlanError("the query fails on this history", detail=f"{failure['message']}.")
