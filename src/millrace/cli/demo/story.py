"""The story so far: what the viewer has heard from the drivers, ready to be drawn.

Nothing here knows a terminal. The conductor tells the story what happens, the views read it.
Instants are seconds since the demonstration began.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from millrace.cli.demo import alerts
from millrace.cli.demo.questions import QUESTIONS, STREAM
from millrace.cli.demo.trades import Ledger
from millrace.engine.statistics import EpochStatistics

Phase: TypeAlias = Literal["starting", "running", "killed", "restarting", "finishing", "checking"]
Tone: TypeAlias = Literal["plain", "bad", "good"]

SHOWN = (*(each.name for each in QUESTIONS), alerts.NAME)
RECENT = 200
NEWEST = 4
NOTABLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Happening:
    """Something worth a line."""

    at: float
    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Epoch:
    """A committed epoch: when we heard of it, and how long it took."""

    at: float
    seconds: float
    rows: int
    matches: int = 0


@dataclass(slots=True)
class Outage:
    """From the kill to the first epoch after it."""

    began: float
    epoch: int
    ended: float | None = None
    spark_seconds: float = 0.0


@dataclass(slots=True)
class Story:
    """Everything that a view shows."""

    ledger: Ledger
    seconds: float
    console: str = ""
    phase: Phase = "starting"
    pid: int = 0
    ready: float | None = None
    spark_up: bool = False
    spark_seconds: float = 0.0
    compiled: bool = False
    opened: bool = False
    happenings: list[Happening] = field(default_factory=list)
    epochs: deque[Epoch] = field(default_factory=lambda: deque(maxlen=5_000))
    delays: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=5_000))
    last: EpochStatistics | None = None
    state: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    heard_of: dict[str, int] = field(default_factory=dict)
    newest: dict[str, deque[dict[str, Any]]] = field(
        default_factory=lambda: {each: deque(maxlen=NEWEST) for each in SHOWN}
    )
    merges: int = 0
    dead_letter: tuple[str, str] = ("", "")
    outage: Outage | None = None
    _began: float = field(default_factory=time.monotonic)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began

    @property
    def running_for(self) -> float:
        """Seconds since the first epoch."""
        return 0.0 if self.ready is None else self.now - self.ready

    @property
    def counts(self) -> dict[str, int]:
        """Totals since the root was made."""
        return dict(self.state.get("counts", {}))

    @property
    def waiting(self) -> int:
        """Lines that are written and not yet in an epoch."""
        return max(self.ledger.n_lines - self.counts.get("rows", 0), 0)

    @property
    def lag(self) -> float:
        """How far the watermark was behind the clock in the last epoch, in seconds."""
        return 0.0 if self.last is None else self.last.lag.get(STREAM, 0) / 1e6

    def tell(self, text: str, tone: Tone = "plain") -> None:
        """Add a line to what happened."""
        self.happenings.append(Happening(self.now, text, tone))

    def hear(self, document: dict[str, Any]) -> None:
        """Take in what a driver reports."""
        match document["event"]:
            case "spark":
                self._spark(document["seconds"])
            case "compiled":
                self._compiled(document["seconds"])
            case "root":
                self._root_open(document["seconds"], document["epoch"])
            case "open":
                self.opened = True
            case "epoch":
                self._epoch(document)
            case "answers":
                self._answered(document)
            case "dead":
                self.dead_letter = (document["reason"], document["raw"])

    def killed(self) -> None:
        """Note that the driver was killed now."""
        epoch = 0 if self.last is None else self.last.epoch + 1
        self.outage = Outage(self.now, epoch)
        self.phase = "killed"
        self.tell(f"SIGKILL: driver process {self.pid} is dead, in epoch {epoch}", "bad")

    def rate(self, window: float = 2.0) -> float:
        """Rows a second that were committed lately."""
        recent = [each.rows for each in self.epochs if each.at > self.now - window]
        return sum(recent) / window

    def match_rate(self, window: float = 2.0) -> float:
        """Matches a second that were committed lately."""
        recent = [each.matches for each in self.epochs if each.at > self.now - window]
        return sum(recent) / window

    def epoch_seconds(self) -> list[float]:
        """How long the last epochs took."""
        return [each.seconds for each in list(self.epochs)[-RECENT:]]

    def _spark(self, seconds: float) -> None:
        self.spark_up, self.spark_seconds = True, seconds
        if self.outage is not None and self.outage.ended is None:
            self.outage.spark_seconds = seconds
            self.tell(f"Spark started again in {seconds:.1f} s")
        else:
            self.tell(f"Spark started in {seconds:.1f} s")

    def _root_open(self, seconds: float, epoch: int) -> None:
        if self.outage is not None and self.outage.ended is None:
            self.tell(f"the root is open after {seconds:.1f} s: epochs up to {epoch} are committed")

    def _compiled(self, seconds: float) -> None:
        self.compiled = True
        if self.ready is None and seconds > NOTABLE_SECONDS + self.spark_seconds:
            self.tell("the kernels are compiled; the next start finds them on the disk")

    def _epoch(self, document: dict[str, Any]) -> None:
        statistics = EpochStatistics.from_json(document["statistics"])
        self.last, self.state = statistics, document
        self.merges += statistics.merges
        if self.ready is not None:
            self.epochs.append(
                Epoch(self.now, statistics.total_seconds, statistics.rows, statistics.results)
            )
        elif statistics.rows:  # a warm-up, which is not measured
            self.ready = self.now
            self.phase = "running"
            self.tell("the first rows are committed; the market opens")
        if self.outage is not None and self.outage.ended is None:
            self._recovered(self.outage, statistics)

    def _recovered(self, outage: Outage, statistics: EpochStatistics) -> None:
        outage.ended = self.now
        self.phase = "running"
        took = outage.ended - outage.began
        spark = f" ({outage.spark_seconds:.1f} s of it Spark's start)"
        self.tell(f"recovered in {took:.1f} s{spark}, at epoch {statistics.epoch}", "good")

    def _answered(self, document: dict[str, Any]) -> None:
        query, epoch = document["query"], document["epoch"]
        if epoch <= self.heard_of.get(query, -1):  # a callback may come again after a crash
            return
        self.heard_of[query] = epoch
        self.newest[query].extend(document["newest"])
        self.answers[query] = self.answers.get(query, 0) + document["n_rows"]
        written = self.ledger.moment_of(document["first"])
        if written is not None and self.epochs:
            self.delays.append((self.now, time.monotonic() - written))


def doing(story: Story) -> str:
    """Say what is going on now, in a few words."""
    outage = story.outage
    match story.phase:
        case "starting":
            return f"{_starting(story)} ({story.now:.0f} s)"
        case "killed":
            return f"killing the driver (SIGKILL, process {story.pid})"
        case "restarting":
            since = 0.0 if outage is None else story.now - outage.began
            step = "recovering from the root" if story.spark_up else "restarting: Spark starts"
            return f"{step} ({since:.0f} s; {story.waiting:,} trades wait)"
        case "finishing":
            return f"the market is closed; {story.waiting:,} trades are still to be taken in"
        case "checking":
            return "delivering the last answers"
    epoch = 0 if story.last is None else story.last.epoch
    words = f"running: epoch {epoch:,}, driver process {story.pid}"
    if outage is not None and outage.ended is not None:
        words += f", recovered in {outage.ended - outage.began:.1f} s"
    return words


def _starting(story: Story) -> str:
    if not story.spark_up:
        return "Spark is starting"
    if not story.compiled:
        return "compiling kernels, this once"
    return "the first epoch runs" if story.opened else "registering a hundred thousand queries"


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value below which that share lies; 0 of nothing.

    Examples
    --------
    >>> quantile([3, 1, 2], 0.5), quantile([], 0.99)
    (2, 0.0)
    """
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0
