"""Discovery: a directory as a growing list of splits, in an order that never changes.

What was found is written to the root before anything is read from it, in pages that are created
once, so that after a restart, and for a second driver, split 7 is the same split 7:

    sources/trades/000000000000          the files found first, oldest first
    sources/trades/000000000001          those found next
    sources/trades/000000000002.all      what all pages below 2 held (after `compact`)

An offset is the number of splits consumed, counted over all pages: `{"splits": 7}`.

Invariants: pages are only ever added; a path is listed once; within a page files are in order
of (modified, path). A file that changes after it was listed is never half-read: reading refuses
it (`decode.check_unchanged`), and `changed` finds those that were consumed before.

Cost: `refresh` with nothing new is one directory scan (10,000 files: about 20 ms). New Parquet
files cost one read of the footer each, at most 1,000 in a refresh. Memory: 0.35 KB a split.
"""

from __future__ import annotations

import json
import logging
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from millrace.connectors.globs import find_paths
from millrace.connectors.splits import (
    DEFAULT_CUT,
    CutOptions,
    FileSplit,
    Format,
    changed_error,
    cut_file,
    ending_format,
    raise_if_passing,
)
from millrace.errors import OutageError, SourceError
from millrace.state.root import MissingError, Root
from millrace.time import Clock, WallClock

_ALL = ".all"
_EVERYTHING = 1 << 31  # a stop behind every row group and byte


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """What to list, and when a file counts as finished.

    `form` None goes by the ending of each name, and passes over those that name no format.
    `settle` is how many microseconds a file must have stood unchanged: 0 if files appear by
    rename, as they should.
    """

    pattern: str
    form: Format | None = None
    settle: int = 0
    cut: CutOptions = DEFAULT_CUT
    max_new_files: int = 1_000


LOOSE_PAGES = 64
"""So many pages are put into one; more, if that one is large and should be written rarely."""
CHECKED_FILES = 64

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Found:
    path: str
    size: int
    modified: int
    form: Format


@dataclass(slots=True)
class _Known:
    """What the pages say, in memory."""

    n_pages: int = 0
    n_whole: int = 0
    splits: list[FileSplit] = field(default_factory=list)
    rows_before: list[int] = field(default_factory=lambda: [0])
    first_split: dict[str, int] = field(default_factory=dict)

    def add(self, page: bytes) -> None:
        for each in json.loads(page):
            path, size, modified = each["path"], each["size"], each["modified"]
            self.first_split[path] = len(self.splits)
            for first, stop, n_rows in each["splits"]:
                split = FileSplit(path, each["format"], first, stop, size, modified, n_rows)
                self.splits.append(split)
                self.rows_before.append(self.rows_before[-1] + max(n_rows, 1))


class Listing:
    """The durable list of one stream's files."""

    def __init__(
        self,
        root: Root,
        stream: str,
        options: DiscoveryOptions,
        *,
        clock: Clock | None = None,
        warn: Callable[[str], object] = _logger.warning,
    ) -> None:
        self._root, self._options, self._warn = root, options, warn
        self._prefix = f"sources/{stream}/"
        self._clock = clock or WallClock()
        self._known = _Known()
        self._checked = 0
        self._told: set[str] = set()
        self.load()

    @property
    def n_splits(self) -> int:
        """How many splits are listed: the latest offset."""
        return len(self._known.splits)

    def refresh(self) -> int:
        """List what is new, durably, and return the latest offset.

        Raises
        ------
        SourceError, OutageError
            If the source cannot be looked at; what is listed stays listed, and the next call
            looks again.
        """
        self.load()
        while found := self._look():
            page = json.dumps([self._entry(each) for each in found]).encode()
            name = f"{self._prefix}{self._known.n_pages:012d}"
            if self._root.put_if_absent(name, page):
                self._known.add(page)
                self._known.n_pages += 1
                break
            self.load()  # another driver was first; its page stands
        loose = self._known.n_pages - self._known.n_whole
        if loose >= max(LOOSE_PAGES, self.n_splits // LOOSE_PAGES):
            self.compact()
            self._known.n_whole = self._known.n_pages
        self._tell_changed()
        return self.n_splits

    def _tell_changed(self) -> None:
        """Warn of files that were written again after they were listed: that is not read."""
        for error in self.changed(max_files=CHECKED_FILES):
            if error.message not in self._told:
                self._told.add(error.message)
                self._warn(f"{error.message}, and what is new in it is not read")

    def advance(self, start: int, max_rows: int) -> int:
        """Return the offset behind as many splits as hold `max_rows`, and at least one."""
        before = self._known.rows_before
        if start >= self.n_splits:
            return self.n_splits
        end = bisect_right(before, before[start] + max_rows) - 1
        return max(end, start + 1)

    def splits(self, start: int, end: int) -> list[FileSplit]:
        """Return the splits of the offsets `[start, end)`."""
        if not 0 <= start <= end <= self.n_splits:
            raise SourceError(
                f"splits [{start}, {end}) are not listed",
                detail=f"The listing under {self._prefix} has {self.n_splits} splits.",
                hint="The root and the checkpoint may be of different histories.",
            )
        return self._known.splits[start:end]

    def changed(self, *, max_files: int = 1_000) -> list[SourceError]:
        """Look at some listed files, going on from the last call, and report those that changed.

        A file that is gone is not reported: files may be removed once they are consumed.
        """
        firsts = list(self._known.first_split.values())
        start, n_files = self._checked, min(max_files, len(firsts))
        self._checked += n_files
        chosen = (firsts[(start + step) % len(firsts)] for step in range(n_files))
        found = (_change(self._known.splits[each]) for each in chosen)
        return [error for error in found if error]

    def compact(self) -> None:
        """Write all pages as one, and remove them."""
        self.load()
        stop = self._known.n_pages
        files = [list(splits) for _, splits in groupby(self._known.splits, lambda each: each.path)]
        if files:
            page = json.dumps([_page_entry(splits) for splits in files]).encode()
            self._root.put_if_absent(f"{self._prefix}{stop:012d}{_ALL}", page)
        for number, _, name in self._pages():
            if number < stop:
                self._root.delete(name)

    def _pages(self) -> list[tuple[int, bool, str]]:
        """Return the number of each page, whether it stands for all below it, and its name."""
        names = [entry.name for entry in self._root.list(self._prefix)]
        numbers = [name.removeprefix(self._prefix).removesuffix(_ALL) for name in names]
        return [
            (int(number), name.endswith(_ALL), name)
            for number, name in zip(numbers, names, strict=True)
            if number.isdigit()
        ]

    def load(self) -> None:
        """Read what others have listed; once more if a page is compacted meanwhile."""
        try:
            self._load_new()
        except MissingError:
            self._load_new()

    def _load_new(self) -> None:
        pages = self._pages()
        whole = max(((number, name) for number, all_, name in pages if all_), default=None)
        if whole and whole[0] > self._known.n_pages:
            self._known = _Known()
            self._known.add(self._root.get(whole[1]))
            self._known.n_pages = self._known.n_whole = whole[0]
        names = {number: name for number, all_, name in pages if not all_}
        while (name := names.get(self._known.n_pages)) is not None:
            self._known.add(self._root.get(name))
            self._known.n_pages += 1

    def _look(self) -> list[_Found]:
        """Find files that are not listed and have settled: the oldest, in canonical order."""
        latest = (self._clock.now() - self._options.settle) * 1_000
        found = []
        for path in find_paths(self._options.pattern):
            if path not in self._known.first_split and (form := self._form(path)):
                status = _status(path)
                if status and (self._options.settle == 0 or status[1] <= latest):
                    found.append(_Found(path, *status, form))
        found.sort(key=lambda each: (each.modified, each.path))
        return found[: self._options.max_new_files]

    def _form(self, path: str) -> Format | None:
        return self._options.form or ending_format(path)

    def _entry(self, found: _Found) -> dict[str, object]:
        try:
            splits = cut_file(
                found.path,
                found.form,
                size=found.size,
                modified=found.modified,
                options=self._options.cut,
            )
        except SourceError:  # listed all the same, so that reading it reports it in its turn
            status = found.size, found.modified
            splits = [FileSplit(found.path, found.form, 0, _EVERYTHING, *status)]
        return _page_entry(splits)


def _page_entry(splits: list[FileSplit]) -> dict[str, object]:
    one = splits[0]
    return {
        "path": one.path,
        "format": one.format,
        "size": one.size,
        "modified": one.modified,
        "splits": [[each.first, each.stop, each.n_rows] for each in splits],
    }


def _status(path: str) -> tuple[int, int] | None:
    """Return a file's size and time, or None if it is gone again."""
    try:
        status = Path(path).stat()
    except OSError as cause:
        raise_if_passing(cause, path)
        return None
    return status.st_size, status.st_mtime_ns


def _change(split: FileSplit) -> SourceError | None:
    try:
        status = _status(split.path)
    except OutageError:  # nothing is known of it now
        return None
    if status is None or status == (split.size, split.modified):
        return None
    return changed_error(split, status[0])


def encode_offset(n_splits: int) -> str:
    """Write an offset as the JSON that Spark's offset log holds."""
    return json.dumps({"splits": n_splits})


def decode_offset(text: str) -> int:
    """Read what `encode_offset` wrote."""
    return int(json.loads(text)["splits"])
