"""Processes of this machine, by the session that they belong to.

A driver that is started in a session of its own shares it with everything it starts: its JVM, the
executors, and the Python workers, also those whose parent was killed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Found:
    """A process, its parent, and its command line."""

    pid: int
    parent: int
    command: str


def members(session: int) -> list[Found]:
    """Return the processes of a session; zombies do not count."""
    numbers = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    found = [_found(pid, session) for pid in numbers]
    return [each for each in found if each is not None]


def _found(pid: int, session: int) -> Found | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        if fields[0] in "ZX" or int(fields[3]) != session:
            return None
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return None
    return Found(pid, int(fields[1]), command.decode(errors="replace"))
