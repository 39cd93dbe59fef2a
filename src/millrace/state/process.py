"""Processes by id and start: an id alone is soon somebody else's."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Process:
    """A process of this machine; `started` is in clock ticks since it booted, 0 if unknown."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> Self:
        """Describe the process that has that id now.

        >>> import os
        >>> Process.of(os.getpid()).alive
        True
        """
        return cls(pid, _started(pid) or 0)

    @property
    def alive(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return _started(self.pid) == self.started and self.started != 0

    def to_json(self) -> list[int]:
        """Give a compact JSON form."""
        return [self.pid, self.started]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        return cls(*fields)


def boot_id() -> str:
    """Tell this boot of this machine from all others; empty where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything; the fields behind it start with the state.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
