"""A root: the directory of named, immutable files in which everything durable lives.

The contract is small enough for an object store with a conditional put. A file appears whole
or not at all, and it is durable when the call that wrote it returns. Whoever creates a name
first has it: that is the only synchronisation which manifests and terms need.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, runtime_checkable
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from millrace.errors import StoreError
from millrace.state.names import Data, Entries, Entry, MissingError, Part, check_name
from millrace.state.posix_root import PosixRoot

__all__ = ["Data", "Entries", "Entry", "MissingError", "Part", "Root", "check_name", "open_root"]


@runtime_checkable
class Root(Protocol):
    """Named files that appear whole, durably, and at most once."""

    @property
    def uri(self) -> str:
        """Where this root is; two roots with one address hold the same files."""

    def put_if_absent(self, name: str, data: Data) -> bool:
        """Create `name` durably; return False, and change nothing, if it exists."""

    def put(self, name: str, data: Data) -> None:
        """Create or replace `name` atomically and durably."""

    def get(self, name: str) -> bytes:
        """Read a whole file; raise `MissingError` if there is none."""

    def map(self, name: str) -> pa.Buffer:
        """Map a whole file into memory, without copying where the system can."""

    def list(self, prefix: str) -> Entries:
        """List the files whose name starts with `prefix`, in the order of their names."""

    def delete(self, name: str) -> None:
        """Remove `name`; do nothing if there is none."""

    def sweep(self, before: float) -> Entries:
        """Remove temporary files last written before that wall-clock time; say which."""


def open_root(uri: str | Path) -> Root:
    """Open the root at a path or a `file:` address; the directory need not exist yet.

    Examples
    --------
    >>> open_root("file:///var/lib/millrace").uri
    'file:///var/lib/millrace'
    """
    text = str(uri)
    split = urlsplit(text)
    if split.scheme == "":
        return PosixRoot(Path(text))
    if split.scheme == "file" and split.netloc in ("", "localhost"):
        return PosixRoot(Path(unquote(split.path)))
    raise StoreError(
        f'root "{text}" has a scheme that is not known',
        detail="The schemes are: a plain path, and file:.",
        hint="Mount the storage as a file system and give its path.",
    )
