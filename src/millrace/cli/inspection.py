"""What can be read out of a root, as plain data: for people as a page, for programs as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.cli.reading import engine_of
from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.cursor import CURSORS, Cursor, sinks_with_cursors
from millrace.engine.registry import Registry
from millrace.engine.results import total, waiting
from millrace.engine.statistics import EpochStatistics
from millrace.state.lease import Lease, written
from millrace.state.manifest import Manifest, StoreState
from millrace.state.names import COMMITS, SNAPSHOTS, MissingError, number_of
from millrace.state.root import Root
from millrace.state.run_store import load_manifest
from millrace.time import WallClock


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """A stream: its declaration, and how far its time has come (us; None: no row yet)."""

    name: str
    declaration: str
    watermark: int | None
    behind: int | None
    partitions: int


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A query: what it asks, and whether it runs; `why` says why it does not."""

    name: str
    text: str
    state: str
    why: str
    waiting_rows: int


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A store; bytes are those of its live rows in memory."""

    name: str
    runs: int
    rows: int
    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class SinkFacts:
    """A sink's cursor; `behind` counts the epochs with answers that wait for it."""

    name: str
    next_epoch: int
    behind: int
    skipped_rows: int
    skipped_epochs: int
    detached: bool


@dataclass(frozen=True, slots=True)
class Inspection:
    """A root at one moment."""

    uri: str
    engine: str | None
    epoch: int
    term: int
    committed_ago: float | None
    files: int
    bytes: int
    snapshots: int
    readers: int
    counts: dict[str, int]
    streams: list[StreamFacts]
    queries: list[QueryFacts]
    stores: list[StoreFacts]
    sinks: list[SinkFacts]
    statistics: dict[str, Any] | None

    @property
    def last(self) -> EpochStatistics | None:
        """The statistics of the last epoch."""
        return None if self.statistics is None else EpochStatistics.from_json(self.statistics)


def inspect(root: Root) -> Inspection:
    """Read a root; a lease must be held, and our own is not counted."""
    now = WallClock().now()
    entries = root.list("")
    manifest = load_manifest(root)
    catalog = Registry.open(root).catalog
    engine, sinks = engine_of(root), _sinks(root, manifest)
    commits = [each for each in entries if each.name.startswith(f"{COMMITS}/")]
    newest = max((each.modified for each in commits), default=None)
    return Inspection(
        uri=root.uri,
        engine=None if engine is None else str(engine),
        epoch=manifest.epoch,
        term=manifest.term,
        committed_ago=None if newest is None else max(now / 1e6 - newest, 0.0),
        files=len(entries),
        bytes=sum(each.size for each in entries),
        snapshots=sum(each.name.startswith(f"{SNAPSHOTS}/") for each in entries),
        readers=len(_readers(root, now / 1e6)),
        counts=dict(manifest.facts.get("counts", {})),
        streams=_streams(manifest, catalog, now),
        queries=_queries(manifest, catalog, min((s.next_epoch for s in sinks), default=0)),
        stores=[_store(name, store) for name, store in sorted(manifest.stores.items())],
        sinks=sinks,
        statistics=manifest.facts.get("statistics"),
    )


def _streams(manifest: Manifest, catalog: Catalog, now: int) -> list[StreamFacts]:
    marks, clocks = facts.watermarks(manifest, catalog), facts.clocks(manifest, catalog)
    found = []
    for name, spec in catalog.streams.items():
        mark = marks.get(name)
        behind = None if mark is None else now - mark
        found.append(StreamFacts(name, str(spec), mark, behind, len(clocks.get(name, {}))))
    return found


def _queries(manifest: Manifest, catalog: Catalog, passed: int) -> list[QueryFacts]:
    """Describe the queries; answers before epoch `passed` have reached every sink."""
    verdicts = facts.suspended(manifest, catalog)
    found = []
    for name, spec in catalog.queries.items():
        verdict = verdicts.get(spec.qid)
        state = "suspended" if verdict else "paused" if spec.paused else "running"
        why = f"{verdict['code']}: {verdict['message']}" if verdict else ""
        held = total(waiting(manifest, (name,), passed)).n_rows
        found.append(QueryFacts(name, str(spec.selection), state, why, held))
    return found


def _store(name: str, store: StoreState) -> StoreFacts:
    pieces = [piece for run in store.runs for piece in run.pieces]
    n_bytes = sum(piece.bytes for piece in pieces)
    return StoreFacts(name, len(store.runs), store.rows, n_bytes, len({p.file for p in pieces}))


def _sinks(root: Root, manifest: Manifest) -> list[SinkFacts]:
    found = []
    for name in sinks_with_cursors(root):
        cursor = _newest_cursor(root, name)
        if cursor is None:
            continue
        behind = manifest.epoch + 1 - cursor.next_epoch
        found.append(
            SinkFacts(
                name,
                cursor.next_epoch,
                max(behind, 0),
                cursor.skipped_rows,
                cursor.skipped_epochs,
                cursor.detached is not None,
            )
        )
    return found


def _newest_cursor(root: Root, sink: str) -> Cursor | None:
    """Read a sink's newest record; an engine may remove old ones meanwhile."""
    for entry in reversed(root.list(f"{CURSORS}/{sink}/")):
        try:
            return Cursor.from_json(number_of(entry.name) or 0, root.get(entry.name))
        except MissingError:
            continue
    return None


def _readers(root: Root, now: float) -> list[Lease]:
    """List the leases in force; unlike the engine, leave the others where they are."""
    return [lease for lease in written(root) if lease.expires > now]
