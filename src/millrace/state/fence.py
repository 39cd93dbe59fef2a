"""The fence: at most one engine writes to a root, and an older one notices that it has lost.

First comes the lock, which refuses a second engine while the first lives. Then a term, a
number that only grows: should a lock be broken (a network file system, an operator), the
engine with the lower term is refused at its next `check`, or by the exclusive creation of the
commit itself.
"""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from millrace.errors import FencedError, InUseError
from millrace.state.names import TERMS, MissingError, number_of, numbered
from millrace.state.process import Process, boot_id
from millrace.state.root import Root
from millrace.state.root_lock import RootLock

KEPT_TERMS = 4


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a root, since when (wall clock, seconds), and the processes it started."""

    who: str
    host: str
    boot: str
    process: Process
    since: float
    children: tuple[Process, ...] = ()

    @classmethod
    def this_process(cls, who: str) -> Self:
        """Describe the running process."""
        return cls(who, socket.gethostname(), boot_id(), Process.of(os.getpid()), time.time())

    @property
    def here(self) -> bool:
        """Whether it ran in this boot of this machine, so that its process ids mean something."""
        return (self.host, self.boot) == (socket.gethostname(), boot_id())

    def to_json(self) -> dict[str, Any]:
        """Give a JSON form."""
        return {
            "who": self.who,
            "host": self.host,
            "boot": self.boot,
            "process": self.process.to_json(),
            "since": self.since,
            "children": [child.to_json() for child in self.children],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """Read what `to_json` gave."""
        process = Process.from_json(document["process"])
        children = tuple(map(Process.from_json, document["children"]))
        who, host, boot = document["who"], document["host"], document["boot"]
        return cls(who, host, boot, process, document["since"], children)

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        return f"{self.who}, process {self.process.pid} on {self.host}, since {since}"


class Fence:
    """The right to write to a root, for one term.

    `previous` is the holder before, if it ended without releasing: its children may live on.
    """

    def __init__(self, root: Root, lock: RootLock, holder: Holder, term: int) -> None:
        self.root = root
        self.term = term
        self.holder = holder
        self.previous: Holder | None = None
        self._lock = lock

    @classmethod
    def acquire(cls, root: Root, *, who: str) -> Self:
        """Take the lock and a new term, or raise `InUseError` that says who holds the root."""
        lock = RootLock(root)
        taken = lock.take()
        previous = _holder(lock.read())
        if not taken:
            lock.release()
            raise InUseError(
                f'root "{root.uri}" is in use',
                detail=f"It is held by {previous}." if previous else "Its holder is not known.",
                hint="Stop that engine, or give this one another root.",
            )
        try:
            holder = replace(Holder.this_process(who), children=_orphans(previous))
            term = _new_term(root, holder)
            # Last, so that an engine which fails here does not hide the one before.
            lock.write(json.dumps(holder.to_json()).encode())
        except BaseException:
            lock.release()
            raise
        fence = cls(root, lock, holder, term)
        fence.previous = previous
        return fence

    def check(self) -> None:
        """Raise `FencedError` if a newer engine has taken the root."""
        newest = max(_terms(self.root), default=0)
        if newest > self.term:
            raise FencedError(
                f'root "{self.root.uri}" has been taken over',
                detail=f"This engine has term {self.term}, the newest is {newest}.",
                hint="Stop this engine; the other one goes on.",
            )

    def record_child(self, pid: int) -> None:
        """Write down a process that was started, for whoever comes after a crash."""
        child = Process.of(pid)
        self.holder = replace(self.holder, children=(*self.holder.children, child))
        self._lock.write(json.dumps(self.holder.to_json()).encode())

    def release(self) -> None:
        """Give the root back, leaving no name; to do so again does nothing."""
        if self._lock.held:
            self._lock.write(b"")
            self._lock.release()


def holder_of(root: Root) -> Holder | None:
    """Return the engine that holds a root; None if there is none, or if it has ended."""
    try:
        holder = _holder(root.get("lock"))
    except MissingError:
        return None
    if holder is None or (holder.here and not holder.process.alive):
        return None
    return holder


def _orphans(previous: Holder | None) -> tuple[Process, ...]:
    """Return what a killed holder left running here; it is passed on until somebody ends it."""
    if previous is None or not previous.here:
        return ()
    return tuple(each for each in previous.children if each.alive)


def _new_term(root: Root, holder: Holder) -> int:
    text = json.dumps(holder.to_json()).encode()
    terms = _terms(root)
    term = max(terms, default=0) + 1
    while not root.put_if_absent(numbered(TERMS, term), text):
        term += 1
    for old in terms[: -KEPT_TERMS + 1]:
        root.delete(numbered(TERMS, old))
    return term


def _terms(root: Root) -> list[int]:
    found = (number_of(entry.name) for entry in root.list(f"{TERMS}/"))
    return [number for number in found if number is not None]


def _holder(text: bytes) -> Holder | None:
    try:
        return Holder.from_json(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None
