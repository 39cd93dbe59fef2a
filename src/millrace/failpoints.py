"""Named places where a test may stop the program: between every two steps of an epoch.

A step of the protocol calls `reach("commit.before")`. In production nothing is armed and the
call is one look into an empty dictionary. A test arms a point in its own process with `arm`,
or in every process it starts with the environment variable:

    MILLRACE_FAILPOINTS="commit.before=kill@3,step.written=raise"

which kills the process by SIGKILL the third time it reaches `commit.before` and raises at the
first `step.written`. The actions are `raise` (an `InjectedCrash`, which no handler of ours
catches), `fail` (an ordinary OSError), `full` (no space left), `kill`, `segfault`, `hang`.
A point given as `name=action@n#path` acts once for all processes together: the file `path`
is created exclusively by whoever acts first.

Every name in use stands in `POINTS`; a test arms each of them in turn.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "MILLRACE_FAILPOINTS"

POINTS = (
    "log.before",  # an epoch is decided; its decisions are not yet written
    "log.after",  # the decisions are durable; nothing has run
    "route.before",  # a map task has started
    "route.after",  # a map task has sent its last chunk
    "step.before",  # a shard task has its chunks
    "step.computed",  # its runs and results exist in memory
    "step.written",  # its file is durable; no receipt has left
    "hop.before",  # an earlier stage of a shard is done; nothing has left for the next one
    "hop.after",  # it has sent its last chunk
    "merge.before",  # a merge step is about to read its inputs
    "merge.after",  # its output exists in memory
    "receipts.after",  # all receipts are at the driver
    "commit.before",  # the manifest is composed; it is not yet written
    "commit.after",  # the manifest is durable; nobody has been told
    "snapshot.before",  # a full manifest is due
    "snapshot.after",  # it is durable
    "epoch.after",  # the epoch returns to its source
    "collect.before",  # unnamed files are known; none is deleted
    "collect.between",  # some are deleted
    "collect.after",  # all are deleted
    "deliver.before",  # a sink has read an epoch's results; they are not handed over
    "deliver.written",  # a sink's file is complete under its temporary name
    "deliver.promised",  # the cursor names the file that is about to appear
    "deliver.renamed",  # the file has its final name; the cursor does not know
    "deliver.after",  # the cursor has moved
    "register.before",  # a change of the query set is not yet durable
    "register.after",  # it is durable; nobody has been told
    "publish.before",  # the files of standing queries are durable; no catalog names them
    "publish.after",  # the catalog is durable; no epoch has named it
)


class InjectedCrash(BaseException):
    """Stands for the end of the process; derived so that no ordinary handler swallows it."""


@dataclass(slots=True)
class _Armed:
    action: str
    after: int
    once: Path | None = None
    passed: int = 0


_armed: dict[str, _Armed] = {}


def reach(name: str) -> None:
    """Pass the point `name`: act if a test armed it, do nothing otherwise."""
    if not _armed:
        return
    armed = _armed.get(name)
    if armed is None:
        return
    armed.passed += 1
    if armed.passed != armed.after or not _first_of_all(armed.once):
        return
    ACTIONS[armed.action](name)


def arm(name: str, action: str, *, after: int = 1, once: Path | None = None) -> None:
    """Make the `after`-th passing of `name` perform `action`."""
    assert name in POINTS, f"no such failpoint: {name}"
    assert action in ACTIONS, f"no such action: {action}"
    _armed[name] = _Armed(action, after, once)


def passed(name: str) -> int:
    """Return how often an armed point has been passed since it was armed."""
    return _armed[name].passed if name in _armed else 0


def disarm() -> None:
    """Forget every armed point of this process."""
    _armed.clear()


@contextmanager
def aside() -> Iterator[None]:
    """Pass no point while something runs that only looks like an epoch."""
    armed = dict(_armed)
    _armed.clear()
    try:
        yield
    finally:
        _armed.update(armed)


def armed_by_environment(text: str) -> None:
    """Arm what the environment variable says."""
    for item in filter(None, text.split(",")):
        name, _, rest = item.partition("=")
        rest, _, path = rest.partition("#")
        action, _, count = rest.partition("@")
        arm(name, action, after=int(count or 1), once=Path(path) if path else None)


def _first_of_all(path: Path | None) -> bool:
    if path is None:
        return True
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def _raise(name: str) -> None:
    raise InjectedCrash(name)


def _fail(name: str) -> None:
    raise OSError(errno.EIO, f"injected at {name}")


def _full(name: str) -> None:
    raise OSError(errno.ENOSPC, f"injected at {name}")


def _kill(_name: str) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _segfault(_name: str) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _hang(_name: str) -> None:
    time.sleep(3600)


ACTIONS: dict[str, Callable[[str], None]] = {
    "raise": _raise,
    "fail": _fail,
    "full": _full,
    "kill": _kill,
    "segfault": _segfault,
    "hang": _hang,
}

if os.environ.get(VARIABLE):
    armed_by_environment(os.environ[VARIABLE])
