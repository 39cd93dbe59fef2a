"""What `millrace run` says of a run: a line now and then, and a summary at its end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from millrace.cli.terminal import counted, print_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millrace.engine.backend import Run
    from millrace.session import Session


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a root has seen so far."""

    epochs: int = 0
    rows: int = 0
    results: int = 0
    dead: int = 0
    late: int = 0

    @classmethod
    def of(cls, session: Session) -> Counts:
        """Read the counts of a session's root."""
        manifest = session.engine.manifest
        found = manifest.facts.get("counts", {})
        names = ("rows", "results", "dead", "late")
        return cls(manifest.epoch + 1, *(int(found.get(name, 0)) for name in names))

    def since(self, before: Counts) -> Counts:
        """Return what came since then."""
        return Counts(
            self.epochs - before.epochs,
            self.rows - before.rows,
            self.results - before.results,
            self.dead - before.dead,
            self.late - before.late,
        )

    @property
    def aside(self) -> str:
        """What was set aside, in words; empty if nothing was."""
        parts = []
        if self.dead:
            parts.append(counted(self.dead, "dead letter"))
        if self.late:
            parts.append(counted(self.late, "late row"))
        return ", ".join(parts)


def status_line(session: Session, run: Run, before: Counts, last: Counts, window: float) -> str:
    """Say how it goes since `last`, `window` seconds ago, and what is not as it should be."""
    return "  ".join([_pace(session, before, last, window), *troubles(session, run)])


def troubles(session: Session, run: Run) -> Iterator[str]:
    """Say what holds up streams, epochs or sinks now."""
    for name, outage in run.outages.items():
        lasts = print_seconds(time.time() - outage.since)
        yield f'stream "{name}" waits for its directory, for {lasts} now'
    if session.engine.trouble:
        yield f"trying the epoch again: {session.engine.trouble}"
    for words, _ in sink_troubles(session):
        yield words


def sink_troubles(session: Session) -> Iterator[tuple[str, str]]:
    """Say which sinks do not take what they should, and the last error of each."""
    for sink in session.sinks():
        if sink.state != "running":
            # What a sink has promised to publish, and fails to, waits with the sink itself.
            n_waiting = sink.backlog_rows
            waits = f", {counted(n_waiting, 'row')} wait for it" if n_waiting else ""
            error = sink.error.split("\n", 1)[0]
            yield f'sink "{sink.name}" is {sink.state}{waits}', error


def _pace(session: Session, before: Counts, last: Counts, window: float) -> str:
    now = Counts.of(session)
    so_far, recent = now.since(before), now.since(last)
    if not so_far.epochs:
        return "waiting for the first epoch"
    newest = [each for each in session.statistics() if each.epoch >= last.epochs]
    took = max((each.total_seconds for each in newest), default=0.0)
    stand = session.engine.registry.population.n_rows
    parts = [
        f"epoch {session.engine.manifest.epoch:,}",
        f"{recent.rows / window:,.0f} rows/s",
        f"{recent.results / window:,.0f} matches/s",
        f"{stand:,} standing queries",
        f"longest epoch {print_seconds(took)}",
        so_far.aside,
    ]
    return "  ".join(part for part in parts if part)


def summary(counts: Counts, root: str) -> Iterator[str]:
    """Say what a run did, and where to look for what it set aside."""
    done = (counted(counts.epochs, "epoch"), counted(counts.rows, "row"))
    yield f"{', '.join(done)}, {counted(counts.results, 'match', 'matches')}"
    if counts.dead:
        what = f"{counted(counts.dead, 'dead letter')} set aside"
        yield f"{what}: see `millrace inspect {root} --dead-letters`"
    if counts.late:
        yield f"{counted(counts.late, 'late row')} set aside: see `millrace inspect {root} --late`"
