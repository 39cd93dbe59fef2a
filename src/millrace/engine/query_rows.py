"""The queries of a family as a table: a row of parameters each, and the change that brought it.

They are registered, changed and dropped like all queries, by their ids. The plan of the family
reads them as it reads a table: as rows that come and rows that go. What goes is known by its id
alone when that is recorded, and becomes a whole row when it is published.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.contents import Contents
from millrace.engine.tables import COPIES, TableFile, TableSpec, consolidated, read_changes
from millrace.kernels.arrays import Hashes
from millrace.plan.levels import QUERY
from millrace.schema import Column, Schema
from millrace.state.root import Root

BORN = "born"
"""The column of the change that brought a query."""


def queries_spec(name: str, types: Sequence[pa.DataType]) -> TableSpec:
    """Return the table of a family's queries."""
    fixed = Column(QUERY, pa.int64()), Column(BORN, pa.int64())
    parameters = (Column(f"p{at}", each) for at, each in enumerate(types))
    return TableSpec(name, Schema((*fixed, *parameters)))


def comings(queries: pa.Table) -> Iterator[tuple[int, int]]:
    """Yield the ids of queries, with the changes that brought them."""
    return zip(*(queries.column(each).to_pylist() for each in (QUERY, BORN)), strict=True)


@dataclass(slots=True, eq=False)
class QueryRows(Contents):
    """The queries of one family; `counts` says how many of those in files came with each change."""

    counts: Counter[int] | None = field(default=None, init=False)

    def add(self, sequence: int, qids: Hashes, parameters: pa.RecordBatch) -> None:
        """Take queries that come."""
        n_rows = len(qids)
        columns = [
            pa.array(qids.astype(np.int64)),
            pa.array(np.full(n_rows, sequence, np.int64)),
            *parameters.columns,
            pa.array(np.ones(n_rows, np.int64)),
        ]
        self.change(sequence, pa.RecordBatch.from_arrays(columns, schema=self.spec.changes))

    def remove(self, sequence: int, qids: Hashes) -> None:
        """Take queries that go, if they are of this family."""
        n_rows = len(qids)
        unknown = [pa.nulls(n_rows, each.type) for each in list(self.spec.changes)[1:-1]]
        columns = [
            pa.array(qids.astype(np.int64)),
            *unknown,
            pa.array(np.full(n_rows, -1, np.int64)),
        ]
        self.change(sequence, pa.RecordBatch.from_arrays(columns, schema=self.spec.changes))

    def current(self, root: Root) -> pa.Table:
        """Return the queries as they are now."""
        self._resolve(root)
        return Contents.current(self, root)

    def publish(self, root: Root) -> tuple[TableFile, ...]:
        """Write the changes that are in no file yet; return the files."""
        if self.counts is None:
            filed = read_changes(root, self.spec, self.files, None)
            self.counts = _counted(filed)
        self._resolve(root)
        for _, changes in self.pending:
            self.counts.update(_counted(pa.Table.from_batches([changes])))
        return Contents.publish(self, root)

    @property
    def born(self) -> tuple[int, ...]:
        """The changes that brought the queries that are published."""
        return tuple(sorted(each for each, copies in (self.counts or {}).items() if copies))

    def _resolve(self, root: Root) -> None:
        """Make whole rows of what goes."""
        if not any(each.column(BORN).null_count for _, each in self.pending):
            return
        rows = consolidated(read_changes(root, self.spec, self.files, None))
        resolved = []
        for sequence, changes in self.pending:
            batches = [changes]
            if changes.column(BORN).null_count:
                going = pc.is_in(rows.column(QUERY), changes.column(QUERY))
                batches = _negative(rows.filter(going)).to_batches()
                rows = rows.filter(pc.invert(going))
            else:
                rows = pa.concat_tables([rows, pa.Table.from_batches([changes])])
            resolved += [(sequence, each) for each in batches]
        self.pending = resolved


def _counted(changes: pa.Table) -> Counter[int]:
    """Count the queries that came with each change, less those that go."""
    found: Counter[int] = Counter()
    grouped = changes.group_by(BORN, use_threads=False).aggregate([(COPIES, "sum")])
    for born, copies in zip(
        *(grouped.column(each).to_pylist() for each in (BORN, f"{COPIES}_sum")), strict=True
    ):
        found[born] = copies
    return found


def _negative(rows: pa.Table) -> pa.Table:
    """Return rows that go."""
    back = pa.array(np.full(rows.num_rows, -1, np.int64))
    return rows.set_column(rows.num_columns - 1, COPIES, back).combine_chunks()
