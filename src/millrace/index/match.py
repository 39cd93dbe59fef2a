"""Matching: which standing queries a batch of rows satisfies.

    rows ─► codes of the columns that queries test ─► candidate pairs of each group
         ─► less the queries that are out ─► residual conditions, on the pairs that are left

A column is computed once a batch, however many queries and files test it; that is where a
registered function is called. A function that raises fails the queries that use it, and no other.

Cost: see the access methods; a residual is one vectorised evaluation a family over its pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.index.access import METHODS
from millrace.index.chooser import choose
from millrace.index.codes import NULL_CODE, codes_of
from millrace.index.run import Group, IndexRun, StoredFamily
from millrace.kernels.arrays import Bools, Ints, Ints32
from millrace.operators.evaluate import Function, Memo, evaluate
from millrace.operators.vectors import Datum
from millrace.plan.expressions import Column, Expression, walk

SAMPLE_ROWS = 64


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
        self.failures = Failures()

    def pairs(self, batch: pa.RecordBatch, wanted: Sequence[Bools | None]) -> Iterator[Pairs]:
        """Yield the pairs of each file; `wanted` says which of its slots anybody asks for."""
        codes = BatchCodes(batch, self._functions)
        for number, source in enumerate(self._sources):
            run, asked = source.run, wanted[number]
            if asked is not None and not asked.any():
                continue
            live = self._live_of(number, "pairs", asked)
            indexed = [each for each in live.groups if each.methods]
            found = [self._candidates(number, group, codes, live) for group in indexed]
            if run.texts is not None:
                found.append(run.texts.find(batch))
            live = self._live_of(number, "pairs", asked)  # some may just have failed
            found = [self._verified(number, codes, *live.narrowed(*_joined(found)))]
            found += [self._scanned(number, each, codes, live) for each in live.groups
                      if not each.methods]  # fmt: skip
            rows, slots = _joined(found)
            if slots.size:
                yield Pairs(run, rows, slots)

    def count(
        self,
        batch: pa.RecordBatch,
        counts: Sequence[Ints | None],
        wanted: Sequence[Bools | None],
    ) -> None:
        """Add to the counts of each file's slots how many rows satisfy them; None is not asked."""
        codes = BatchCodes(batch, self._functions)
        for number, source in enumerate(self._sources):
            run, total = source.run, counts[number]
            if total is None:
                continue
            live = self._live_of(number, "count", wanted[number])
            found = []
            for group in live.groups:
                if not group.methods:
                    _, slots = self._scanned(number, group, codes, live)
                    total += np.bincount(slots, minlength=total.size)
                elif self._countable(run, group):
                    self._count_boxes(number, group, codes, live, total)
                else:
                    found.append(self._candidates(number, group, codes, live))
            if run.texts is not None:
                found.append(run.texts.find(batch))
            for some in found:
                _, slots = self._verified(number, codes, *live.narrowed(*some))
                total += np.bincount(slots, minlength=total.size)
            out = self._live_of(number, "count", wanted[number]).out
            if out is not None:
                total[out] = 0

    def _countable(self, run: IndexRun, group: Group) -> bool:
        """Say whether boxes alone decide; then nothing but their counts is needed."""
        plain = not any(each.has_residual for each in run.families)
        return plain and run.verify is None and bool(group.methods)

    def _live_of(self, number: int, purpose: str, asked: Bools | None) -> _Live:
        """Say who of a file is to be answered, and which columns that takes."""
        known = self._live.get((number, purpose))
        if known is None:
            out = _either(self._out[number], None if asked is None else ~asked)
            known = self._live[number, purpose] = _Live.of(self._sources[number].run, out)
        return known

    def _count_boxes(
        self, number: int, group: Group, codes: BatchCodes, live: _Live, counts: Ints
    ) -> None:
        matrix = self._matrix(number, group, codes, live)
        method = self._method(group, matrix, "count")
        found = np.zeros(group.slots.size, np.int64)
        METHODS[method].count(group.methods[method], matrix, found)
        np.add.at(counts, group.slots, found)

    def _candidates(
        self, number: int, group: Group, codes: BatchCodes, live: _Live
    ) -> tuple[Ints32, Ints32]:
        """Return the pairs of rows and slots whose boxes hold them."""
        matrix = self._matrix(number, group, codes, live)
        method = self._method(group, matrix, "pairs")
        rows, boxes = METHODS[method].pairs(group.methods[method], matrix)
        return rows, group.slots[boxes]

    def _scanned(
        self, number: int, group: Group, codes: BatchCodes, live: _Live
    ) -> tuple[Ints32, Ints32]:
        """Return the pairs of queries that no column of the index narrows down, one by one."""
        run = self._sources[number].run
        slots = group.slots if live.out is None else group.slots[~live.out[group.slots]]
        found = []
        for slot, family, place in zip(
            slots.tolist(), run.owners(slots).tolist(), run.places(slots).tolist(), strict=True
        ):
            rows = self._rows_of(number, codes, slot, family, place)
            found.append((rows, np.full(rows.size, slot, np.int32)))
        return _joined(found)

    def _rows_of(
        self, number: int, codes: BatchCodes, slot: int, family: int, place: int
    ) -> Ints32:
        """Return the rows that satisfy one query, whose constants are the same for all rows."""
        run = self._sources[number].run
        stored = run.families[family]
        whole = run.verify is not None and bool(run.verify[slot])
        condition = stored.selection.condition if whole else stored.residual
        if condition is None:
            return np.arange(codes.batch.num_rows, dtype=np.int32)
        constants = _constants(run, family, place)
        try:
            found = evaluate(condition, codes.batch, self._functions, constants, memo=codes.memo)
        except MemoryError:
            raise
        except Exception as cause:
            self._fail(number, np.array([slot], np.int32), cause)
            return np.zeros(0, np.int32)
        return np.flatnonzero(_truth(found, codes.batch.num_rows)).astype(np.int32)

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

    def _verified(
        self, number: int, codes: BatchCodes, rows: Ints32, slots: Ints32
    ) -> tuple[Ints32, Ints32]:
        """Keep the pairs for which what the boxes do not say is true as well."""
        run = self._sources[number].run
        doubtful = run.verify
        residual = [each.has_residual for each in run.families]
        if not slots.size or (doubtful is None and not any(residual)):
            return rows, slots
        owners = run.owners(slots)
        needed = np.array(residual)[owners]
        if run.settled is not None:
            needed &= ~run.settled[slots]
        whole = np.zeros(slots.size, np.bool_) if doubtful is None else doubtful[slots]
        kept = ~(needed | whole)
        for family, mine in _by_owner(owners, np.flatnonzero(~kept)):
            for some, condition in (
                (mine[whole[mine]], run.families[family].selection.condition),
                (mine[~whole[mine]], run.families[family].residual),
            ):
                if some.size and condition is not None:
                    kept[some] = self._true(
                        number, codes, condition, family, rows[some], slots[some]
                    )
        return rows[kept], slots[kept]

    def _true(
        self,
        number: int,
        codes: BatchCodes,
        condition: Expression,
        family: int,
        rows: Ints32,
        slots: Ints32,
    ) -> Bools:
        """Evaluate a condition for pairs; where it raises, find out for which queries."""
        run = self._sources[number].run
        try:
            return self._evaluated(codes, condition, run, family, rows, slots)
        except MemoryError:
            raise
        except Exception as cause:
            several = np.unique(slots)
            if several.size == 1:
                self._fail(number, several, cause)
                return np.zeros(slots.size, np.bool_)
        truth = np.zeros(slots.size, np.bool_)
        for part in np.array_split(several, 2):
            mine = np.isin(slots, part)
            truth[mine] = self._true(number, codes, condition, family, rows[mine], slots[mine])
        return truth

    def _evaluated(
        self,
        codes: BatchCodes,
        condition: Expression,
        run: IndexRun,
        family: int,
        rows: Ints32,
        slots: Ints32,
    ) -> Bools:
        batch = _needed(condition, codes.batch).take(pa.array(rows))
        if slots.min() == slots.max():  # one query: its constants are the same for all rows
            constants = _constants(run, family, int(run.places(slots[:1])[0]))
            return _truth(evaluate(condition, batch, self._functions, constants), rows.size)
        parameters = run.parameters(family).take(pa.array(run.places(slots)))
        found = evaluate(condition, batch, self._functions, parameters)
        return _truth(found, rows.size)

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
    """Who of a file is out (None: nobody), and the columns and groups that the others need."""

    out: Bools | None
    columns: frozenset[int]
    groups: list[Group]

    @classmethod
    def of(cls, run: IndexRun, out: Bools | None) -> Self:
        families, groups = run.families, run.groups
        if out is not None:
            owners = run.owners(np.flatnonzero(~out).astype(np.int32))
            n_live = np.bincount(owners, minlength=len(run.families))
            families = [run.families[number] for number in np.flatnonzero(n_live).tolist()]
            groups = [each for each in run.groups if not out[each.slots].all()]
        columns = frozenset(column for each in families for column in each.columns)
        return cls(out, columns, groups)

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


def _by_owner(owners: Ints32, at: Ints) -> Iterator[tuple[int, Ints]]:
    """Part some places by the family that stands there."""
    order = at[np.argsort(owners[at], kind="stable")]
    sorted_owners = owners[order]
    bounds = np.flatnonzero(np.diff(sorted_owners)) + 1
    for mine in np.split(order, bounds):
        if mine.size:
            yield int(owners[mine[0]]), mine


def _truth(found: Datum, n_rows: int) -> Bools:
    """Say where a condition is true, neither false nor unknown."""
    if isinstance(found, pa.Scalar):
        found = pa.repeat(found.cast(pa.bool_()), n_rows)
    truth: Bools = pc.fill_null(found, fill_value=False).to_numpy(zero_copy_only=False)
    return truth


def _constants(run: IndexRun, family: int, place: int) -> dict[int, pa.Scalar]:
    """Return the constants of one query."""
    row = run.parameters(family).slice(place, 1)
    return {at: column[0] for at, column in enumerate(row.columns)}


def _needed(condition: Expression, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that a condition reads; one at least, so that rows can be counted."""
    names = dict.fromkeys(each.name for each in walk(condition) if isinstance(each, Column))
    return batch.select(list(names) or batch.schema.names[:1])
