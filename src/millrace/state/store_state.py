"""What a manifest knows of one store: a bag of sorted runs, the oldest first.

Transitions are pure: they give a new state and leave the old one as it was, so a reader of an
earlier manifest is not disturbed.

Invariant: the pieces of a run are disjoint and ascend by (key, time). A run whose `inputs` is
not empty is the unfinished output of a merge and stands right before the runs it consumes.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import pyarrow as pa

from millrace.state.merge import MergeInput, MergeProgress
from millrace.state.piece import Piece


@dataclass(frozen=True, slots=True)
class Run:
    """A sorted run: `epoch` is the newest epoch whose rows it holds."""

    id: int
    level: int
    epoch: int
    pieces: tuple[Piece, ...]
    inputs: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows are alive."""
        return sum(piece.rows for piece in self.pieces)

    @property
    def max_time(self) -> int:
        """No row is later than this."""
        return max(piece.max_time for piece in self.pieces)

    def to_json(self) -> list[Any]:
        """Give a compact JSON form."""
        pieces = [piece.to_json() for piece in self.pieces]
        return [self.id, self.level, self.epoch, pieces, list(self.inputs)]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        id_, level, epoch, pieces, inputs = fields
        return cls(id_, level, epoch, tuple(map(Piece.from_json, pieces)), tuple(inputs))


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """What a store is created with.

    A `queue` holds results of epochs that wait for their sinks, a run an epoch. Runs that are
    kept on for other readers may be merged; their rows then say from which epoch they are.
    Where runs `fold`, a merge adds up equal rows (`state.folding`).
    """

    schema: pa.Schema
    queue: bool = False
    fold: bool = False

    def to_json(self) -> list[Any]:
        """Give a JSON form; the schema is an Arrow message in base 64."""
        return [base64.b64encode(self.schema.serialize()).decode(), self.queue, self.fold]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        schema, *flags = fields  # the first roots know no folding
        return cls(pa.ipc.read_schema(pa.py_buffer(base64.b64decode(schema))), *flags)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class StoreState:
    """The runs of one store after some epoch; the oldest run comes first."""

    spec: StoreSpec
    runs: tuple[Run, ...] = ()
    next_id: int = 0
    dropped_epoch: int = -1
    """The newest epoch of which rows were dropped."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of every run."""
        return self.spec.schema

    @property
    def queue(self) -> bool:
        """Whether runs are those of epochs, and merged only when no sink waits for them."""
        return self.spec.queue

    @property
    def rows(self) -> int:
        """How many rows are alive, expired ones that no merge has met included."""
        return sum(run.rows for run in self.runs)

    def with_run(self, pieces: Sequence[Piece], epoch: int) -> Self:
        """Add a run, the newest, made of `pieces`."""
        ordered = tuple(sorted(pieces, key=lambda piece: piece.low))
        _check_disjoint(ordered)
        run = Run(self.next_id, 0, epoch, ordered)
        return replace(self, runs=(*self.runs, run), next_id=self.next_id + 1)

    def without(self, ids: Collection[int]) -> Self:
        """Drop runs."""
        kept = (run for run in self.runs if run.id not in ids)
        epochs = [run.epoch for run in self.runs if run.id in ids]
        return replace(
            self,
            runs=tuple(_consuming(run, ids) for run in kept),
            dropped_epoch=max([self.dropped_epoch, *epochs]),
        )

    def merged(self, progress: MergeProgress) -> Self:
        """Trim the inputs of a slice and append what it wrote to the output."""
        step = progress.step
        taken = {each.run: each for each in step.inputs}
        existing = {run.id: run for run in self.runs}
        inputs = [existing[id_] for id_ in taken]
        fresh = Run(step.output, step.level, max(run.epoch for run in inputs), (), tuple(taken))
        output = existing.get(step.output, fresh)
        trimmed = {run.id: _trimmed(run, taken[run.id]) for run in inputs}
        written = () if progress.output is None else (progress.output,)
        left = tuple(id_ for id_ in output.inputs if trimmed.get(id_, existing[id_]).pieces)
        output = replace(output, pieces=output.pieces + written, inputs=left)
        _check_disjoint(output.pieces[-2:])

        runs: list[Run] = []
        for run in self.runs:
            if run.id == step.output or (step.output not in existing and run.id == inputs[0].id):
                runs.append(output)
            if run.id != step.output:
                runs.append(trimmed.get(run.id, run))
        alive = tuple(run for run in runs if run.pieces or run.inputs)
        return replace(self, runs=alive, next_id=max(self.next_id, step.output + 1))

    def to_json(self) -> list[Any]:
        """Give a compact JSON form."""
        runs = [run.to_json() for run in self.runs]
        return [self.spec.to_json(), runs, self.next_id, self.dropped_epoch]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        spec, runs, next_id, *more = fields  # the first roots do not say what was dropped
        return cls(StoreSpec.from_json(spec), tuple(map(Run.from_json, runs)), next_id, *more)


def _check_disjoint(pieces: Sequence[Piece]) -> None:
    for left, right in pairwise(pieces):
        assert left.high <= right.low, f"pieces of one run overlap: {left} and {right}"


def _consuming(run: Run, gone: Collection[int]) -> Run:
    if not run.inputs:
        return run
    return replace(run, inputs=tuple(id_ for id_ in run.inputs if id_ not in gone))


def _trimmed(run: Run, taken: MergeInput) -> Run:
    """Remove from `run` what a slice took."""
    count = len(taken.pieces)
    for ours, theirs in zip(run.pieces[:count], taken.pieces, strict=True):
        same = (ours.file, ours.run, ours.first) == (theirs.file, theirs.run, theirs.first)
        assert same, f"a slice takes {theirs} where the run has {ours}"
    rest = () if taken.rest is None else (taken.rest,)
    return replace(run, pieces=rest + run.pieces[count:])
