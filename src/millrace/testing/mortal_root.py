"""A root as one process sees it, until that process dies.

Every process that opens a root gets a `MortalRoot` of its own over the same files. Its address
differs from that of the others, so its lock is its own too: as after the death of the process
before, or on a file system whose locks are broken, where only terms keep two engines apart.
After `die`, nothing that is left of the process can read or write any more.
"""

from __future__ import annotations

import itertools

import pyarrow as pa

from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Data, Entries, Root

_serials = itertools.count()


class GoneError(BaseException):
    """A process that has died still tried to use its root; no handler of ours catches this."""


class MortalRoot:
    """A root that a test can take away from its user."""

    def __init__(self, files: Root) -> None:
        self._files: Root | None = files
        self.uri = f"{files.uri}#{next(_serials)}"

    def die(self) -> None:
        """End the process that uses this root, without any cleaning up."""
        self._files = None

    def put_if_absent(self, name: str, data: Data) -> bool:
        """Create `name`, unless it exists."""
        return self._alive().put_if_absent(name, data)

    def put(self, name: str, data: Data) -> None:
        """Create or replace `name`."""
        self._alive().put(name, data)

    def get(self, name: str) -> bytes:
        """Read a whole file."""
        return self._alive().get(name)

    def map(self, name: str) -> pa.Buffer:
        """Map a whole file."""
        return self._alive().map(name)

    def list(self, prefix: str) -> Entries:
        """List files by prefix."""
        return self._alive().list(prefix)

    def delete(self, name: str) -> None:
        """Remove `name`."""
        self._alive().delete(name)

    def sweep(self, before: float) -> Entries:
        """Remove old temporary files."""
        return self._alive().sweep(before)

    def _alive(self) -> Root:
        if self._files is None:
            raise GoneError(self.uri)
        return self._files


def copied(files: Root) -> MemoryRoot:
    """Copy all files of a root, as they are now, into memory."""
    copy = MemoryRoot()
    for entry in files.list(""):
        copy.put(entry.name, files.map(entry.name))
    return copy
