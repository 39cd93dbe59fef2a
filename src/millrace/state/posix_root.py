"""A root in a directory of a POSIX file system.

A file is written under a temporary name in its own directory, synced, and then linked to its
final name, which fails if that exists; last, the directory is synced.

    .tmp-<pid>-<random>  --write, fsync-->  link  -->  runs/...  -->  unlink tmp  -->  fsync dir

Invariant: a name that can be listed has all its bytes on the disk. A crash leaves at most a
temporary file, which nobody lists and `sweep` removes.

Cost: two fsyncs a file, 0.7 ms for 1 kB on our virtual disk. `durable=False` leaves them out,
for tests.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa

from millrace.errors import StoreError, StoreFullError
from millrace.state.names import TEMPORARY, Data, Entries, Entry, MissingError, check_name, parts_of

_FULL = (errno.ENOSPC, errno.EDQUOT)


class PosixRoot:
    """Named files below one directory."""

    def __init__(self, path: Path | str, *, durable: bool = True) -> None:
        self.path = Path(path).absolute()
        self._durable = durable
        self._made: set[Path] = set()
        self._uri = self.path.as_uri()

    @property
    def uri(self) -> str:
        """The address of the directory."""
        return self._uri

    def put_if_absent(self, name: str, data: Data) -> bool:
        """Create `name` durably; return False, and change nothing, if it exists."""
        target = self.path / check_name(name)
        with self._written(target, data) as temporary:
            try:
                os.link(temporary, target)
                created = True
            except FileExistsError:
                created = False
            temporary.unlink()
            # Even if another process linked it: it may have been about to sync.
            self._sync(target.parent)
        return created

    def put(self, name: str, data: Data) -> None:
        """Create or replace `name` atomically and durably."""
        target = self.path / check_name(name)
        with self._written(target, data) as temporary:
            temporary.replace(target)
            self._sync(target.parent)

    def get(self, name: str) -> bytes:
        """Read a whole file; raise `MissingError` if there is none."""
        with self._reading(name) as path:
            return path.read_bytes()

    def map(self, name: str) -> pa.Buffer:
        """Map a whole file; the mapping lives as long as a buffer of it, the descriptor not."""
        with self._reading(name) as path:
            if path.stat().st_size == 0:
                return pa.py_buffer(b"")
            with pa.memory_map(str(path), "r") as file:
                return file.read_buffer()

    def list(self, prefix: str) -> Entries:
        """List the files whose name starts with `prefix`, in the order of their names."""
        folder, _, _ = prefix.rpartition("/")
        with self._translated("listing", prefix):
            found = [
                entry
                for entry in self._walk(str(self.path / folder))
                if entry.name.startswith(prefix) and not _hidden(entry.name)
            ]
        return sorted(found, key=lambda entry: entry.name)

    def delete(self, name: str) -> None:
        """Remove `name`; do nothing if there is none."""
        with self._translated("deleting", name):
            (self.path / check_name(name)).unlink(missing_ok=True)

    def sweep(self, before: float) -> Entries:
        """Remove temporary files last written before that wall-clock time; say which."""
        with self._translated("sweeping", ""):
            swept = [
                entry
                for entry in self._walk(str(self.path))
                if entry.name.rpartition("/")[2].startswith(TEMPORARY) and entry.modified < before
            ]
            for entry in swept:
                (self.path / entry.name).unlink(missing_ok=True)
        return swept

    @contextmanager
    def _written(self, target: Path, data: Data) -> Iterator[Path]:
        """Write `data` under a temporary name, which does not outlive an error."""
        temporary = target.parent / f"{TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
        parts = parts_of(data)
        size = sum(part.nbytes for part in parts)
        with self._translated("writing", str(target.relative_to(self.path)), size):
            try:
                self._make(target.parent)
                with temporary.open("xb", buffering=0) as file:
                    for part in parts:
                        _write_all(file.fileno(), part)
                    if self._durable:
                        os.fsync(file.fileno())
                yield temporary
            except OSError:
                with suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise

    def _make(self, folder: Path) -> None:
        """Create `folder` durably: a synced file in a directory that is not is lost with it."""
        if folder in self._made:
            return
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for each in missing:
            self._sync(each.parent)
        self._made.add(folder)

    def _sync(self, folder: Path) -> None:
        if not self._durable:
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _walk(self, folder: str) -> Iterator[Entry]:
        """Give every file below `folder`; what vanishes meanwhile is left out.

        Names are cut out of paths as texts: a log may have many thousand files.
        """
        base = len(str(self.path).rstrip("/")) + 1
        try:
            found = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for item in found:
            if item.is_dir(follow_symlinks=False):
                yield from self._walk(item.path)
                continue
            with suppress(FileNotFoundError):
                status = item.stat()
                yield Entry(item.path[base:], status.st_size, status.st_mtime)

    @contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        with self._translated("reading", name):
            try:
                yield self.path / check_name(name)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
                raise MissingError(f'file "{name}" does not exist in root "{self.path}"') from error

    @contextmanager
    def _translated(self, doing: str, name: str, size: int = 0) -> Iterator[None]:
        """Turn the system's errors into ours."""
        try:
            yield
        except OSError as error:
            if error.errno in _FULL:
                raise _full(self.path, name, size) from error
            raise StoreError(
                f'{doing} file "{name}" of root "{self.path}" failed', detail=f"{error}."
            ) from error


def _write_all(descriptor: int, part: memoryview) -> None:
    done = 0
    while done < part.nbytes:
        done += os.write(descriptor, part[done : done + (1 << 30)])


def _hidden(name: str) -> bool:
    return name.startswith(".") or "/." in name


def _full(path: Path, name: str, size: int) -> StoreFullError:
    try:
        free = f"{shutil.disk_usage(path).free} bytes are free"
    except OSError:
        free = "how much is free is not known"
    return StoreFullError(
        f'no room is left for file "{name}" of root "{path}"',
        detail=f"The file has {size} bytes; {free}.",
        hint="Free space on that file system, or raise its quota; nothing was changed.",
    )
