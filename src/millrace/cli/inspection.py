"""What can be read out of a root, as plain data: for people as a page, for programs as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from millrace.cli.reading import engine_of
from millrace.connectors.sinks.sink import FANOUTS
from millrace.engine import facts
from millrace.engine.catalog import Catalog
from millrace.engine.cursor import CURSORS, Cursor, sinks_with_cursors
from millrace.engine.publication import CATALOGS
from millrace.engine.registry import Registry, read_catalog
from millrace.engine.results import amount, waiting
from millrace.engine.statistics import EpochStatistics
from millrace.index.build import Standing
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
    """A query, a template or a feed that queries share: what is asked, and whether it runs.

    `queries` counts those that stand, and `state` says how many of them run; `why` says why one
    does not. Of a feed that queries share, `text` is what the largest of its `families` asks.
    """

    name: str
    kind: str
    queries: int
    families: int
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
    index_files: dict[str, int]
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
    registry = Registry.open(root)
    catalog = registry.catalog
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
        index_files=_index_files(root),
        streams=_streams(manifest, catalog, now),
        queries=_queries(manifest, registry, sinks),
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


def _queries(manifest: Manifest, registry: Registry, sinks: list[SinkFacts]) -> list[QueryFacts]:
    """Describe what is asked; answers that every sink has passed do not wait, but are kept."""
    attached = [each.next_epoch for each in sinks if not each.detached]
    passed = min(attached, default=manifest.epoch + 1)
    held = _waiting_rows(manifest, passed)
    members = _members(registry)
    verdicts = facts.suspended(manifest, registry.population.generations)
    paused = np.array(sorted(registry.population.paused), np.uint64)
    suspended = np.array(sorted(verdicts), np.uint64)
    found = []
    for name, feed in registry.catalog.feeds.items():
        if feed.kind == "family":
            continue  # its queries have feeds of their own
        families = members.get(name, [])
        rows = [each for some in families for each in some]
        qids = np.concatenate([np.zeros(0, np.uint64), *(each.qids for each in rows)])
        failed = qids[np.isin(qids, suspended)]
        n_paused = int(np.isin(qids, paused).sum() - np.isin(failed, paused).sum())
        found.append(
            QueryFacts(
                name,
                feed.kind,
                int(qids.size),
                len(families),
                feed.text or (str(families[0][0].selection) if families else ""),
                _state(int(qids.size), failed.size, n_paused),
                _why(verdicts, failed.tolist()),
                held.get(name, 0),
            )
        )
    return found


def _members(registry: Registry) -> dict[str, list[list[Standing]]]:
    """Return the queries of each feed, a family after the other, the largest first."""
    population, families = registry.population, registry.catalog.families
    found: dict[str, dict[str, list[Standing]]] = {}
    for stream in population.blocks:
        for each in population.standing(stream, families):
            if each.qids.size:
                found.setdefault(each.feed, {}).setdefault(each.key, []).append(each)

    def size(family: list[Standing]) -> int:
        return sum(each.qids.size for each in family)

    return {feed: sorted(some.values(), key=size, reverse=True) for feed, some in found.items()}


def _waiting_rows(manifest: Manifest, passed: int) -> dict[str, int]:
    """Count the answers of each feed, in whatever form, from an epoch on."""
    found: dict[str, int] = {}
    for form in FANOUTS:
        for answers in waiting(manifest, None, passed, form).values():
            for each in answers:
                found[each.query] = found.get(each.query, 0) + amount([each]).n_rows
    return found


def _state(n_queries: int, n_suspended: int, n_paused: int) -> str:
    """Say in a word, or for several queries in numbers, whether they run."""
    if n_queries == n_suspended + n_paused and n_queries:
        return "suspended" if n_suspended else "paused"
    if not n_suspended and not n_paused:
        return "running"
    counts = [(n_suspended, "suspended"), (n_paused, "paused")]
    out = ", ".join(f"{n:,} {word}" for n, word in counts if n)
    return f"{n_queries - n_suspended - n_paused:,} of {n_queries:,} running, {out}"


def _why(verdicts: Mapping[int, Mapping[str, Any]], failed: list[int]) -> str:
    if not failed:
        return ""
    verdict = verdicts[failed[0]]
    return f"{verdict['code']}: {verdict['message']}"


def _index_files(root: Root) -> dict[str, int]:
    """Count the files in which the tasks of the newest catalog find queries, by stream."""
    published = root.list(f"{CATALOGS}/")
    if not published:
        return {}
    try:
        catalog = read_catalog(root, published[-1].name)
    except MissingError:
        return {}
    return {stream: len(files) for stream, files in catalog.index.items()}


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
