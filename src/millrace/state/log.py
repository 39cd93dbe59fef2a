"""A numbered log of changes with full snapshots: how a manifest or a registry survives.

    commits/0 ... commits/64   snapshots/64   commits/65 ... commits/128   snapshots/128 ...

Change n is created exclusively as file n: whoever comes second has lost. A snapshot is due
after every 64th change; one that a crash prevented is made up for at the next change. The
newest two snapshots are kept, and the changes after the older of them, so that one damaged
snapshot costs time and no data.

Cost: `load` reads one snapshot and at most 127 changes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from millrace import failpoints
from millrace.errors import CorruptionError, FencedError
from millrace.state.container import Container
from millrace.state.names import COMMITS, SNAPSHOTS, Data, Entries, number_of, numbered, parts_of
from millrace.state.root import Root

EVERY = 64
KEPT_SNAPSHOTS = 2

State = TypeVar("State")
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Log(Generic[State]):
    """A log in `root`, and how its files are understood.

    Parameters
    ----------
    empty
        The state before change 0.
    restore
        Gives the state that a snapshot holds.
    fold
        Gives the state after a change.
    """

    root: Root
    empty: State
    restore: Callable[[Container], State]
    fold: Callable[[State, Container], State]
    changes: str = COMMITS
    snapshots: str = SNAPSHOTS

    def append(self, number: int, data: Data) -> None:
        """Write change `number` durably, or raise `FencedError` if somebody else has.

        To append the same bytes again does nothing.
        """
        name = numbered(self.changes, number)
        if self.root.put_if_absent(name, data):
            return
        if self.root.get(name) != b"".join(parts_of(data)):
            raise FencedError(
                f'"{name}" of root "{self.root.uri}" has been written by another engine',
                hint="Stop this engine; the other one goes on.",
            )

    def load(self) -> tuple[int, State]:
        """Give the number of the last change, -1 if there is none, and the state after it."""
        numbers = self._numbers(self.changes)
        snapshots = self._numbers(self.snapshots)
        failure: CorruptionError | None = None
        for number in reversed(snapshots):
            try:
                state = self.restore(Container.open(self.root, numbered(self.snapshots, number)))
            except CorruptionError as error:
                _logger.warning("damaged snapshot left out: snapshot=%d %s", number, error)
                failure = failure or error
                continue
            break
        else:
            number, state = -1, self.empty
        last, state = self._replayed(state, number, numbers, failure)
        if last < max(snapshots, default=-1):
            raise self._missing(last + 1, f"There is a snapshot {snapshots[-1]}.", failure)
        return last, state

    def due(self, number: int) -> bool:
        """Tell whether a snapshot should be taken after change `number`."""
        taken = self._numbers(self.snapshots)
        return number // EVERY > (taken[-1] // EVERY if taken else 0)

    def snapshot(self, number: int, data: Data) -> None:
        """Write the state after change `number` durably.

        A snapshot that is there already says the same, unless it is damaged; so it is
        replaced.
        """
        failpoints.reach("snapshot.before")
        self.root.put(numbered(self.snapshots, number), data)
        failpoints.reach("snapshot.after")

    def kept_snapshots(self) -> list[int]:
        """Give the numbers of the snapshots that are not outdated."""
        return self._numbers(self.snapshots)[-KEPT_SNAPSHOTS:]

    def outdated(self) -> Entries:
        """List the snapshots, and the changes before them, that `load` needs no more."""
        kept = self.kept_snapshots()
        if len(kept) < KEPT_SNAPSHOTS:
            return []
        changes = [
            entry
            for entry in self.root.list(f"{self.changes}/")
            if (at := number_of(entry.name)) is not None and at <= kept[0]
        ]
        snapshots = [
            entry
            for entry in self.root.list(f"{self.snapshots}/")
            if (at := number_of(entry.name)) is not None and at < kept[0]
        ]
        return snapshots + changes

    def _replayed(
        self, state: State, after: int, numbers: list[int], failure: CorruptionError | None
    ) -> tuple[int, State]:
        last = after
        for number in (each for each in numbers if each > after):
            if number != last + 1:
                raise self._missing(last + 1, f"There is a change {number}.", failure)
            state = self.fold(state, Container.open(self.root, numbered(self.changes, number)))
            last = number
        return last, state

    def _missing(
        self, number: int, detail: str, failure: CorruptionError | None
    ) -> CorruptionError:
        """Say which change is missing, and which damage makes it necessary."""
        name = numbered(self.changes, number)
        if failure is not None:
            detail = f"{detail} It cannot be used: {failure.message}."
        error = CorruptionError(
            f'file "{name}" is missing from root "{self.root.uri}"',
            detail=detail,
            hint="Restore it from a copy of the root.",
        )
        error.__cause__ = failure
        return error

    def _numbers(self, prefix: str) -> list[int]:
        found = (number_of(entry.name) for entry in self.root.list(f"{prefix}/"))
        return [number for number in found if number is not None]
