"""Dry runs: what a query would have answered, had it stood while the rows that are retained came.

A session in memory declares the same streams, tables, views and functions, registers the query, and
is fed with what the streams retain, oldest first. So whatever can stand can be tried, it is run by
the code that would run it, and it leaves no trace.

Cost: that of the rows themselves, read and answered in this process; no more of them, and for no
longer, than the limits say. If not all was tried, the number of results is one "at least".
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.engine.streams import SYSSTREAM
from millrace.engine.sysstream import sysstream_spec
from millrace.errors import PlanError
from millrace.plan.nodes import Selection
from millrace.plan.relations import StreamOf
from millrace.reading.history import history, newest_time, retained_since
from millrace.reading.tried import DryRun
from millrace.schema import type_name
from millrace.session.planning import bound_any, sources_of
from millrace.session.query import Query
from millrace.state.memory_root import MemoryRoot
from millrace.state.order import TIME
from millrace.time import to_micros

if TYPE_CHECKING:
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


def dry_run(
    session: Session, text: str, over: str | int | None = None, limits: Limits | None = None
) -> DryRun:
    """Try a query on what its streams retain, of the last `over`, or all."""
    begun, allowed = time.perf_counter(), limits or Limits()
    names = streams_read(session, text)
    tables, partial = _histories(session, names, None if over is None else to_micros(over))
    tried = 0
    how = Settings(shards=1, spread="never", merging=False)
    with type(session)(MemoryRoot(), threads=False, settings=how) as alone:
        _declare(session, alone, names)
        query = alone.query(text, name=_NAME, keep=SAMPLE_ROWS, unbounded=True)
        run = alone.start()
        assert isinstance(run, LocalRun), "it runs in this process"
        n_results = 0
        for part in _parts(tables):
            n_rows = sum(each.num_rows for each in part.values())
            spent = time.perf_counter() - begun
            if tried and (tried + n_rows > allowed.rows or spent > allowed.seconds):
                break
            n_results += run.feed(**part).results
            tried += n_rows
        _require_answers(query)
        sample = query.results(SAMPLE_ROWS).drop_columns(["_epoch"])
    whole = sum(each.num_rows for each in tables.values())
    seconds = time.perf_counter() - begun
    return DryRun(n_results, sample, seconds, tried, whole, partial)


def streams_read(session: Session, text: str) -> list[str]:
    """Return the streams that a query reads."""
    return _streams_of(bound_any(text, session))


def _streams_of(bound: Selection | BoundRelation) -> list[str]:
    if isinstance(bound, Selection):
        return [bound.stream]
    plan = bound.plan if isinstance(bound.plan, StreamOf) else StreamOf("istream", bound.plan)
    return list(dict.fromkeys(sources_of(plan)))


def _histories(
    session: Session, names: list[str], over: int | None
) -> tuple[dict[str, pa.Table], bool]:
    """Return the rows of streams, and whether there would be more if more were retained."""
    engine, partial, found = session.engine, False, {}
    catalog, manifest = engine.registry.catalog, engine.manifest
    now = newest_time(tuple(names), manifest, catalog)
    for name in names:
        spec = catalog.stream(name)
        if spec.retain is None:
            raise PlanError(
                f'stream "{name}" keeps no history to try a query on',
                hint="Declare the stream with RETAIN 1 HOUR, or so.",
            )
        begin = None if over is None else now - over
        partial |= begin is not None and begin < retained_since(spec, manifest, catalog)
        found[name] = history(engine.root, manifest, catalog, name, begin)
    return found, partial


def _declare(session: Session, alone: Session, names: list[str]) -> None:
    """Declare all that a query may name; streams that it does not read are there by name."""
    catalog = session.engine.registry.catalog
    for name, function in session.functions.items():
        alone.function(name, function, returns=type_name(session.function_types[name]))
    for spec in catalog.streams.values():
        if spec.name == SYSSTREAM:  # it is there by its history, and tells nothing of this engine
            alone.bind(sysstream_spec(), Feed(spec.schema))
            continue
        order = spec.order if spec.name in names else ()
        alone.stream(spec.name, Feed(spec.schema), time=spec.time, order=order)
    for table in catalog.tables.values():
        rows = session.standing_table(table.name).rows()
        alone.table(table.name, table.schema, key=table.key).insert(rows)
    for view in catalog.views.values():
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
