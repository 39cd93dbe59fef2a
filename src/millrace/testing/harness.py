"""The crash harness: one process after another on one root, and what is there at the end.

    undisturbed   epoch 0, 1, 2, ... 28        before each: a copy of the root and of the sink
                              │                after each: everything that may not differ
    disturbed                 └─► open ─► crash ─► open ─► the same epoch again ─► ... compare

A process dies by an `InjectedCrash` at an armed failpoint: its objects are abandoned, its root
is taken away, and nothing is cleaned up. The next one gets the epoch that the dead one was in,
committed or not, as Spark would hand it out. Snapshots are taken every 8 epochs in place of
64, so that short runs meet them and all that follows from them; index files are merged as early.
"""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from millrace import failpoints
from millrace.connectors.sinks import ParquetSink
from millrace.connectors.sinks.sink import FANOUTS
from millrace.engine import publication, registry
from millrace.engine.decision import Identity
from millrace.engine.hidden import is_hidden
from millrace.engine.inprocess import InProcess
from millrace.engine.registry_state import named_files
from millrace.failpoints import InjectedCrash
from millrace.reading.changes import oldest_cursor
from millrace.session import Session
from millrace.session.template import Template
from millrace.state import expiry, log
from millrace.state.container import Container
from millrace.state.manifest import Manifest
from millrace.state.memory_root import MemoryRoot
from millrace.state.names import SNAPSHOTS, numbered
from millrace.state.root import Root
from millrace.state.run import read_piece
from millrace.state.run_store import load_manifest, manifest_log
from millrace.testing.bag import bag_of
from millrace.testing.configurations import Configuration, replaced
from millrace.testing.mortal_root import MortalRoot, copied
from millrace.testing.scenario import (
    FUNCTIONS,
    LIMIT_COLUMNS,
    LIMITS,
    PARAMETERS,
    Scenario,
)
from millrace.testing.spreading import spread
from millrace.time import ManualClock

SNAPSHOT_EVERY = 8
SMALLEST_LEVEL = 4
MANY = "many"
ROLL_EPOCHS = 5
KEEP_REJECTED = 200
QUERY = "the query of the harness"
NEVER = 1 << 60

_EQUAL_FACTS = ("clocks", "watermarks", "seen", "born", "idle", "counts", "digests", "query")


@dataclass(frozen=True, slots=True)
class Crash:
    """What happens in which epoch: the `after`-th passing of a point performs an action."""

    epoch: int
    point: str
    after: int = 1
    action: str = "raise"


class Process:
    """A program that runs the scenario on a root, from one epoch on, until it ends or dies."""

    def __init__(
        self, scenario: Scenario, how: Configuration, files: Root, directory: Path, epoch: int
    ) -> None:
        self.scenario, self.how, self.root = scenario, how, MortalRoot(files)
        self.clock = ManualClock(start=scenario.clock(epoch))
        self.session = Session(self.root, clock=self.clock, threads=False)
        self.engine = self.session.engine
        self._templates: dict[str, Template] = {}
        self._settle(epoch)
        for name, function in FUNCTIONS.items():
            self.session.function(name, function, returns="boolean")
        self.declare(epoch)
        for form in FANOUTS:
            queries = None if form == "rows" else (MANY, "all")
            self.session.sink(
                ParquetSink(
                    directory / form, queries, name=form, fan_out=form,
                    roll_epochs=ROLL_EPOCHS, roll_bytes=None, roll_every=None,
                )
            )  # fmt: skip
        self.engine.delivery.committed(self.engine.manifest)  # what `Session.start` does

    def step(self, epoch: int, *, spread_seed: object = "") -> None:
        """Do what is to be done in one epoch, or do it again."""
        self._settle(epoch)
        self.declare(epoch)
        self.engine.run(self.identity(epoch), self.execution(epoch, spread_seed=spread_seed))
        self.engine.delivery.pump()

    def declare(self, epoch: int) -> None:
        """Bring streams and queries to what they are in an epoch; done before, it does nothing."""
        session, catalog = self.session, self.engine.registry.catalog
        streams, queries = self.scenario.streams(epoch), self.scenario.queries(epoch)
        kept, templates = self.scenario.retained(epoch), self.scenario.templates
        known = {*queries, *kept, *templates}
        told = [name for name in catalog.feeds if not is_hidden(name)]
        for name in [each for each in told if each not in known]:
            session.change({"do": "drop feed", "name": name})
        for name in [each for each in catalog.streams if each not in streams]:
            session.drop_stream(name)
        for name in [each for each in streams if each not in catalog.streams]:
            session.stream(name, **streams[name])
        if self.scenario.plans:
            self._declare_limits(epoch)
        for name in [each for each in queries if each not in catalog.feeds]:
            session.query(queries[name], name=name)
        for name in [each for each in kept if each not in catalog.feeds]:
            text, how = kept[name]
            session.query(text, name=name, **how)
        for name, (_, how) in kept.items():
            session.standing(name).set_policy(how["policy"])
        for name, asked in templates.items():
            if name not in self._templates:
                self._templates[name] = session.template(name, asked, PARAMETERS)
            self._declare_rows(self._templates[name], epoch)

    def _declare_limits(self, epoch: int) -> None:
        """Bring the rows of the table to what they are in an epoch."""
        table = self.session.table(LIMITS, LIMIT_COLUMNS, key="tag")
        wanted = self.scenario.limits(epoch)
        gone = [row for row in table.rows().to_pylist() if wanted.get(row["tag"]) != row["least"]]
        if gone:
            table.delete(gone)
        table.insert_missing([{"tag": tag, "least": least} for tag, least in wanted.items()])

    def _declare_rows(self, template: Template, epoch: int) -> None:
        """Bring the rows of a template to what they are in an epoch."""
        wanted, paused = self.scenario.rows(epoch), self.scenario.paused(epoch)
        present = {row["slot"]: row for row in template.rows().to_pylist()}
        gone = [row["_query"] for slot, row in present.items() if slot not in wanted]
        other = [
            {**row, "low": wanted[slot]}
            for slot, row in present.items()
            if slot in wanted and row["low"] != wanted[slot]
        ]
        fresh = [{"slot": slot, "low": low} for slot, low in wanted.items() if slot not in present]
        if gone:
            template.delete(gone)
        if other:
            template.update(other)
        if fresh:
            template.insert(fresh)
        if gone or fresh:
            present = {row["slot"]: row for row in template.rows().to_pylist()}
        qids = {slot: row["_query"] for slot, row in present.items()}
        known = self.engine.registry.population.paused
        for do, some in (("pause", paused), ("resume", {*wanted} - paused)):
            changing = [
                qids[slot] for slot in sorted(some) if (qids[slot] in known) != (do == "pause")
            ]
            if changing:
                self.session.change({"do": do, "qids": changing})

    def identity(self, epoch: int) -> Identity:
        """Identify the input of an epoch."""
        return Identity(QUERY, epoch, self.scenario.digest(epoch))

    def execution(self, epoch: int, *, spread_seed: object = "") -> InProcess:
        """Deal the rows of an epoch out to tasks; with the same seed, in the same way."""
        random = Random(f"{epoch} {spread_seed}")
        catalog = self.engine.registry.catalog
        tasks = [
            task
            for name, partitions in self.scenario.arrivals(epoch).items()
            for task in spread(catalog.stream(name), partitions, self.how.n_tasks, random)
        ]
        return InProcess(self.root, tasks, FUNCTIONS, self.how.arranged)

    def observe(self) -> dict[str, Any]:
        """Return everything that may not depend on crashes."""
        session, manifest = self.session, self.engine.manifest
        catalog = self.engine.registry.catalog
        found: dict[str, Any] = {fact: manifest.facts.get(fact) for fact in _EQUAL_FACTS}
        found |= {"epoch": manifest.epoch, "catalog": catalog.to_json()}
        population = self.engine.registry.population
        found["names"] = dict(population.names)
        found["paused"] = set(population.paused)
        found["generations"] = dict(population.generations)
        queries = {qid: population.find(qid) for qid in range(catalog.next_qid)}
        found["queries"] = {qid: each for qid, each in queries.items() if each}
        found["suspended"] = sorted(manifest.facts["suspended"])
        found["dead"] = bag_of(session.dead_letters())
        answers = []
        for name in self.scenario.retained(manifest.epoch):
            found[f"results {name}"] = bag_of(session.standing(name).results())
            answers.append(found[f"results {name}"])
            found[f"cursor {name}"] = oldest_cursor(manifest, catalog.feed(name))
        assert all(each == answers[0] for each in answers), "the same in all policies"
        for name, stream in catalog.streams.items():
            found[f"late {name}"] = bag_of(session.late_rows(name))
            if stream.retain is not None:
                found[f"history {name}"] = bag_of(session.history(name))
        return found

    def close(self) -> None:
        """End as a program should: everything committed is delivered."""
        self.session.close()

    def die(self) -> None:
        """End as by SIGKILL."""
        self.root.die()

    def _settle(self, epoch: int) -> None:
        settings = self.how.settings_of(epoch)
        self.engine.settings = replace(
            settings,
            keep_rejected=KEEP_REJECTED,
            merge_at_start=True,
            strategy=self.scenario.strategy,
        )
        self.clock.set(self.scenario.clock(epoch))


@dataclass(slots=True, repr=False)
class Record:
    """An undisturbed run: what was there before and after each epoch, and at the end."""

    scenario: Scenario
    how: Configuration
    before: list[tuple[MemoryRoot, dict[str, bytes]]] = field(default_factory=list)
    after: list[dict[str, Any]] = field(default_factory=list)
    passings: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    delivered: dict[str, bytes] = field(default_factory=dict)
    n_files: int = 0

    @property
    def unreached(self) -> set[str]:
        """The failpoints that were never passed."""
        return set(failpoints.POINTS) - set(self.passings)


def undisturbed(scenario: Scenario, how: Configuration, directory: Path) -> Record:
    """Run the scenario from its first epoch to its last in one process."""
    record, files = Record(scenario, how), MemoryRoot()
    with conditions(how):
        process = Process(scenario, how, files, directory, 0)
        for epoch in range(scenario.n_epochs):
            record.before.append((copied(files), contents(directory)))
            _count_passings()
            process.step(epoch)
            for point in failpoints.POINTS:
                passed = range(1, failpoints.passed(point) + 1)
                record.passings.setdefault(point, []).extend((epoch, nth) for nth in passed)
            failpoints.disarm()
            record.after.append(process.observe())
        process.close()
    record.passings = {point: each for point, each in record.passings.items() if each}
    record.delivered, record.n_files = contents(directory), len(files.list(""))
    return record


class Disturbed:
    """A run with crashes, from the epoch of the first one on.

    Crashes of one epoch follow one another: the second may hit the recovery from the first. If
    `moved`, an epoch that is run again finds its rows in other tasks than before. `happened`
    lists the points at which something really did.
    """

    def __init__(
        self, record: Record, crashes: Sequence[Crash], directory: Path, *, moved: bool = False
    ) -> None:
        self.record, self.crashes, self.directory = record, crashes, directory
        self.moved = moved
        self.happened: list[str] = []
        files, delivered = record.before[crashes[0].epoch]
        self.files = copied(files)
        fill(directory, delivered)
        with conditions(record.how):
            self.process: Process | None = self._opened(max(crashes[0].epoch - 1, 0))
            self.process.engine.delivery.pump()  # so that sinks stand where they stood

    def run(self, stop: int | None = None) -> Process:
        """Run to the epoch before `stop`, or to the end of the scenario; return who got there."""
        begin, end = self.crashes[0].epoch, self.record.scenario.n_epochs
        with conditions(self.record.how):
            for epoch in range(begin, end if stop is None else min(stop, end)):
                self._pass(epoch)
        assert self.process is not None
        return self.process

    def _pass(self, epoch: int) -> None:
        """Run one epoch until it has succeeded, with all its crashes."""
        pending = [each for each in self.crashes if each.epoch == epoch]
        for attempt in range(len(pending) + 1):
            crash = pending[attempt] if attempt < len(pending) else None
            if crash is not None:
                failpoints.arm(crash.point, crash.action, after=crash.after)
            seed = attempt if self.moved and attempt else ""
            try:
                self.process = self.process or self._opened(epoch)
                self.process.step(epoch, spread_seed=seed)
            except InjectedCrash:
                self._die()
            except OSError as error:
                if "injected" not in str(error):
                    raise
            finally:
                if crash is not None and failpoints.passed(crash.point) >= crash.after:
                    self.happened.append(crash.point)
                failpoints.disarm()

    def _opened(self, epoch: int) -> Process:
        record = self.record
        return Process(record.scenario, record.how, self.files, self.directory, epoch)

    def _die(self) -> None:
        if self.process is not None:
            self.process.die()
        self.process = None


def check_sound(files: Root, *, snapshots_too: bool = True) -> None:
    """Check that every file which a kept manifest names is there, and can be read.

    Without `snapshots_too` only the newest manifest counts: an engine that was replaced between
    its last check and its snapshot leaves one that is older than the newer engine's deletions.
    It does no harm, since what is read is always the manifest after the last commit.
    """
    kept = manifest_log(files).kept_snapshots() if snapshots_too else []
    snapshots = [numbered(SNAPSHOTS, each) for each in kept]
    manifests = [
        load_manifest(files),
        *(Manifest.from_json(Container.open(files, name).meta) for name in snapshots),
    ]
    present = {entry.name for entry in files.list("")}
    for manifest in manifests:
        missing = manifest.files() - present
        assert not missing, f"manifest {manifest.epoch} names {sorted(missing)}"
    for piece in manifests[0].pieces():
        read_piece(files, piece)
    newest = files.list(f"{registry.SNAPSHOTS}/")[-log.KEPT_SNAPSHOTS :]
    registries = [entry.name for entry in newest]
    catalogs = [entry.name for entry in files.list(f"{publication.CATALOGS}/")]
    for name in [*registries, *(catalogs if snapshots_too else catalogs[-1:])]:
        lost = set(named_files(Container.open(files, name).meta)) - set(present)
        assert not lost, f"{name} names {sorted(lost)}"


def differences(found: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Say briefly what differs between two observations, or two directories' contents.

    pytest would compare the whole of them word by word, which takes minutes.
    """
    named = sorted({*found, *expected})
    return [
        f"{name}: {_told(found.get(name), expected.get(name))}"
        for name in named
        if found.get(name) != expected.get(name)
    ]


def _told(found: object, expected: object) -> str:
    if isinstance(found, Counter) and isinstance(expected, Counter):
        found, expected = found - expected, expected - found
    return f"found {found!r:.300}, expected {expected!r:.300}"


def contents(directory: Path) -> dict[str, bytes]:
    """Read every finished file below a directory."""
    found = sorted(glob.glob("*/*/*.parquet", root_dir=directory))  # noqa: PTH207  half the time
    return {name: (directory / name).read_bytes() for name in found}


def fill(directory: Path, files: dict[str, bytes]) -> None:
    """Write files below a directory; the opposite of `contents`."""
    for name, data in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_bytes(data)


@contextmanager
def conditions(how: Configuration) -> Iterator[None]:
    """Apply a configuration, and take snapshots often."""
    places = (
        (log, "EVERY", SNAPSHOT_EVERY),
        (expiry, "MAX_INLINE_AGE", SNAPSHOT_EVERY),
        (registry, "MOST_ENTRIES", 1),  # when a snapshot is due does not depend on restarts
        (publication, "SMALLEST_LEVEL", SMALLEST_LEVEL),
    )
    with replaced(places), how.applied():
        yield


def _count_passings() -> None:
    for point in failpoints.POINTS:
        failpoints.arm(point, "raise", after=NEVER)
