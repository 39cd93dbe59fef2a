"""The lock on a root: of the file system where there is one, else of this process.

The lock file's text says who holds it. It is written in place, since the lock belongs to the
file and not to its name; a text that a crash has torn is read as none.
"""

from __future__ import annotations

import fcntl
import os
import threading
import weakref
from contextlib import suppress

from millrace.errors import StoreError
from millrace.state.posix_root import PosixRoot
from millrace.state.root import Root

_held: dict[str, bytearray] = {}
_guard = threading.Lock()


class RootLock:
    """An exclusive lock with a text that others may read."""

    def __init__(self, root: Root) -> None:
        self._uri = root.uri
        self._path = root.path / "lock" if isinstance(root, PosixRoot) else None
        self._descriptor = -1
        self._text = bytearray()

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor >= 0 or _held.get(self._uri) is self._text

    def take(self) -> bool:
        """Take the lock if nobody holds it; no child process inherits it."""
        if self._path is None:
            with _guard:
                return _held.setdefault(self._uri, self._text) is self._text
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StoreError(
                f'the lock file "{self._path}" cannot be taken', detail=f"{error}."
            ) from error
        _locks.add(self)
        return True

    def read(self) -> bytes:
        """Give the text of whoever wrote last, also while another holds the lock."""
        if self._path is None:
            return bytes(_held.get(self._uri, b""))
        return os.pread(self._descriptor, 1 << 20, 0)

    def write(self, text: bytes) -> None:
        """Replace the text."""
        if self._path is None:
            self._text[:] = text
            return
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))
        os.fsync(self._descriptor)

    def release(self) -> None:
        """Let the lock go; to do so again does nothing."""
        if self._path is None:
            with _guard:
                if _held.get(self._uri) is self._text:
                    del _held[self._uri]
        elif self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_locks: weakref.WeakSet[RootLock] = weakref.WeakSet()


def _forget_in_child() -> None:
    """Close the copies that a fork has made: they would hold the lock after the parent's end."""
    for lock in _locks:
        with suppress(OSError):
            lock.release()


os.register_at_fork(after_in_child=_forget_in_child)
