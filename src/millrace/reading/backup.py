"""Backup of a root while its engine runs: a copy as of one commit, that an engine goes on from.

Files of a root never change, so a copy of the right ones is a backup. Which are right follows from
one commit, E: everything up to E, nothing beyond; and what was pushed and is not counted by E.

    lease ─► cursors, pushed ─► E ─► pushed again ─► all that belongs to E ─► the rest

- A lease keeps the runs of E, and the files of the registry, from being deleted meanwhile.
- Sinks' cursors are copied before E is chosen: one that lags behind delivers again, one that has
  run ahead would leave answers out.
- Pushed files are deleted when they are counted. They are held by links before E is chosen and
  after; if numbers are missing between the two, more was counted meanwhile than E says, and all
  begins again. So what waits to be copied takes no memory, and no more of the disk.
- Spark's offsets, or those of a loop, are copied up to E; Spark offers E once more, which is known.
- The registry may be newer than E: what it holds beyond takes effect with the next epoch.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from millrace.connectors.pushed import PAGES, PUSHED
from millrace.engine.cursor import CURSORS
from millrace.engine.local_loop import OFFSETS
from millrace.engine.publication import CATALOGS, QUERIES
from millrace.engine.registry import CHANGES
from millrace.engine.registry import SNAPSHOTS as REGISTRY_SNAPSHOTS
from millrace.engine.tables import TABLES
from millrace.errors import StoreError
from millrace.state.lease import Lease
from millrace.state.manifest import Manifest
from millrace.state.names import COMMITS, SNAPSHOTS, TERMS, number_of
from millrace.state.posix_root import PosixRoot
from millrace.state.run_store import load_manifest

LEASE_SECONDS = 6 * 3_600.0
TRIES = 20
CHECKPOINT = "checkpoint"
HELD = ".backup-"
"""How directories in a root begin that hold what a backup is about to copy."""
REST = (TERMS, REGISTRY_SNAPSHOTS, CHANGES, CATALOGS, QUERIES, TABLES, "sources", "server", "audit")
"""Taken whole, after what is as of E. Snapshots before the log: those need no older entries."""


class Target(Protocol):
    """Where a backup goes."""

    def put(self, name: str, data: bytes) -> None:
        """Store a file."""


def backup(path: Path, target: Target) -> int:
    """Copy a root as of its newest commit; return that commit's epoch."""
    root = PosixRoot(path)
    if not root.list(f"{TERMS}/"):
        raise StoreError(f'directory "{path}" is not a root', detail="No engine has opened it.")
    newest = max((number_of(each.name) or 0 for each in root.list(f"{COMMITS}/")), default=0)
    lease = Lease.take(root, newest, LEASE_SECONDS)
    try:
        return _copied(root, path, target)
    finally:
        lease.release(root)


def _copied(root: PosixRoot, path: Path, target: Target) -> int:
    with TemporaryDirectory(prefix=HELD, dir=path) as held:
        manifest, cursors, pushed = _chosen(root, path, Path(held))
        for name, data in cursors.items():
            target.put(name, data)
        for name, file in pushed.items():
            target.put(name, file.read_bytes())
    epoch = manifest.epoch
    for prefix in (COMMITS, SNAPSHOTS, OFFSETS):
        _copy(root, prefix, target, epoch)
    for name in sorted(manifest.files()):
        if not name.startswith(f"{COMMITS}/"):
            target.put(name, root.get(name))
    for entry in root.list("epochs/"):
        if int(entry.name[7:19]) <= epoch:
            target.put(entry.name, root.get(entry.name))
    _copy_checkpoint(path / CHECKPOINT, target, epoch)
    for prefix in REST:
        for name, data in _read(root, f"{prefix}/"):
            target.put(name, data)
    return epoch


def _chosen(
    root: PosixRoot, path: Path, held: Path
) -> tuple[Manifest, dict[str, bytes], dict[str, Path]]:
    """Choose the commit; return it with the files that come and go, as they belong to it."""
    for number in range(TRIES):
        cursors = dict(_read(root, f"{CURSORS}/"))
        before = _hold(root, path, held / f"{number}" / "before")
        manifest = load_manifest(root)
        pushed = before | _hold(root, path, held / f"{number}" / "after")
        if _gapless(pushed):
            return manifest, cursors, pushed
    raise StoreError(
        "rows are pushed faster than they can be copied", hint="Try again when it is quieter."
    )


def _hold(root: PosixRoot, path: Path, held: Path) -> dict[str, Path]:
    """Keep what is pushed, which may be deleted meanwhile, by links; return where each is."""
    found: dict[str, Path] = {}
    for entry in root.list(f"{PUSHED}/"):
        place = held / entry.name
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # one that is deleted meanwhile was not there
            _link(path / entry.name, place)
            found[entry.name] = place
    return found


def _link(file: Path, place: Path) -> None:
    try:
        place.hardlink_to(file)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without links
        shutil.copyfile(file, place)


def _read(root: PosixRoot, prefix: str) -> Iterator[tuple[str, bytes]]:
    """Give files that are there; one that is deleted meanwhile was not."""
    for entry in root.list(prefix):
        with suppress(StoreError):
            yield entry.name, root.get(entry.name)


def _copy(root: PosixRoot, prefix: str, target: Target, last: int) -> None:
    """Copy the numbered files up to one."""
    for entry in root.list(f"{prefix}/"):
        number = number_of(entry.name)
        if number is not None and number <= last:
            target.put(entry.name, root.get(entry.name))


def _copy_checkpoint(path: Path, target: Target, last: int) -> None:
    """Copy Spark's own files, of batches up to one."""
    for file in sorted(path.rglob("*")) if path.exists() else ():
        inside = file.relative_to(path)
        beyond = inside.name.strip(".").split(".")[0]
        if file.is_file() and not (beyond.isdigit() and int(beyond) > last):
            target.put(f"{CHECKPOINT}/{inside.as_posix()}", file.read_bytes())


def _gapless(pushed: Iterable[str]) -> bool:
    """Say whether the numbers of each log follow one another."""
    numbers: dict[str, list[int]] = {}
    for name in pushed:
        folder, _, last = name.rpartition("/")
        if folder.rpartition("/")[2] not in PAGES and last.isdigit():
            numbers.setdefault(folder, []).append(int(last))
    return all(max(each) - min(each) + 1 == len(each) for each in numbers.values())


class Directory:
    """A backup as a directory of files."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(self, name: str, data: bytes) -> None:
        """Write a file."""
        place = self._path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)


class Archive:
    """A backup as one tar file."""

    def __init__(self, file: tarfile.TarFile) -> None:
        self._file = file

    def put(self, name: str, data: bytes) -> None:
        """Append a file."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
        self._file.addfile(entry, io.BytesIO(data))


@contextmanager
def opened_target(path: Path) -> Iterator[Target]:
    """Open a new backup: a tar file if it is called so, else a directory; whole or not at all."""
    if path.exists():
        raise StoreError(f'"{path}" exists already', hint="Give a backup a name of its own.")
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        if is_archive(path):
            mode = "w:gz" if path.suffix in (".gz", ".tgz") else "w"
            with tarfile.open(unfinished, mode) as file:  # type: ignore[call-overload]
                yield Archive(file)
        else:
            yield Directory(unfinished)
        unfinished.replace(path)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.unlink(missing_ok=True)
        raise


def restore(source: Path, path: Path) -> None:
    """Make a root of a backup, where there is none."""
    if not source.exists():
        raise StoreError(f'backup "{source}" does not exist')
    if path.exists() and any(path.iterdir()):
        raise StoreError(
            f'directory "{path}" is not empty', hint="Restore into a directory of its own."
        )
    path.mkdir(parents=True, exist_ok=True)
    if is_archive(source):
        with tarfile.open(source) as file:
            file.extractall(path, filter="data")
    else:
        shutil.copytree(source, path, dirs_exist_ok=True)
    if not (path / TERMS).exists():
        raise StoreError(f'"{source}" is not the backup of a root')


def is_archive(path: Path) -> bool:
    """Say whether a backup is one file, by its name.

    >>> is_archive(Path("a.tar.gz")), is_archive(Path("a"))
    (True, False)
    """
    return path.name.endswith((".tar", ".tar.gz", ".tgz"))
