"""A table as it was declared, and the files in which its changes travel to the shards.

A change of a table is rows that come (+) or go (-), each with the number of the registry's change
that brought it. When a catalog is published, the changes since the last one become a file; now and
then another file holds the table as a whole, so that a plan that begins reads little.

    tables/…12   whole, after change 12
    tables/…12   changes 3 to 12        needed by plans that have not taken all of them
    tables/…15   changes 13 to 15

Invariant: the files of changes of one table follow each other without a gap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from millrace.engine.streams import check_name
from millrace.errors import CorruptionError, PlanError, SchemaError
from millrace.kernels.arrays import Ints
from millrace.operators.relational.equal import numbered
from millrace.plan.bind import nearest
from millrace.schema import Schema
from millrace.state.container import Container
from millrace.state.root import Root

TABLES = "tables"
COPIES = "_copies"
SEQUENCE = "_sequence"
"""The columns of changes: how many copies of a row come or go, and by which change."""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """The declaration of a table; `born` is the number of the change that declared it."""

    name: str
    schema: Schema
    key: tuple[str, ...] = ()
    born: int = 0

    def __post_init__(self) -> None:
        check_name("table", self.name)
        for name in self.key:
            if name not in self.schema:
                raise SchemaError(
                    f'key column "{name}" does not exist in table "{self.name}"',
                    detail=f"The columns are {', '.join(self.schema.names)}.",
                    hint=nearest(name, list(self.schema.names)),
                )
        if len(set(self.key)) < len(self.key):
            raise PlanError(f'the key of table "{self.name}" names a column twice')

    @property
    def changes(self) -> pa.Schema:
        """The columns of a change."""
        return pa.schema([*self.schema.to_arrow(), pa.field(COPIES, pa.int64())])

    def to_json(self) -> dict[str, Any]:
        """Spell the declaration as JSON."""
        schema = self.schema.to_json()
        return {"name": self.name, "schema": schema, "key": list(self.key), "born": self.born}

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        schema = Schema.from_json(spelt["schema"])
        return cls(spelt["name"], schema, tuple(spelt["key"]), spelt["born"])


@dataclass(frozen=True, slots=True)
class TableFile:
    """A file of a table: changes after `since` up to `until`, or all of it after `until`."""

    name: str
    since: int
    until: int
    n_rows: int
    whole: bool = False

    def to_json(self) -> list[Any]:
        """Spell the name of the file and what is in it."""
        return [self.name, self.since, self.until, self.n_rows, self.whole]


def read_changes(
    root: Root,
    spec: TableSpec,
    files: Sequence[TableFile],
    taken: int | None,
    *,
    numbered: bool = False,
) -> pa.Table:
    """Return what a plan has not taken of a table: rows, and the copies that come or go.

    `taken` is the number of the last change that it has taken; None begins with all there is. Rows
    may be `numbered` by the change that brought them, 0 if that is not known any more.
    """
    columns = pa.schema([*spec.changes, *([pa.field(SEQUENCE, pa.int64())] if numbered else [])])
    tables = [columns.empty_table()]
    for file in wanted_files(spec, files, taken):
        table = read_file(root, file.name)
        if taken is not None and file.since < taken:
            later = table.column(SEQUENCE).to_numpy() > taken
            table = table.filter(pa.array(later))
        if SEQUENCE not in table.column_names:
            table = table.append_column(SEQUENCE, pa.array(np.zeros(table.num_rows, np.int64)))
        tables.append(table.select(columns.names))
    return pa.concat_tables(tables)


def wanted_files(
    spec: TableSpec, files: Sequence[TableFile], taken: int | None
) -> Iterator[TableFile]:
    """Yield the files in which what a plan has not taken of a table is."""
    whole = max((each for each in files if each.whole), key=lambda each: each.until, default=None)
    after = spec.born if taken is None else taken
    if taken is None and whole is not None:
        yield whole
        after = whole.until
    some = sorted((each for each in files if not each.whole and each.until > after),
                  key=lambda each: each.until)  # fmt: skip
    if some and some[0].since > after:
        raise CorruptionError(
            f'changes {after + 1} to {some[0].since} of table "{spec.name}" are missing',
            hint="Restore the root from a copy.",
        )
    yield from some


def read_file(root: Root, name: str) -> pa.Table:
    """Read a file of a table."""
    file = Container.open(root, name)
    schema = pa.ipc.read_schema(file.section("schema"))
    return pa.Table.from_batches([pa.ipc.read_record_batch(file.section("rows"), schema)])


def consolidated(changes: pa.Table) -> pa.Table:
    """Add up changes: equal rows become one, and those that came and went are gone.

    >>> table = pa.table({"a": [1, 2, 1], "_copies": [1, 1, -1]})
    >>> consolidated(table).to_pylist()
    [{'a': 2, '_copies': 1}]
    """
    batches = changes.combine_chunks().to_batches()
    if not batches:
        return changes
    [batch] = batches
    copies: Ints = batch.column(COPIES).to_numpy()
    rows = batch.drop_columns([COPIES])
    numbers, firsts = numbered(rows)
    net = np.bincount(numbers, copies, len(firsts)).astype(np.int64)
    order = np.argsort(firsts, kind="stable")
    order = order[net[order] != 0]
    kept = rows.take(pa.array(firsts[order]))
    return pa.Table.from_batches([kept]).append_column(COPIES, pa.array(net[order]))
