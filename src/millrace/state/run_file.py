"""A file of runs, opened: schemas, blocks and fences of every run in it.

A run is stored as blocks of at most 65,536 rows. A block is one section: an encapsulated
Arrow record batch, so that reading it is pointing into the mapped file. The directory keeps
for each block its rows, its first and last key, the range of its times, and which columns are
narrow (`narrow`); a section of fences keeps the key and time of every 4,096th row, from which
merges choose where to cut.

Invariant: what a reader asks of one block verifies that block and no other.

Cost: 100 bytes of JSON a block, 16 bytes a fence: 10,000,000 rows take 55 kB. Open files are
remembered, 1,024 in a process, since parsing a directory again costs more than mapping.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.errors import CorruptionError
from millrace.state.container import Container
from millrace.state.narrow import Narrow, stored_schema, widened
from millrace.state.order import Keys, Positions, Times
from millrace.state.root import Root

BLOCK_ROWS = 65_536
FENCE_ROWS = 4_096
REMEMBERED = 1_024
_FENCES = 5
"""So many numbers of a block are its fences; what follows are its narrow columns."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """What the directory says about the blocks of one run; `bounds` has one more than they."""

    bounds: Positions
    first_keys: Keys
    last_keys: Keys
    min_times: Times
    max_times: Times


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A block as it is stored: its keys and times are as they are, other columns may be narrow."""

    rows: pa.RecordBatch
    schema: pa.Schema
    narrow: Sequence[Narrow]

    def wide(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return some of the stored rows as they were given."""
        return widened(rows, self.schema, self.narrow)


class StoredRun:
    """One run of an opened file."""

    def __init__(self, container: Container, name: str, described: dict[str, Any]) -> None:
        self._container = container
        self._name = name
        self._described = described
        self._opened: dict[int, Block] = {}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns, `_key` and `_time` first."""
        message = self._container.section(f"schema:{self._described['schema']}")
        return pa.ipc.read_schema(message)

    @cached_property
    def blocks(self) -> Blocks:
        """The fences of the blocks."""
        fences = (each[:_FENCES] for each in self._described["blocks"])
        rows, first, last, low, high = zip(*fences, strict=True)
        return Blocks(
            np.concatenate(([0], np.cumsum(rows, dtype=np.intp))),
            np.array(first, dtype=np.uint64),
            np.array(last, dtype=np.uint64),
            np.array(low, dtype=np.int64),
            np.array(high, dtype=np.int64),
        )

    @cached_property
    def fences(self) -> tuple[Keys, Times]:
        """Key and time of every `FENCE_ROWS`-th row, from row 0 on."""
        section = self._container.section(f"{self._name}:fences")
        n_fences = section.size // 16
        keys = np.frombuffer(section, dtype="<u8", count=n_fences)
        times = np.frombuffer(section, dtype="<i8", offset=8 * n_fences)
        return keys, times

    def block(self, ordinal: int) -> Block:
        """Give one block, pointing into the mapped file."""
        found = self._opened.get(ordinal)
        if found is None:
            message = self._container.section(f"{self._name}:{ordinal}")
            described = self._described["blocks"][ordinal][_FENCES:]
            narrow = [Narrow.from_json(each) for each in described]
            rows = pa.ipc.read_record_batch(message, stored_schema(self.schema, narrow))
            found = self._opened[ordinal] = Block(rows, self.schema, narrow)
        return found


class RunFile:
    """A file that holds runs by name: one that a task wrote, or a commit."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self._runs: dict[str, StoredRun] = {}

    @property
    def meta(self) -> dict[str, Any]:
        """The document that was stored beside the runs."""
        document: dict[str, Any] = self.container.meta["meta"]
        return document

    def run(self, name: str) -> StoredRun:
        """Give the run of that name."""
        if name not in self._runs:
            described = self.container.meta["runs"].get(name)
            if described is None:
                raise CorruptionError(f'file "{self.container.name}" has no run "{name}"')
            self._runs[name] = StoredRun(self.container, name, described)
        return self._runs[name]


_remembered: OrderedDict[tuple[str, str], RunFile] = OrderedDict()
_lock = threading.Lock()


def opened(root: Root, name: str) -> RunFile:
    """Open a file of runs, or give the one this process has open."""
    place = (root.uri, name)
    with _lock:
        file = _remembered.get(place)
        if file is not None:
            _remembered.move_to_end(place)
            return file
    file = RunFile(Container.open(root, name))
    with _lock:
        file = _remembered.setdefault(place, file)
        while len(_remembered) > REMEMBERED:
            _remembered.popitem(last=False)
    return file


def forget(root: Root, *, keep: Collection[str] = ()) -> None:
    """Let go of the open files of `root` but those in `keep`.

    A deleted file takes its space on the disk for as long as somebody has it mapped.
    """
    kept = set(keep)
    with _lock:
        for place in [each for each in _remembered if each[0] == root.uri]:
            if place[1] not in kept:
                del _remembered[place]
