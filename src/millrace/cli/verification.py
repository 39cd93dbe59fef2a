"""Comparing the files of a root with their checksums."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from millrace.engine.cursor import CURSORS, Cursor
from millrace.engine.publication import CATALOGS, QUERIES
from millrace.engine.registry import CHANGES
from millrace.engine.registry import SNAPSHOTS as REGISTRY_SNAPSHOTS
from millrace.engine.registry_state import named_files
from millrace.engine.tables import TABLES
from millrace.errors import CorruptionError, MillraceError
from millrace.state.container import Container
from millrace.state.manifest import Manifest
from millrace.state.names import COMMITS, SNAPSHOTS, MissingError, number_of
from millrace.state.root import Root
from millrace.state.run_store import load_manifest

LOGS = (COMMITS, SNAPSHOTS, CHANGES, REGISTRY_SNAPSHOTS, CATALOGS, QUERIES, TABLES, "epochs")


@dataclass(slots=True)
class Findings:
    """What was compared, and what is wrong."""

    n_files: int = 0
    n_bytes: int = 0
    wrong: list[MillraceError] = field(default_factory=list)


def verify(root: Root, console: Console) -> Findings:
    """Compare everything, with a bar if somebody is looking."""
    findings = Findings()
    sizes = {entry.name: entry.size for entry in root.list("")}
    needed = {**_index_needed(root), **dict.fromkeys(_needed(root, findings), "newest manifest")}
    logs = [name for name in sizes if name.partition("/")[0] in LOGS and name not in needed]
    total = sum(sizes.get(name, 0) for name in [*needed, *logs])
    bar = Progress(
        TextColumn("checking"), BarColumn(), DownloadColumn(), TimeRemainingColumn(),
        console=console, transient=True, disable=not console.is_terminal,
    )  # fmt: skip
    with bar:
        task = bar.add_task("checking", total=total)
        for name in [*sorted(needed), *logs]:
            _compare(root, name, findings, needed_by=needed.get(name))
            bar.advance(task, sizes.get(name, 0))
        for name in _newest_cursors(root):
            _compare_cursor(root, name, findings)
    return findings


def _needed(root: Root, findings: Findings) -> frozenset[str]:
    """Name what the newest manifest needs; all files of runs, if it cannot be read."""
    try:
        manifest: Manifest = load_manifest(root)
    except MillraceError as error:
        findings.wrong.append(error)
        return frozenset(entry.name for entry in root.list("runs/"))
    return manifest.files()


def _index_needed(root: Root) -> dict[str, str]:
    """Name the files of queries and tables that a start, or the next epoch, needs, and for what."""
    snapshots, catalogs = root.list(f"{REGISTRY_SNAPSHOTS}/"), root.list(f"{CATALOGS}/")
    found: dict[str, str] = {}
    for entries, what in ((snapshots, "registry's newest snapshot"), (catalogs, "newest catalog")):
        with contextlib.suppress(MillraceError):  # damage to these is found where they are compared
            if entries:
                named = named_files(Container.open(root, entries[-1].name).meta)
                found |= dict.fromkeys(named, what)
    return found


def _compare(root: Root, name: str, findings: Findings, *, needed_by: str | None) -> None:
    """Touch every section of a file; a log that an engine has just deleted is left out."""
    try:
        container = Container.open(root, name)
        for section in container.sections:
            container.section(section)
    except MissingError as error:
        if needed_by is not None:
            findings.wrong.append(_missing(name, needed_by, error))
        return
    except MillraceError as error:
        if not any(known.message == error.message for known in findings.wrong):
            findings.wrong.append(error)
    findings.n_files += 1
    findings.n_bytes += root.map(name).size


def _missing(name: str, needed_by: str, cause: MissingError) -> CorruptionError:
    error = CorruptionError(
        f'file "{name}" is missing',
        detail=f"The {needed_by} names it.",
        hint="Restore this file from a copy of the root.",
    )
    error.__cause__ = cause
    return error


def _newest_cursors(root: Root) -> Iterator[str]:
    newest: dict[str, str] = {}
    for entry in root.list(f"{CURSORS}/"):
        newest[entry.name.split("/")[1]] = entry.name
    yield from newest.values()


def _compare_cursor(root: Root, name: str, findings: Findings) -> None:
    """A cursor has no checksum; it must at least be a cursor."""
    try:
        data = root.get(name)
        Cursor.from_json(number_of(name) or 0, data)
    except MissingError:
        return
    except (MillraceError, TypeError, KeyError) as error:
        findings.wrong.append(CorruptionError(f'file "{name}" is not a cursor', detail=f"{error}."))
        return
    findings.n_files += 1
    findings.n_bytes += len(data)
