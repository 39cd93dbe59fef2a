"""What the tables of a registry hold: files, and changes that are in no file yet.

The rows themselves are put together when somebody asks for them, and remembered until the next
change. A table is written as a whole when as many rows have changed as it has, so each change is
written about twice, however large the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from millrace.engine.tables import (
    COPIES,
    SEQUENCE,
    TABLES,
    TableFile,
    TableSpec,
    consolidated,
    read_changes,
)
from millrace.state import container
from millrace.state.container import Container
from millrace.state.names import Data
from millrace.state.root import Root

LEAST_WHOLE = 1_000
MOST_FILES = 64


@dataclass(slots=True, eq=False)
class Contents:
    """One table: its files, the changes since, and the number of the last change."""

    spec: TableSpec
    version: int
    files: list[TableFile] = field(default_factory=list)
    pending: list[tuple[int, pa.RecordBatch]] = field(default_factory=list)
    known: pa.Table | None = None
    """The rows and their copies after the last change, if somebody has asked."""
    counted: int | None = None
    """How many rows there are, if somebody has asked; kept up as they change."""

    def change(self, sequence: int, changes: pa.RecordBatch) -> None:
        """Take a change, which is durable."""
        self.pending.append((sequence, changes))
        if self.counted is not None:
            self.counted += _n_copies(changes)
        self.version, self.known = sequence, None

    def current(self, root: Root) -> pa.Table:
        """Return the rows with their copies as they are now."""
        if self.known is None:
            filed = read_changes(root, self.spec, self.files, None)
            fresh = [pa.Table.from_batches([each]) for _, each in self.pending]
            self.known = consolidated(pa.concat_tables([filed, *fresh]))
        return self.known

    def count(self, root: Root) -> int:
        """Return how many rows there are; only who asks first has to wait for the rows."""
        if self.counted is None:
            self.counted = _n_copies(self.current(root))
        return self.counted

    def publish(self, root: Root) -> tuple[TableFile, ...]:
        """Write the changes that are in no file yet; return the files of the table."""
        if self.pending:
            tables = [_numbered(*each) for each in self.pending]
            table = pa.concat_tables(tables).combine_chunks()
            since = max((each.until for each in self.files), default=self.spec.born)
            self.files.append(self._written(root, table, since))
            self.pending = []
            if self._much_has_changed():
                self._write_whole(root)
        return tuple(self.files)

    def forget(self, taken: int) -> None:
        """Name no longer the changes that all plans have taken, and that a whole file holds."""
        held = max((each.until for each in self.files if each.whole), default=0)
        self.files = [each for each in self.files if each.whole or each.until > min(held, taken)]

    def _much_has_changed(self) -> bool:
        whole = next((each for each in self.files if each.whole), None)
        held = self.spec.born if whole is None else whole.until
        since = [each for each in self.files if not each.whole and each.until > held]
        n_changed = sum(each.n_rows for each in since)
        n_rows = LEAST_WHOLE if whole is None else max(whole.n_rows, LEAST_WHOLE)
        return n_changed > n_rows or len(since) > MOST_FILES

    def _write_whole(self, root: Root) -> None:
        rows = self.current(root)
        whole = self._written(root, rows, self.spec.born, whole=True)
        self.files = [whole, *(each for each in self.files if not each.whole)]

    def _written(
        self, root: Root, table: pa.Table, since: int, *, whole: bool = False
    ) -> TableFile:
        batches = table.combine_chunks().to_batches() or [_nothing(table.schema)]
        meta = {"table": self.spec.name, "born": self.spec.born, "since": since, "whole": whole}
        sections: list[tuple[str, Data]] = [
            ("rows", batches[0].serialize()),
            ("schema", table.schema.serialize()),
        ]
        data = container.pack({**meta, "until": self.version}, sections)
        digest = xxhash.xxh3_64()
        for part in data:
            digest.update(part)
        name = f"{TABLES}/{self.version:012d}-{digest.hexdigest()}"
        root.put_if_absent(name, data)
        return TableFile(name, since, self.version, table.num_rows, whole)


def spelt_contents(
    contents: dict[str, Contents],
) -> tuple[dict[str, Any], list[tuple[str, Data]]]:
    """Spell what tables hold for a snapshot: files by name, pending changes as they are."""
    meta: dict[str, Any] = {}
    sections: list[tuple[str, Data]] = []
    for number, (name, each) in enumerate(contents.items()):
        meta[name] = {
            "version": each.version,
            "files": [file.to_json() for file in each.files],
            "pending": [sequence for sequence, _ in each.pending],
        }
        for at, (_, changes) in enumerate(each.pending):
            place = f"pending/{number}/{at}"
            sections += [(place, changes.serialize())]
    return meta, sections


def restored_contents(
    known: dict[str, Contents], meta: dict[str, Any], snapshot: Container, root: Root
) -> dict[str, Contents]:
    """Read what `spelt_contents` spelt of tables that are known; files that are gone are damage."""
    for number, (name, spelt) in enumerate(meta.items()):
        files = [TableFile(*each) for each in spelt["files"]]
        for file in files:
            Container.open(root, file.name)
        pending = [
            (sequence, _pending(snapshot, f"pending/{number}/{at}", known[name].spec))
            for at, sequence in enumerate(spelt["pending"])
        ]
        held = known[name]
        held.version, held.files, held.pending = spelt["version"], files, pending
    return known


def files_of(contents: dict[str, Contents]) -> Iterator[str]:
    """Give the names of all files in which tables are."""
    return (file.name for each in contents.values() for file in each.files)


def _pending(snapshot: Container, place: str, spec: TableSpec) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(snapshot.section(place), spec.changes)


def _numbered(sequence: int, changes: pa.RecordBatch) -> pa.Table:
    table = pa.Table.from_batches([changes])
    numbers = pa.array(np.full(changes.num_rows, sequence, np.int64))
    return table.append_column(SEQUENCE, numbers)


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in schema], schema=schema)


def _n_copies(changes: pa.RecordBatch | pa.Table) -> int:
    return int(pc.sum(changes.column(COPIES)).as_py() or 0)


def repeated(table: pa.Table) -> pa.Table:
    """Return rows as often as there are copies of them."""
    copies = table.column(COPIES).to_numpy()
    at = np.repeat(np.arange(len(copies)), copies)
    return table.drop_columns([COPIES]).take(pa.array(at))
