"""Supervision of one epoch: trying again, and finding the query that takes tasks down.

A query's expression that raises is data: the task reports it and goes on. This is about tasks
that do not come back: a function that crashes its process or eats all memory, a machine that
is lost. The first failure is tried again, since machines do fail. A second one that looks the
same is taken for a query's fault, and the families are halved until the culprits are known, then
the queries of each guilty family:

    all fail ─► left half runs, right half fails ─► … ─► { q17 } fails alone: quarantined

Each probe is an attempt whose work is thrown away. If the epoch fails with no query at all, no
query is to blame, and the failure goes up to whoever runs the epochs; so does one that no query
is to blame for, when it has not passed after some tries (a damaged file will not mend itself).
A query is found guilty only if it fails alone twice: a machine may be lost during a probe too.

Cost: one culprit among n queries takes about 2 log2(n) probes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from millrace.errors import MillraceError

_logger = logging.getLogger(__name__)

Suspect = TypeVar("Suspect")


class ExecutionError(MillraceError):
    """The tasks of an epoch did not come back.

    `signature` is equal for failures that look the same; `blames_query` is False where the
    cause is known and is no query's fault, such as a full disk.
    """

    code = "execution"

    def __init__(
        self, message: str, *, signature: str, detail: str = "", blames_query: bool = True
    ) -> None:
        super().__init__(message, detail=detail)
        self.signature = signature
        self.blames_query = blames_query


@dataclass(slots=True)
class Supervision:
    """Decides what follows a failure of an epoch; one that goes on is a warning only once.

    Parameters
    ----------
    wait
        Waits before the next try; gets the number of tries so far.
    tries
        After how many failures that look the same a query is suspected.
    patience
        After how many failures in a row, of whatever kind, the epoch is given up.
    """

    wait: Callable[[int], None]
    tries: int = 2
    patience: int = 8
    _failures: list[str] = field(default_factory=list)
    _told: str = ""

    def failed(self, error: ExecutionError) -> bool:
        """Take note of a failure and wait; return True if a query should be suspected now.

        Raises the failure itself when it is time to give up.
        """
        self._failures.append(error.signature if error.blames_query else "")
        level = logging.INFO if error.signature == self._told else logging.WARNING
        _logger.log(level, "epoch failed: tries=%d cause=%s", len(self._failures), error.message)
        self._told = error.signature
        alike = self._failures[-self.tries :]
        if error.blames_query and len(alike) == self.tries and len(set(alike)) == 1:
            self._failures.clear()
            return True
        if len(self._failures) >= self.patience:
            raise error
        self.wait(len(self._failures))
        return False


def find_culprits(
    suspects: tuple[Suspect, ...], probe: Callable[[tuple[Suspect, ...]], ExecutionError | None]
) -> dict[Suspect, ExecutionError] | None:
    """Find whom the epoch fails with, and how; None if it fails without any of them too.

    `probe` runs the epoch with only the given suspects and returns how it failed, if it did.
    """
    if not suspects or probe(()) is not None:
        return None
    found: dict[Suspect, ExecutionError] = {}
    waiting = [suspects]
    while waiting:
        some = waiting.pop()
        error = probe(some)
        if error is None:
            continue
        if len(some) == 1:
            again = probe(some)  # a machine may have failed in just this probe
            if again is not None:
                found[some[0]] = again
            continue
        half = len(some) // 2
        waiting += [some[half:], some[:half]]
    return found or None
