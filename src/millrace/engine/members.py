"""Members: the queries of a family that is one join, and elements as such a join takes them.

The join asks of each element which queries see it: those that had entered when it came. So an
element is there once, whatever births there are, with the epoch in which it has come; and a query
knows the epoch in which it entered.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.births import Births
from millrace.engine.elements import StoredElements, as_elements
from millrace.engine.plan_stores import EPOCH
from millrace.engine.query_rows import queries_spec
from millrace.engine.tables import (
    COPIES,
    TableFile,
    TableSpec,
    consolidated,
    read_changes,
    wanted_files,
)
from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.operators.relational.slab import Elements
from millrace.operators.relational.timed import OPEN, empty_rows, rows_of
from millrace.plan.levels import CAME, QUERY
from millrace.state.root import Root


@dataclass(frozen=True, slots=True)
class StandingMembers:
    """The queries of a family, as its files say."""

    root: Root
    files: Sequence[TableFile]
    types: tuple[pa.DataType, ...]
    births: Births

    @property
    def version(self) -> Hashable:
        """The names of the files, which are named by what is in them, and who is left out."""
        return tuple(each.name for each in self._files()), self.births.leaving

    def rows(self) -> pa.RecordBatch:
        """Return their ids, the changes that they came with, and their parameters."""
        return self._one(self._read(self._files(), None).drop_columns([COPIES]))

    def since(self, version: Hashable) -> tuple[pa.RecordBatch, pa.RecordBatch] | None:
        """Return those that have gone and those that have come since another version.

        That is known where files have only come behind those of the other one, which are named by
        what is in them.
        """
        files = self._files()
        match version:
            case (tuple(names), self.births.leaving) if names:
                if names != tuple(each.name for each in files[: len(names)]):
                    return None
                changes = self._read(files[len(names) :], files[len(names) - 1].until)
                copies = changes.column(COPIES).to_numpy()
                rows = changes.drop_columns([COPIES])
                gone, come = (rows.filter(pa.array(each)) for each in (copies < 0, copies > 0))
                return self._one(gone), self._one(come)
        return None

    @property
    def _spec(self) -> TableSpec:
        return queries_spec("queries", self.types)

    def _files(self) -> list[TableFile]:
        """Return the files that say who they are: a whole one, and changes since."""
        return [*wanted_files(self._spec, self.files, None)]

    def _read(self, files: Sequence[TableFile], taken: int | None) -> pa.Table:
        """Return what files say has come and gone, but for those who are left out."""
        changes = consolidated(read_changes(self.root, self._spec, files, taken))
        if self.births.leaving:
            out = pa.array([qid for qid, _ in self.births.leaving], pa.int64())
            changes = changes.filter(pc.invert(pc.is_in(changes.column(QUERY), out)))
        return changes

    def _one(self, rows: pa.Table) -> pa.RecordBatch:
        batches = rows.combine_chunks().to_batches()
        return batches[0] if batches else empty_rows(self._spec.schema.to_arrow())

    def entered(self, born: Ints) -> Ints:
        """Return the epochs from which on those see elements that came with some changes."""
        births = sorted(self.births.alive, key=lambda each: each.until)
        last_ones = np.array([*(each.until for each in births), OPEN], np.int64)
        epochs = np.array([*(each.entered for each in births), OPEN - 1], np.int64)
        found: Ints = epochs[np.searchsorted(last_ones, born)]
        return np.where(born <= self.births.eldest, 0, found)


@dataclass(frozen=True, slots=True)
class Marked:
    """Elements of the past with the epochs in which they have come."""

    stored: StoredElements

    def between(self, stream: str, begin: int, end: int) -> Elements:
        """Return those whose time is in [begin, end)."""
        return self._marked(self.stored.before(stream, begin, end))

    def of(self, stream: str, keys: Hashes, after: int) -> Elements:
        """Return those of some keys whose time is greater than `after`."""
        return self._marked(self.stored.keyed(stream, keys, after))

    def having(self, stream: str, keys: Hashes, after: int) -> Bools:
        """Say which of some keys there may be elements of whose time is greater than `after`."""
        return self.stored.having(stream, keys, after)

    def _marked(self, table: pa.Table) -> Elements:
        return marked(as_elements(table), table.column(EPOCH).to_numpy())


def marked(elements: Elements, epochs: Ints) -> Elements:
    """Return elements with the epochs in which they have come."""
    columns = [*elements.rows.columns, pa.array(epochs.astype(np.int64))]
    names = [*elements.rows.schema.names, CAME]
    return Elements(rows_of(columns, names, len(elements)), elements.times)
