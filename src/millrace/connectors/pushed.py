"""The push log: batches that clients sent, in numbered files, each read once.

    pushed/trades_3/000000000041     batches of several clients, synced before any is acknowledged
    pushed/trades_3/000000000042     the newest file stays, so that numbers are never given twice
    pushed/trades_3/keys/000000000040    keys of batches in files that were consumed, up to that one
    pushed/trades_3/done/000000000040    marks of the files that were consumed, up to that one

Anybody may append: the next number is taken by exclusive creation, so the numbers of a stream have
no gap, and whoever reads them up to n has read all there is. An offset is a number of files.

Who has not appended for long may take a number whose file was consumed and deleted meanwhile. So
each file has a mark of its own, and what was consumed is written down before it is deleted: an
append is acknowledged when its number was not consumed, or when what was consumed is its own file.
Otherwise it takes another number.

A batch may carry a key. Of batches with the same key the one in the file of the least number
counts, and the first of them there; the others are left out when the files are listed. That is a
function of the files alone, so it does not matter which process lists them, or how often.

Pages of keys are merged as a binary counter carries, so that there are as many as the logarithm of
how many keys are remembered.

Cost: appending is one file and two syncs however many batches; a file takes 50 us to list. What an
epoch costs follows from what is new in it, however many files wait: the folder is listed once by
each process, and later only numbers that may have come are looked for.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.connectors.formats.decoded import REJECTS, Decoded
from millrace.schema import Schema, conform
from millrace.state import container
from millrace.state.container import Container
from millrace.state.names import MissingError, number_of, numbered
from millrace.state.root import Root

PUSHED = "pushed"
KEYS = "keys"
KEPT_KEYS = 100_000
"""So many keys of consumed batches are remembered at least."""
DONE = "done"
PAGES = (KEYS, DONE)
KEPT_DONE = 64
"""Of so many times that files were consumed their marks are known."""


@dataclass(frozen=True, slots=True)
class Pushed:
    """The source of a stream whose rows clients push."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """What one client sent in one call: rows that fit the stream, and those that do not.

    `origin` says who sent it, `key` is the client's own, by which it is counted once.
    """

    rows: pa.RecordBatch
    origin: str
    key: str = ""
    rejects: pa.Table = field(default_factory=REJECTS.empty_table)


@dataclass(frozen=True, slots=True)
class PushedFile:
    """One file of the log: its number, its rows, and which of its batches do not count."""

    number: int
    n_rows: int
    skipped: tuple[int, ...] = ()

    def to_json(self) -> list[Any]:
        """Spell it for a descriptor."""
        return [self.number, self.n_rows, list(self.skipped)]

    @classmethod
    def from_json(cls, spelt: Sequence[Any]) -> PushedFile:
        """Read what `to_json` wrote."""
        number, n_rows, skipped = spelt
        return cls(number, n_rows, tuple(skipped))


@dataclass(frozen=True, slots=True)
class _File:
    """What is known of a file: its rows, the keys of its batches, its mark, and its size."""

    n_rows: int = 0
    keys: tuple[str, ...] = ()
    mark: str = ""
    n_bytes: int = 0


def folder_of(stream: str, born: int) -> str:
    """Name the folder of a stream's log; one that is dropped and declared again has another.

    >>> folder_of("my trades", 7)
    'pushed/my_trades_7'
    """
    plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in stream)
    return f"{PUSHED}/{plain}_{born}"


class PushLog:
    """The log of one stream, as any process sees it."""

    def __init__(self, root: Root, folder: str) -> None:
        self._root, self._folder = root, folder
        self._early: list[int] = []  # the numbers that were there at the first look
        self._low = 0  # the least number that came later, and whose file may be there
        self._stop = -1  # the number behind the newest file that is known
        self._files: dict[int, _File] = {}
        self._first: dict[str, tuple[int, int]] = {}
        self._paged, self._seen, self._oldest = -1, 0, -1
        self._sizes: dict[int, int] = {}  # how many keys each page has

    def append(self, batches: Sequence[Batch]) -> int:
        """Write batches durably as the next file; return its number."""
        mark = uuid.uuid4().hex
        data = _packed(batches, mark)
        self._look_around()
        while True:
            number, self._stop = self._stop, self._stop + 1
            if not self._root.put_if_absent(numbered(self._folder, number), data):
                continue
            if self._counts(number, mark):
                return number
            self._root.delete(numbered(self._folder, number))
            self._stop = max((each + 1 for each in self._numbers()), default=self._stop)

    def _counts(self, number: int, mark: str) -> bool:
        """Say whether a file that was just created is read, or was: its number was not used."""
        pages = self._pages(DONE)
        if not pages or number > pages[-1]:
            return True
        mine = next(page for page in pages if number <= page)
        try:
            found = json.loads(self._root.get(numbered(f"{self._folder}/{DONE}", mine)))
        except MissingError:  # it was so long ago that nobody knows; better twice than never
            return False
        return bool(found.get(str(number)) == mark)

    def refresh(self) -> int:
        """Look for new files; return the latest offset."""
        self._look_around()
        while self._exists(self._stop):
            self._stop += 1
        return self._stop

    def advance(self, start: int, max_rows: int) -> int:
        """Return the offset behind as many files as hold `max_rows`, and at least one."""
        stop, n_rows = start, 0
        while stop < self._stop:
            n_rows += self._known(stop).n_rows
            if n_rows > max_rows and stop > start:
                break
            stop += 1
        return stop

    def files(self, start: int, stop: int) -> list[PushedFile]:
        """Return the files of the offsets `[start, stop)`, with what does not count in them."""
        self._load_keys(start)
        listed = [self._listed(number) for number in range(start, stop)]
        self._seen = max(self._seen, stop)
        return listed

    def consume(self, stop: int) -> None:
        """Delete the files before an offset, but for the newest; their keys are remembered."""
        newest = self.refresh() - 1
        doomed = self._between(0, min(stop, newest))
        done = self._pages(DONE)
        fresh = [number for number in doomed if not done or number > done[-1]]
        if fresh:
            self._write_down(fresh, done)
        for number in doomed:
            self._root.delete(numbered(self._folder, number))
        self._forget_files(min(stop, newest))

    def _write_down(self, fresh: Sequence[int], done: Sequence[int]) -> None:
        """Remember the keys of files that are consumed now, then their marks."""
        files = {number: self._known(number) for number in fresh}
        keys = {key: number for number, file in files.items() for key in file.keys if key}
        if keys:
            self._write_keys(fresh[-1], keys)
        marks = {str(number): file.mark for number, file in files.items()}
        page = numbered(f"{self._folder}/{DONE}", fresh[-1])
        self._root.put(page, json.dumps(marks).encode())
        for old in done[: -KEPT_DONE + 1]:
            self._root.delete(numbered(f"{self._folder}/{DONE}", old))

    def _write_keys(self, number: int, keys: dict[str, int]) -> None:
        """Write a page of keys, with those of newer pages that are no larger; forget the oldest."""
        pages, gone = self._pages(KEYS), list[int]()
        while pages and self._size(pages[-1]) <= min(len(keys), KEPT_KEYS - len(keys)):
            keys = {**keys, **self._page(pages[-1])}
            gone.append(pages.pop())
        self._root.put(numbered(f"{self._folder}/{KEYS}", number), json.dumps(keys).encode())
        self._sizes[number] = n_newer = len(keys)
        for each in reversed(pages):
            if n_newer >= KEPT_KEYS:
                gone.append(each)
            n_newer += self._size(each)
        for each in gone:
            self._root.delete(numbered(f"{self._folder}/{KEYS}", each))
            self._sizes.pop(each, None)

    def _size(self, page: int) -> int:
        if page not in self._sizes:
            self._sizes[page] = len(self._page(page))
        return self._sizes[page]

    def backlog(self) -> int:
        """Return how many bytes wait to be counted, the newest file included."""
        stop, done = self.refresh(), self._pages(DONE)
        if done:
            self._forget_files(min(done[-1] + 1, stop))
        return sum(self._known(number).n_bytes for number in self._between(0, stop))

    def _between(self, start: int, stop: int) -> list[int]:
        """Return the numbers of `[start, stop)` whose files may be there."""
        early = [number for number in self._early if start <= number < stop]
        return [*early, *range(max(start, self._low), stop)]

    def _forget_files(self, stop: int) -> None:
        """Forget what is known of files before a number, which are consumed."""
        for number in self._between(0, stop):
            self._files.pop(number, None)
        self._early = [number for number in self._early if number >= stop]
        self._low = max(self._low, stop)

    def _known(self, number: int) -> _File:
        """Return what is known of a file; one that is gone is empty."""
        return self._read(number) if self._exists(number) else _File()

    def _exists(self, number: int) -> bool:
        try:
            self._read(number)
        except MissingError:
            return False
        return True

    def _read(self, number: int) -> _File:
        if number not in self._files:
            opened = Container.open(self._root, numbered(self._folder, number))
            meta = opened.meta
            n_rows = sum(each["rows"] + each["rejected"] for each in meta["batches"])
            keys = tuple(each["key"] for each in meta["batches"])
            self._files[number] = _File(n_rows, keys, meta.get("mark", ""), opened.size)
        return self._files[number]

    def _look_around(self) -> None:
        """Learn which numbers there are; the folder is listed for that, the first time only."""
        if self._stop < 0:
            self._early = self._numbers()
            self._low = self._stop = self._early[-1] + 1 if self._early else 0

    def _numbers(self) -> list[int]:
        depth = self._folder.count("/") + 1
        found = self._root.list(f"{self._folder}/")
        numbers = (number_of(each.name) for each in found if each.name.count("/") == depth)
        return [number for number in numbers if number is not None]

    def _pages(self, kind: str) -> list[int]:
        """Return the numbers of pages about what was consumed, ascending."""
        found = (number_of(each.name) for each in self._root.list(f"{self._folder}/{kind}/"))
        return [number for number in found if number is not None]

    def _listed(self, number: int) -> PushedFile:
        file = self._known(number)
        skipped = tuple(
            at
            for at, key in enumerate(file.keys)
            if key and self._first.setdefault(key, (number, at)) < (number, at)
        )
        return PushedFile(number, file.n_rows, skipped)

    def _load_keys(self, start: int) -> None:
        """Learn the keys of what stands before an offset; each page and file is read once.

        Those of pages that are no longer there are forgotten.
        """
        pages, fresh = self._fresh_pages()
        for number, page in fresh.items():
            for key, first in page.items():
                if first >= start:  # the root was restored: it was not consumed yet
                    continue
                known = self._first.get(key, (first, -1))
                self._first[key] = min(known, (first, -1))
            self._paged = max(self._paged, number)
        if pages and pages[0] != self._oldest:
            self._oldest, kept = pages[0], fresh[pages[0]]
            self._first = {
                key: place
                for key, place in self._first.items()
                if place[0] > self._oldest or key in kept
            }
        self._look_around()
        for number in self._between(self._seen, start):
            self._listed(number)
        self._seen = max(self._seen, start)

    def _fresh_pages(self) -> tuple[list[int], dict[int, Mapping[str, int]]]:
        """Return which pages of keys there are, and those that are new or are now the oldest."""
        while True:
            pages = self._pages(KEYS)
            oldest = {*pages[:1]} - {self._oldest}
            try:
                return pages, {
                    number: self._page(number)
                    for number in pages
                    if number > self._paged or number in oldest
                }
            except MissingError:  # it was merged meanwhile
                continue

    def _page(self, number: int) -> Mapping[str, int]:
        page: Mapping[str, int] = json.loads(
            self._root.get(numbered(f"{self._folder}/{KEYS}", number))
        )
        return page


def read_file(
    root: Root, folder: str, file: PushedFile, schema: Schema
) -> Iterator[tuple[Decoded, str]]:
    """Yield the batches of a file that count, each with who sent it; ordinals count within it."""
    opened = Container.open(root, numbered(folder, file.number))
    for at, batch in enumerate(opened.meta["batches"]):
        if at in file.skipped:
            continue
        rows = _rows(opened, at, schema)
        kept = np.ones(batch["rows"] + batch["rejected"], np.bool_)
        rejects = _table(opened, at) if batch["rejected"] else REJECTS.empty_table()
        kept[rejects.column("ordinal").to_numpy()] = False
        yield Decoded(rows, np.flatnonzero(kept), rejects), batch["origin"]


def _rows(opened: Container, at: int, schema: Schema) -> pa.RecordBatch:
    written = pa.ipc.read_schema(opened.section(f"schema/{at}"))
    return conform(pa.ipc.read_record_batch(opened.section(f"rows/{at}"), written), schema)


def _table(opened: Container, at: int) -> pa.Table:
    return pa.ipc.open_stream(opened.section(f"rejects/{at}")).read_all()


def _packed(batches: Sequence[Batch], mark: str) -> list[memoryview]:
    sections: list[tuple[str, Any]] = []
    spelt = []
    for at, each in enumerate(batches):
        sections += [
            (f"schema/{at}", each.rows.schema.serialize()),
            (f"rows/{at}", each.rows.serialize()),
        ]
        if each.rejects.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, each.rejects.schema) as writer:
                writer.write_table(each.rejects)
            sections.append((f"rejects/{at}", sink.getvalue()))
        sizes = {"rows": each.rows.num_rows, "rejected": each.rejects.num_rows}
        spelt.append({"origin": each.origin, "key": each.key, **sizes})
    return container.pack({"batches": spelt, "mark": mark}, sections)
