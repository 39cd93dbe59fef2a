"""Sources that a loop without Spark reads by itself: what is pushed, and files.

An offset is a number of files of the push log, or of splits; both only grow, and what lies between
two of them is the same however often it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from millrace.connectors.discovery import DiscoveryOptions, Listing
from millrace.connectors.files import Files
from millrace.connectors.pushed import Pushed, PushLog, folder_of
from millrace.engine.arrivals import from_pushed, from_splits
from millrace.engine.backend import Binding
from millrace.engine.route import Arrived
from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError
from millrace.state.root import Root


class LocalSource(Protocol):
    """One stream's input, read by offsets."""

    def latest(self) -> int:
        """Look for what is new; return the offset behind it."""

    def advance(self, start: int, max_rows: int) -> int:
        """Return an offset so that about so many rows lie between."""

    def arrived(self, start: int, stop: int) -> Iterator[Arrived]:
        """Read what lies between two offsets."""

    def consume(self, stop: int) -> None:
        """Let go of what lies before an offset: it is committed."""


class PushedSource:
    """The push log of a stream."""

    def __init__(self, root: Root, spec: StreamSpec) -> None:
        self._root, self._spec = root, spec
        self._folder = folder_of(spec.name, spec.born)
        self._log = PushLog(root, self._folder)

    def latest(self) -> int:
        """Look for new files of the log."""
        return self._log.refresh()

    def advance(self, start: int, max_rows: int) -> int:
        """Return the offset behind as many files as hold so many rows."""
        return self._log.advance(start, max_rows)

    def arrived(self, start: int, stop: int) -> Iterator[Arrived]:
        """Read the batches of some files that count."""
        files = self._log.files(start, stop)
        return from_pushed(self._root, self._folder, files, self._spec)

    def consume(self, stop: int) -> None:
        """Delete files, and remember the keys of their batches."""
        self._log.consume(stop)


class FilesSource:
    """A directory that grows."""

    def __init__(self, root: Root, spec: StreamSpec, source: Files) -> None:
        self._spec, self._source = spec, source
        options = DiscoveryOptions(pattern=source.path, form=source.format, settle=source.settle)
        folder = folder_of(spec.name, spec.born).partition("/")[2]
        self._listing = Listing(root, f"millrace_{folder}", options)

    def latest(self) -> int:
        """List new files."""
        return self._listing.refresh()

    def advance(self, start: int, max_rows: int) -> int:
        """Return the offset behind as many splits as hold so many rows."""
        return self._listing.advance(start, max_rows)

    def arrived(self, start: int, stop: int) -> Iterator[Arrived]:
        """Read splits."""
        return from_splits(self._spec, self._source, self._listing.splits(start, stop), start)

    def consume(self, stop: int) -> None:
        """Leave the files where they are."""


def local_source(root: Root, binding: Binding) -> LocalSource:
    """Return what reads the source of a stream."""
    match binding.source:
        case Pushed():
            return PushedSource(root, binding.spec)
        case Files() as source:
            return FilesSource(root, binding.spec, source)
        case other:
            raise no_source(type(other).__name__)


def no_source(kind: str) -> PlanError:
    """Say what is read without Spark."""
    return PlanError(
        f'"{kind}" is not read without Spark', hint="Read from push() or files(), or use Spark."
    )
