"""A root in memory, for tests: the same contract, nothing durable."""

from __future__ import annotations

import itertools
import threading
import time

import pyarrow as pa

from millrace.state.names import Data, Entries, Entry, MissingError, check_name, parts_of

_serials = itertools.count()


class MemoryRoot:
    """Named files in a dictionary of this process.

    Examples
    --------
    >>> root = MemoryRoot()
    >>> root.put_if_absent("runs/one", b"first"), root.put_if_absent("runs/one", b"second")
    (True, False)
    >>> root.get("runs/one")
    b'first'
    """

    def __init__(self) -> None:
        self._uri = f"memory:{next(_serials)}"
        self._files: dict[str, tuple[pa.Buffer, float]] = {}
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        """An address that no other root of this process has."""
        return self._uri

    def put_if_absent(self, name: str, data: Data) -> bool:
        """Create `name`; return False, and change nothing, if it exists."""
        written = _written(data)
        with self._lock:
            return self._files.setdefault(check_name(name), written) is written

    def put(self, name: str, data: Data) -> None:
        """Create or replace `name`."""
        written = _written(data)
        with self._lock:
            self._files[check_name(name)] = written

    def get(self, name: str) -> bytes:
        """Copy a whole file; raise `MissingError` if there is none."""
        return bytes(self.map(name))

    def map(self, name: str) -> pa.Buffer:
        """Give the buffer itself."""
        try:
            return self._files[check_name(name)][0]
        except KeyError as error:
            raise MissingError(f'file "{name}" does not exist in root "{self.uri}"') from error

    def list(self, prefix: str) -> Entries:
        """List the files whose name starts with `prefix`, in the order of their names."""
        with self._lock:
            found = sorted(self._files.items(), key=lambda item: item[0])
        return [
            Entry(name, buffer.size, modified)
            for name, (buffer, modified) in found
            if name.startswith(prefix)
        ]

    def delete(self, name: str) -> None:
        """Remove `name`; do nothing if there is none."""
        with self._lock:
            self._files.pop(check_name(name), None)

    def sweep(self, before: float) -> Entries:  # noqa: ARG002 the contract has it
        """Do nothing: a file in memory has no temporary form."""
        return []


def _written(data: Data) -> tuple[pa.Buffer, float]:
    # Copied into an allocation of Arrow's, which is aligned as a mapped page would be.
    parts = parts_of(data)
    sink = pa.BufferOutputStream()
    for part in parts:
        sink.write(part)
    return sink.getvalue(), time.time()
