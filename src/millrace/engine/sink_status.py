"""How a sink is: its state, its errors, and what waits for it.

running ◄──────► failing          it raised; it is tried again, each time after a longer pause
   │                │
   ├──── limit ─────┴──► detached  more waited for it than may; nothing is kept for it now
   └── another engine ─► fenced    its cursor moved without us; this engine has to stop
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from millrace.engine.cursor import Cursor
from millrace.engine.results import Waiting, total

State: TypeAlias = Literal["running", "failing", "detached", "fenced"]

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 30.0
"""Seconds after the first error, and after many; each error in a row doubles the pause."""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """What can be seen of a sink from outside.

    `lag_epochs` counts from the first epoch that waits to the last commit; the backlog is what
    waits in the root. `error` is the last one, also after the sink has recovered; `n_failures`
    are those in a row. `skipped_epochs`, `skipped_rows` and `gaps` tell what the sink never got.
    """

    name: str
    state: State
    next_epoch: int
    lag_epochs: int
    backlog_rows: int
    backlog_bytes: int
    error: str
    n_failures: int
    skipped_epochs: int
    skipped_rows: int
    gaps: tuple[tuple[int, int], ...]


@dataclass(slots=True)
class Health:
    """The state of a sink and the errors that led to it."""

    state: State = "running"
    error: str = ""
    n_failures: int = 0
    n_recent: int = 0  # failures since its patience was last taken away

    @property
    def pause(self) -> float:
        """For how many seconds the sink is left in peace.

        Examples
        --------
        >>> Health("failing", n_recent=3).pause, Health("failing", n_recent=99).pause
        (0.2, 30.0)
        """
        return float(min(FIRST_PAUSE * 2 ** min(self.n_recent - 1, 20), LONGEST_PAUSE))

    def hurry(self) -> None:
        """Begin with short pauses again: somebody waits."""
        self.n_recent = 0

    def failed(self, error: BaseException, state: State) -> None:
        """Note an error; a detached sink stays detached."""
        self.error = f"{type(error).__name__}: {error}"
        self.n_failures += 1
        self.n_recent += 1
        if self.state != "detached":
            self.state = state

    def settled(self) -> None:
        """Note that something was taken for good."""
        self.n_failures = self.n_recent = 0

    def recovered(self) -> bool:
        """Note that an attempt went well; say whether that is news."""
        self.settled()
        if self.state != "failing":
            return False
        self.state = "running"
        return True


def sink_status(
    name: str, health: Health, cursor: Cursor, *, held: Waiting, stop: int
) -> SinkStatus:
    """Say how a sink is for which `held` waits, when `stop` is the first epoch to come."""
    backlog = total(held)
    return SinkStatus(
        name,
        health.state,
        next_epoch=cursor.next_epoch,
        lag_epochs=stop - min(held, default=stop),
        backlog_rows=backlog.n_rows,
        backlog_bytes=backlog.n_bytes,
        error=health.error,
        n_failures=health.n_failures,
        skipped_epochs=cursor.skipped_epochs,
        skipped_rows=cursor.skipped_rows,
        gaps=cursor.gaps,
    )
