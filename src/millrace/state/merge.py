"""One slice of a merge: what it reads, what it leaves, and the rows it gives.

A merge of several runs is done in slices over many epochs. One slice takes from every input
the rows before a cut and writes them, in order, as one more piece of the output:

    output      [=======)                   after the slice  [===========)
    input old           [----|-------)                               [-------)
    input new           [---|----------)                            [----------)
                           cut

Invariant: before, between and after slices each row is in exactly one piece of the store.
A slice is part of an epoch's logged decisions; performing it twice gives the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from millrace import failpoints
from millrace.state.folding import folded, slim, widened
from millrace.state.order import sort_rows
from millrace.state.piece import Piece, Position
from millrace.state.root import Root
from millrace.state.run import read_piece

LAST_TIME = 1 << 63
"""One past the largest time."""
EPOCH = "_epoch"
"""The column that says, in merged runs of a queue, from which epoch a row is."""


@dataclass(frozen=True, slots=True)
class MergeInput:
    """What a slice takes from one run.

    `pieces` are its first pieces, the last of them cut if `rest` is given: the part that
    stays. If `epoch` is given, the rows are of one epoch of a queue; they get it as a column.
    """

    run: int
    pieces: tuple[Piece, ...]
    rest: Piece | None = None
    epoch: int | None = None

    @property
    def rows(self) -> int:
        """How many rows are taken."""
        return sum(piece.rows for piece in self.pieces)

    def to_json(self) -> list[Any]:
        """Give a compact JSON form."""
        rest = None if self.rest is None else self.rest.to_json()
        return [self.run, [piece.to_json() for piece in self.pieces], rest, self.epoch]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        run, pieces, rest, *more = fields  # there was no epoch in the first roots
        kept = None if rest is None else Piece.from_json(rest)
        return cls(run, tuple(Piece.from_json(piece) for piece in pieces), kept, *more)


@dataclass(frozen=True, slots=True)
class MergeStep:
    """One slice of one merge in one store; the older inputs come first.

    It takes the rows before `cut`, all of them if that is None. Rows older than `horizon` are
    not written.
    """

    store: str
    output: int
    level: int
    inputs: tuple[MergeInput, ...]
    cut: Position | None = None
    horizon: int | None = None
    fold: bool = False

    @property
    def rows(self) -> int:
        """How many rows are read, which is the most that can be written."""
        return sum(each.rows for each in self.inputs)

    @property
    def bytes(self) -> int:
        """About how many bytes are read."""
        return sum(piece.bytes for each in self.inputs for piece in each.pieces)

    @property
    def keys(self) -> tuple[int, int]:
        """The half-open range of keys that the slice touches."""
        pieces = [piece for each in self.inputs for piece in each.pieces]
        return min(piece.low[0] for piece in pieces), max(piece.high[0] for piece in pieces) + 1

    def to_json(self) -> list[Any]:
        """Give a compact JSON form."""
        inputs = [each.to_json() for each in self.inputs]
        return [self.store, self.output, self.level, inputs, self.cut, self.horizon, self.fold]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        store, output, level, inputs, cut, *more = fields  # the first roots know no folding
        taken = tuple(MergeInput.from_json(each) for each in inputs)
        return cls(store, output, level, taken, None if cut is None else tuple(cut), *more)


@dataclass(frozen=True, slots=True)
class MergeProgress:
    """A slice that was performed: `output` names what it wrote, None if no row was left."""

    step: MergeStep
    output: Piece | None

    def to_json(self) -> list[Any]:
        """Give a compact JSON form."""
        return [self.step.to_json(), None if self.output is None else self.output.to_json()]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        step, output = fields
        written = None if output is None else Piece.from_json(output)
        return cls(MergeStep.from_json(step), written)


def perform(root: Root, step: MergeStep) -> pa.Table:
    """Give the rows of a slice in order; of equal ones, those of the older run come first."""
    failpoints.reach("merge.before")
    times = None if step.horizon is None else (step.horizon, LAST_TIME)
    tables = [
        with_epoch(read_piece(root, piece, times=times), each.epoch)
        for each in step.inputs
        for piece in each.pieces
    ]
    if step.fold:
        names = list(dict.fromkeys(name for each in tables for name in each.column_names))
        whole = [widened(each, names) for each in tables]
        merged = slim(folded(sort_rows(pa.concat_tables(whole)), step.horizon))
    else:
        merged = sort_rows(pa.concat_tables(tables))
    failpoints.reach("merge.after")
    return merged


def with_epoch(rows: pa.Table, epoch: int | None) -> pa.Table:
    """Add the column `_epoch`, unless it is there already, as in what was merged."""
    if epoch is None or EPOCH in rows.column_names:
        return rows
    return rows.append_column(EPOCH, pa.array(np.full(rows.num_rows, epoch, np.int64)))
