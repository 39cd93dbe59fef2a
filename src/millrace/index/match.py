"""Matching: which standing queries a batch of rows satisfies.

    rows ─► codes of the columns that queries test ─► candidate pairs of each group
         ─► less the queries that are out ─► residual conditions, on the pairs that are left

A column is computed once a batch, however many queries and files test it; that is where a
registered function is called. A function that raises fails the queries that use it, and no other.

Where boxes alone decide and only counts are asked, which queries hold a row is never more than
words of bits inside an access method. Else it is a list of pairs; a batch in which most rows
satisfy many queries is cut so that there are never very many of them at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import numpy as np
import pyarrow as pa

from millrace.index.access import METHODS
from millrace.index.chooser import SAMPLE_ROWS, choose
from millrace.index.pieces import pieces, rows_at_once
from millrace.index.run import Group, IndexRun, StoredFamily
from millrace.index.text.group import TextIndex
from millrace.index.verify import Verifier
from millrace.kernels.arrays import Bools, Ints, Ints32
from millrace.operators.codes import NULL_CODE, codes_of
from millrace.operators.evaluate import Function, Memo, evaluate
from millrace.plan.expressions import Expression


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """An index file, and which of its slots are out: dropped, paused or suspended."""

    run: IndexRun
    out: Bools | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Rows and the slots of the queries that they satisfy, in one file."""

    run: IndexRun
    rows: Ints32
    slots: Ints32


@dataclass(slots=True, eq=False)
class Failures:
    """Queries that could not be evaluated, and why."""

    causes: dict[int, Exception] = field(default_factory=dict)

    def add(self, qids: Iterable[int], cause: Exception) -> None:
        """Remember the first cause of each query."""
        for qid in qids:
            self.causes.setdefault(int(qid), cause)


class BatchCodes:
    """The codes of one batch: each column is computed once for all files."""

    def __init__(self, batch: pa.RecordBatch, functions: Mapping[str, Function]) -> None:
        self.batch, self.functions = batch, functions
        self.memo = Memo()
        self._values: dict[str, pa.Array | Exception] = {}
        self._codes: dict[str, Ints] = {}

    def values(self, name: str, column: Expression) -> pa.Array:
        """Compute a column; an error is remembered like a value."""
        if name not in self._values:
            try:
                found = evaluate(column, self.batch, self.functions, memo=self.memo)
                if isinstance(found, pa.Scalar):
                    found = pa.repeat(found, self.batch.num_rows)
                self._values[name] = found
            except MemoryError:
                raise  # says nothing about these queries: others may have taken the memory
            except Exception as cause:
                self._values[name] = cause
        found = self._values[name]
        if isinstance(found, Exception):
            raise found
        return found

    def codes(self, run: IndexRun, column: int) -> Ints:
        """Return a column's codes as a file understands them."""
        name, expression = run.column_names[column], run.columns[column]
        texts = run.text_codes(column)
        if texts is not None:
            return texts.codes_of(self.values(name, expression))
        if name not in self._codes:
            self._codes[name] = codes_of(self.values(name, expression))
        return self._codes[name]


class Matcher:
    """The standing queries over one stream, as of one epoch.

    `access` forces one access method wherever it is built; "auto" chooses by cost.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        functions: Mapping[str, Function],
        access: str = "auto",
    ) -> None:
        self._sources, self._functions, self._access = sources, functions, access
        self._out = [each.out for each in sources]
        self._live: dict[tuple[int, str], _Live] = {}
        self._box_counts: dict[Group, Ints32] = {}
        self._pair_counts: dict[int, Ints32] = {}
        self.failures = Failures()

    def pairs(self, batch: pa.RecordBatch, wanted: Sequence[Bools | None]) -> Iterator[Pairs]:
        """Yield the pairs of each file; `wanted` says which of its slots anybody asks for."""
        codes = BatchCodes(batch, self._functions)
        for number, source in enumerate(self._sources):
            asked = wanted[number]
            if asked is not None and not asked.any():
                continue
            live = self._live_of(number, "pairs", asked)
            indexed = [each for each in live.groups if each.methods]
            found = [self._found(number, indexed, codes, "pairs", asked)]
            live = self._live_of(number, "pairs", asked)  # some may just have failed
            found += [
                (rows, np.full(rows.size, slot, np.int32))
                for slot, rows in self._scanned(number, codes, live)
            ]
            rows, slots = _joined(found)
            if slots.size:
                yield Pairs(source.run, rows, slots)

    def rows_at_once(self, batch: pa.RecordBatch, wanted: Sequence[Bools | None]) -> int:
        """Say into pieces of how many rows to cut a batch, so that its pairs fit into memory."""
        asked = [(number, mask) for number, mask in enumerate(wanted) if mask is None or mask.any()]
        n_asked = sum(
            self._sources[number].run.n if mask is None else int(mask.sum())
            for number, mask in asked
        )

        def n_candidates(some: pa.RecordBatch) -> int:
            codes = BatchCodes(some, self._functions)
            n_pairs = 0
            for number, mask in asked:
                groups = self._live_of(number, "pairs", mask).groups
                n_pairs += self._n_candidates(number, groups, codes, "pairs", mask)
            return n_pairs

        return rows_at_once(batch, n_asked, n_candidates)

    def count(self, batch: pa.RecordBatch, wanted: Sequence[Bools | None]) -> None:
        """Count the rows that satisfy each query; `counts` tells how many there were in all."""
        codes = BatchCodes(batch, self._functions)
        for number, asked in enumerate(wanted):
            if asked is not None and not asked.any():
                continue
            live = self._live_of(number, "count", asked)
            doubtful = []
            for group in live.groups:
                if group.methods and group.decisive:
                    self._count_boxes(number, group, codes, live)
                elif group.methods:
                    doubtful.append(group)
            if doubtful or live.texts is not None:
                self._count_pairs(number, doubtful, codes, asked)
            live = self._live_of(number, "count", asked)
            for slot, rows in self._scanned(number, codes, live):
                self._of_pairs(number)[slot] += rows.size

    def counts(self, number: int, asked: Bools | None) -> tuple[Ints32, Ints]:
        """Return the slots of a file that rows satisfied, ascending, and how many did."""
        found = [
            (group.slots, self._box_counts[group])
            for group in self._sources[number].run.groups
            if group in self._box_counts
        ]
        if number in self._pair_counts:
            counted = self._pair_counts[number]
            found.append((np.arange(counted.size, dtype=np.int32), counted))
        out = self._live_of(number, "count", asked).out
        whose, n_rows = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
        for slots, counts in found:
            hit = counts > 0 if out is None else (counts > 0) & ~out[slots]
            whose.append(slots[hit])
            n_rows.append(counts[hit])
        several, at = np.unique(np.concatenate(whose), return_inverse=True)
        total = np.zeros(several.size, np.int64)
        np.add.at(total, at, np.concatenate(n_rows))
        return several, total

    def _of_pairs(self, number: int) -> Ints32:
        """Return the counts of a file's slots that are not counted by their boxes."""
        if number not in self._pair_counts:
            self._pair_counts[number] = np.zeros(self._sources[number].run.n, np.int32)
        return self._pair_counts[number]

    def _count_pairs(
        self, number: int, groups: Sequence[Group], codes: BatchCodes, asked: Bools | None
    ) -> None:
        """Count pairs that must be verified, some rows at a time if they are too many."""

        def n_candidates(some: pa.RecordBatch) -> int:
            sampled = BatchCodes(some, self._functions)
            return self._n_candidates(number, groups, sampled, "count", asked)

        batch, counts = codes.batch, self._of_pairs(number)
        for piece in pieces(batch, rows_at_once(batch, counts.size, n_candidates)):
            mine = codes if piece is batch else BatchCodes(piece, self._functions)
            np.add.at(counts, self._found(number, groups, mine, "count", asked)[1], 1)

    def _n_candidates(
        self,
        number: int,
        groups: Sequence[Group],
        codes: BatchCodes,
        purpose: str,
        asked: Bools | None,
    ) -> int:
        """Count the pairs that would be looked at, whether they come true or not."""
        live = self._live_of(number, purpose, asked)
        n_pairs = 0
        for group in groups:
            if group.methods:
                n_pairs += self._candidates(number, group, codes, live)[0].size
            else:
                n_pairs += group.slots.size * codes.batch.num_rows
        texts = live.texts
        return n_pairs if texts is None else n_pairs + texts.find(codes.batch)[0].size

    def _found(
        self,
        number: int,
        groups: Sequence[Group],
        codes: BatchCodes,
        purpose: str,
        asked: Bools | None,
    ) -> tuple[Ints32, Ints32]:
        """Return the pairs of some groups, and of those that are found by their texts."""
        live = self._live_of(number, purpose, asked)
        found = [self._candidates(number, group, codes, live) for group in groups]
        if live.texts is not None:
            found.append(live.texts.find(codes.batch))
        live = self._live_of(number, purpose, asked)  # some may just have failed
        return self._verifier(number, codes).true(*live.narrowed(*_joined(found)))

    def _verifier(self, number: int, codes: BatchCodes) -> Verifier:
        return Verifier(
            self._sources[number].run, codes.batch, self._functions, partial(self._fail, number)
        )

    def _live_of(self, number: int, purpose: str, asked: Bools | None) -> _Live:
        """Say who of a file is to be answered, and which columns that takes."""
        known = self._live.get((number, purpose))
        if known is None:
            out = _either(self._out[number], None if asked is None else ~asked)
            known = self._live[number, purpose] = _Live.of(self._sources[number].run, out)
        return known

    def _count_boxes(self, number: int, group: Group, codes: BatchCodes, live: _Live) -> None:
        matrix = self._matrix(number, group, codes, live)
        method = self._method(group, matrix, "count")
        if group not in self._box_counts:
            self._box_counts[group] = np.zeros(group.slots.size, np.int32)
        METHODS[method].count(group.methods[method], matrix, self._box_counts[group])

    def _candidates(
        self, number: int, group: Group, codes: BatchCodes, live: _Live
    ) -> tuple[Ints32, Ints32]:
        """Return the pairs of rows and slots whose boxes hold them."""
        matrix = self._matrix(number, group, codes, live)
        method = self._method(group, matrix, "pairs")
        rows, boxes = METHODS[method].pairs(group.methods[method], matrix)
        return rows, group.slots[boxes]

    def _scanned(self, number: int, codes: BatchCodes, live: _Live) -> Iterator[tuple[int, Ints32]]:
        """Yield the rows of each query that no column of the index narrows down."""
        verifier = self._verifier(number, codes)
        for group in live.groups:
            if group.methods:
                continue
            slots = group.slots if live.out is None else group.slots[~live.out[group.slots]]
            for slot in slots.tolist():
                yield slot, verifier.rows_of(slot, codes.memo)

    def _matrix(self, number: int, group: Group, codes: BatchCodes, live: _Live) -> Ints:
        """Return the codes of a group's columns; one that cannot be computed fails its queries.

        A column that only queries test which are out is not computed: it may be why they are.
        """
        run = self._sources[number].run
        matrix = np.empty((len(group.columns), codes.batch.num_rows), np.int64)
        for at, column in enumerate(group.columns):
            if column not in live.columns:
                matrix[at] = NULL_CODE
                continue
            try:
                matrix[at] = codes.codes(run, column)
            except MemoryError:
                raise
            except Exception as cause:
                matrix[at] = NULL_CODE
                for family, each in enumerate(run.families):
                    if column in each.columns:
                        self._fail(number, run.slots_of_family(family), cause)
        return matrix

    def _method(self, group: Group, matrix: Ints, mode: str) -> str:
        if self._access in group.methods:
            return self._access
        if len(group.methods) == 1:
            return next(iter(group.methods))
        step = max(matrix.shape[1] // SAMPLE_ROWS, 1)
        sample = np.ascontiguousarray(matrix[:, ::step][:, :SAMPLE_ROWS])
        return choose(group.methods, sample, matrix.shape[1], mode)

    def _fail(self, number: int, slots: Ints32, cause: Exception) -> None:
        run, out = self._sources[number].run, self._out[number]
        mask = np.zeros(run.n, np.bool_) if out is None else out.copy()
        failing = slots[~mask[slots]]
        mask[failing] = True
        self._out[number] = mask
        for purpose in ("pairs", "count"):
            self._live.pop((number, purpose), None)
        self.failures.add(run.qids[failing].tolist(), cause)


@dataclass(frozen=True, slots=True, eq=False)
class _Live:
    """Who of a file is out (None: nobody), and what the others need: columns, groups, texts."""

    out: Bools | None
    columns: frozenset[int]
    groups: list[Group]
    texts: TextIndex | None

    @classmethod
    def of(cls, run: IndexRun, out: Bools | None) -> Self:
        families, groups = run.families, run.groups
        if out is not None:
            owners = run.owners(np.flatnonzero(~out).astype(np.int32))
            n_live = np.bincount(owners, minlength=len(run.families))
            families = [run.families[number] for number in np.flatnonzero(n_live).tolist()]
            groups = [each for each in run.groups if not out[each.slots].all()]
        columns = frozenset(column for each in families for column in each.columns)
        texts = run.texts
        if texts is not None and out is not None and out[texts.slots].all():
            texts = None
        return cls(out, columns, groups, texts)

    def narrowed(self, rows: Ints32, slots: Ints32) -> tuple[Ints32, Ints32]:
        if self.out is None or not slots.size:
            return rows, slots
        kept = ~self.out[slots]
        return rows[kept], slots[kept]


def _either(one: Bools | None, other: Bools | None) -> Bools | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def families_by_projection(run: IndexRun) -> dict[tuple[str, str], list[int]]:
    """Group families whose answers are computed alike, whatever the query."""
    alike: dict[tuple[str, str], list[int]] = {}
    for number, family in enumerate(run.families):
        own = f"{number}" if _differing(family) else ""
        alike.setdefault((family.feed, family.projection + own), []).append(number)
    return alike


def _differing(family: StoredFamily) -> bool:
    return '"parameter"' in family.projection and family.outputs_differ


def _joined(found: list[tuple[Ints32, Ints32]]) -> tuple[Ints32, Ints32]:
    if len(found) == 1:
        return found[0]
    nothing = np.zeros(0, np.int32)
    rows = np.concatenate([nothing, *(rows for rows, _ in found)])
    return rows, np.concatenate([nothing, *(slots for _, slots in found)])
