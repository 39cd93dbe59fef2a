"""Verifying: what boxes and needles leave open of a condition, on the pairs that they found.

    candidate pairs ─► by family ─► its residual with the constants of each pair's query
                                 ─► its whole condition, for a query with an inexact constant

A condition that raises is evaluated again for ever fewer queries, until those are known whose own
rows and constants are the cause; the others of the family keep their answers.

Cost: one vectorised evaluation a family. One query's constants are not repeated for each row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools, Ints, Ints32
from millrace.operators.evaluate import Function, Memo, evaluate
from millrace.operators.vectors import where_true
from millrace.plan.expressions import Column, Expression, walk


class Verifier:
    """Evaluates the conditions of one file's queries on one batch.

    `fail` is told the slots of queries whose condition raises, and why.
    """

    def __init__(
        self,
        run: IndexRun,
        batch: pa.RecordBatch,
        functions: Mapping[str, Function],
        fail: Callable[[Ints32, Exception], None],
    ) -> None:
        self._run, self._batch, self._functions, self._fail = run, batch, functions, fail

    def true(self, rows: Ints32, slots: Ints32) -> tuple[Ints32, Ints32]:
        """Keep the pairs for which the rest of the condition is true as well."""
        run, open_slots = self._run, self._run.unsettled
        if not slots.size or open_slots is None:
            return rows, slots
        left = np.flatnonzero(open_slots[slots])
        whole = np.zeros(slots.size, np.bool_) if run.verify is None else run.verify[slots]
        kept = ~open_slots[slots]
        for family, mine in _by_owner(run.owners(slots), left):
            for some, condition in (
                (mine[whole[mine]], run.families[family].selection.condition),
                (mine[~whole[mine]], run.families[family].residual),
            ):
                if some.size and condition is not None:
                    kept[some] = self._truth(condition, family, rows[some], slots[some])
        return rows[kept], slots[kept]

    def rows_of(self, slot: int, memo: Memo) -> Ints32:
        """Return all rows that satisfy one query; `memo` holds what others had computed."""
        run, own = self._run, np.array([slot], np.int32)
        family = int(run.owners(own)[0])
        stored = run.families[family]
        whole = run.verify is not None and bool(run.verify[slot])
        condition = stored.selection.condition if whole else stored.residual
        if condition is None:
            return np.arange(self._batch.num_rows, dtype=np.int32)
        constants = _constants(run, family, int(run.places(own)[0]))
        try:
            found = evaluate(condition, self._batch, self._functions, constants, memo=memo)
        except MemoryError:
            raise
        except Exception as cause:
            self._fail(own, cause)
            return np.zeros(0, np.int32)
        return np.flatnonzero(where_true(found, self._batch.num_rows)).astype(np.int32)

    def _truth(self, condition: Expression, family: int, rows: Ints32, slots: Ints32) -> Bools:
        """Evaluate a condition for pairs; where it raises, find out for which queries."""
        try:
            return self._evaluated(condition, family, rows, slots)
        except MemoryError:
            raise
        except Exception as cause:
            several = np.unique(slots)
            if several.size == 1:
                self._fail(several, cause)
                return np.zeros(slots.size, np.bool_)
        truth = np.zeros(slots.size, np.bool_)
        for part in np.array_split(several, 2):
            mine = np.isin(slots, part)
            truth[mine] = self._truth(condition, family, rows[mine], slots[mine])
        return truth

    def _evaluated(self, condition: Expression, family: int, rows: Ints32, slots: Ints32) -> Bools:
        run = self._run
        batch = _needed(condition, self._batch).take(pa.array(rows))
        if slots.min() == slots.max():  # one query: its constants are the same for all rows
            constants = _constants(run, family, int(run.places(slots[:1])[0]))
            return where_true(evaluate(condition, batch, self._functions, constants), rows.size)
        parameters = run.parameters(family).take(pa.array(run.places(slots)))
        return where_true(evaluate(condition, batch, self._functions, parameters), rows.size)


def _by_owner(owners: Ints32, at: Ints) -> Iterator[tuple[int, Ints]]:
    """Part some places by the family that stands there."""
    order = at[np.argsort(owners[at], kind="stable")]
    sorted_owners = owners[order]
    bounds = np.flatnonzero(np.diff(sorted_owners)) + 1
    for mine in np.split(order, bounds):
        if mine.size:
            yield int(owners[mine[0]]), mine


def _constants(run: IndexRun, family: int, place: int) -> dict[int, pa.Scalar]:
    """Return the constants of one query."""
    row = run.parameters(family).slice(place, 1)
    return {at: column[0] for at, column in enumerate(row.columns)}


def _needed(condition: Expression, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that a condition reads; one at least, so that rows can be counted."""
    names = dict.fromkeys(each.name for each in walk(condition) if isinstance(each, Column))
    return batch.select(list(names) or batch.schema.names[:1])
