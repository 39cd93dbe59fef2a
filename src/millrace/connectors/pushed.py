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

Cost: appending is one file and two syncs however many batches; a file takes 50 us to list.
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
from millrace.state.names import Entry, MissingError, number_of, numbered
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
    """What is known of a file: its rows, the keys of its batches, and its mark."""

    n_rows: int = 0
    keys: tuple[str, ...] = ()
    mark: str = ""


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
        self._stop = -1  # the number behind the newest file that is known
        self._files: dict[int, _File] = {}
        self._first: dict[str, tuple[int, int]] = {}
        self._paged, self._seen, self._oldest = -1, 0, -1

    def append(self, batches: Sequence[Batch]) -> int:
        """Write batches durably as the next file; return its number."""
        mark = uuid.uuid4().hex
        data = _packed(batches, mark)
        if self._stop < 0:
            self.refresh()
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
        if self._stop < 0:
            numbers = self._numbers()
            self._stop = numbers[-1] + 1 if numbers else 0
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
        return [self._listed(number) for number in range(start, stop)]

    def consume(self, stop: int) -> None:
        """Delete the files before an offset, but for the newest; their keys are remembered."""
        newest = self.refresh() - 1
        doomed = [number for number in self._numbers() if number < min(stop, newest)]
        done = self._pages(DONE)
        fresh = [number for number in doomed if not done or number > done[-1]]
        if fresh:
            self._write_down(fresh, done)
        for number in doomed:
            self._root.delete(numbered(self._folder, number))
            self._files.pop(number, None)

    def _write_down(self, fresh: Sequence[int], done: Sequence[int]) -> None:
        """Remember the keys of files that are consumed now, then their marks."""
        files = {number: self._known(number) for number in fresh}
        keys = {key: number for number, file in files.items() for key in file.keys if key}
        if keys:
            page = numbered(f"{self._folder}/{KEYS}", fresh[-1])
            self._root.put(page, json.dumps(keys).encode())
            self._forget_keys()
        marks = {str(number): file.mark for number, file in files.items()}
        page = numbered(f"{self._folder}/{DONE}", fresh[-1])
        self._root.put(page, json.dumps(marks).encode())
        for old in done[: -KEPT_DONE + 1]:
            self._root.delete(numbered(f"{self._folder}/{DONE}", old))

    def backlog(self) -> int:
        """Return how many bytes wait to be counted, the newest file included."""
        return sum(each.size for each in self._entries())

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
            meta = Container.open(self._root, numbered(self._folder, number)).meta
            n_rows = sum(each["rows"] + each["rejected"] for each in meta["batches"])
            keys = tuple(each["key"] for each in meta["batches"])
            self._files[number] = _File(n_rows, keys, meta.get("mark", ""))
        return self._files[number]

    def _entries(self) -> list[Entry]:
        depth = self._folder.count("/") + 1
        found = self._root.list(f"{self._folder}/")
        return [each for each in found if each.name.count("/") == depth]

    def _numbers(self) -> list[int]:
        found = (number_of(each.name) for each in self._entries())
        return [number for number in found if number is not None]

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
        pages = self._pages(KEYS)
        for number in pages:
            if number > self._paged:
                page = self._page(number)
                for key, first in page.items():
                    if first >= start:  # the root was restored: it was not consumed yet
                        continue
                    known = self._first.get(key, (first, -1))
                    self._first[key] = min(known, (first, -1))
                self._paged = number
        if pages and pages[0] != self._oldest:
            self._oldest, kept = pages[0], self._page(pages[0])
            self._first = {
                key: place
                for key, place in self._first.items()
                if place[0] > self._oldest or key in kept
            }
        if self._seen < start:
            for number in self._numbers():
                if self._seen <= number < start:
                    self._listed(number)
            self._seen = start

    def _page(self, number: int) -> Mapping[str, int]:
        page: Mapping[str, int] = json.loads(
            self._root.get(numbered(f"{self._folder}/{KEYS}", number))
        )
        return page

    def _forget_keys(self) -> None:
        """Delete the oldest pages of keys beyond those that are to be remembered."""
        pages = self._root.list(f"{self._folder}/{KEYS}/")
        sizes = np.cumsum([len(json.loads(self._root.get(each.name))) for each in reversed(pages)])
        for entry, size in zip(reversed(pages), sizes.tolist(), strict=True):
            if size > 2 * KEPT_KEYS:
                self._root.delete(entry.name)


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
