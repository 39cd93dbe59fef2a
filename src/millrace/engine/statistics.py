"""Statistics of an epoch: what it handled, how long each stage took, what it left behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from millrace.engine.decision import Decision
from millrace.engine.receipt import Receipt
from millrace.engine.streams import SYSSTREAM
from millrace.state.manifest import Delta, Manifest


@dataclass(frozen=True, slots=True)
class EpochStatistics:
    """One row of the statistics; times in seconds, instants in us.

    Parameters
    ----------
    seconds
        The stages: `decide` (and log), `run` (the tasks, as the driver sees them), `commit`, and
        inside `run` the tasks' own `receive`, `select`, `retain`, `sort`, `merge`, `write`,
        summed over tasks.
    rows, bytes, late, dead
        Of all streams but the one on which the engine tells of itself.
    results, results_by_query
        Answers, in all and by feed. A row that is told to several queries is one of each.
    results_by_stream, select_by_stream
        What the index over each stream found, and the seconds that this took, summed over tasks.
    lag
        For each stream, how far its watermark is behind the wall clock, in us.
    """

    epoch: int
    attempt: int
    started: int
    spread: bool
    rows: int = 0
    bytes: int = 0
    late: int = 0
    dead: int = 0
    results: int = 0
    rows_by_stream: dict[str, int] = field(default_factory=dict)
    results_by_query: dict[str, int] = field(default_factory=dict)
    results_by_stream: dict[str, int] = field(default_factory=dict)
    select_by_stream: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    bytes_sent: int = 0
    bytes_written: int = 0
    runs_added: int = 0
    runs: int = 0
    runs_rows: int = 0
    merges: int = 0
    merged_rows: int = 0
    lag: dict[str, int] = field(default_factory=dict)

    @property
    def total_seconds(self) -> float:
        """How long the epoch took in the driver, from its call to its commit."""
        return sum(self.seconds.get(stage, 0.0) for stage in ("decide", "run", "commit"))

    def to_json(self) -> dict[str, Any]:
        """Spell it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(**spelt)


def measure(
    decision: Decision,
    receipts: list[Receipt],
    manifest: Manifest,
    delta: Delta,
    seconds: dict[str, float],
) -> EpochStatistics:
    """Sum up an epoch from its receipts; `manifest` is the one before it."""
    tallies = [each for receipt in receipts for each in receipt.tallies]
    by_stream: dict[str, int] = {}
    found_by_stream: dict[str, int] = {}
    select_by_stream: dict[str, float] = {}
    for tally in tallies:
        name, seconds_of = tally.stream, tally.seconds.get("select", 0.0)
        by_stream[name] = by_stream.get(name, 0) + tally.rows
        if name:  # plans have a tally without a stream
            found_by_stream[name] = found_by_stream.get(name, 0) + tally.results
            select_by_stream[name] = round(select_by_stream.get(name, 0.0) + seconds_of, 6)
    by_query: dict[str, int] = {}
    for tally in tallies:
        for feed, n_found in tally.found.items():
            by_query[feed] = by_query.get(feed, 0) + n_found
    marks: dict[str, int] = delta.facts.get("watermarks", {})
    stages = [*(each.seconds for each in tallies), *(each.seconds for each in receipts)]
    came = [each for each in tallies if each.stream != SYSSTREAM]
    return EpochStatistics(
        epoch=decision.identity.epoch,
        attempt=decision.attempt,
        started=decision.clock,
        spread=decision.spread,
        rows=sum(each.rows for each in came),
        bytes=sum(each.bytes for each in came),
        late=sum(each.late for each in came),
        dead=sum(each.dead for each in came),
        results=sum(each.results for each in tallies),
        rows_by_stream=by_stream,
        results_by_query=by_query,
        results_by_stream=found_by_stream,
        select_by_stream=select_by_stream,
        seconds={**seconds, **_summed(stages)},
        bytes_sent=sum(each.sent for each in tallies),
        bytes_written=sum(each.bytes_written for each in receipts),
        runs_added=sum(len(runs) for runs in delta.added.values()),
        runs=sum(len(store.runs) for store in manifest.stores.values()),
        runs_rows=sum(store.rows for store in manifest.stores.values() if not store.queue),
        merges=len(decision.merges),
        merged_rows=sum(each.rows for each in decision.merges),
        lag={stream: decision.clock - mark for stream, mark in marks.items()},
    )


def _summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    total: dict[str, float] = {}
    for part in parts:
        for stage, seconds in part.items():
            total[stage] = round(total.get(stage, 0.0) + seconds, 6)
    return total
