"""Processes of this machine: which ones stand below another, and which run what."""

from __future__ import annotations

from pathlib import Path


def descendants(pid: int) -> list[int]:
    """Return all processes below one, children before grandchildren; zombies do not count."""
    children: dict[int, list[int]] = {}
    for each in _processes():
        parent = _parent(each)
        if parent is not None:
            children.setdefault(parent, []).append(each)
    found, level = [], [pid]
    while level:
        level = [child for each in level for child in children.get(each, [])]
        found += level
    return found


def named(pattern: str) -> set[int]:
    """Return the processes whose command line holds some text."""
    return {each for each in _processes() if pattern in _command(each)}


def _processes() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]


def _parent(pid: int) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[1])


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
