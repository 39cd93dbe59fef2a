"""Queries that are found by the texts they need: which they are, and the search for them.

A query whose intervals narrow nothing down, but whose condition needs some text to occur, is
found through that text: one pass over a column finds all needles of all such queries. What is
found are candidates; their whole condition is evaluated, unless the needle says it all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.index.text.automaton import build, find
from millrace.index.text.needles import Needle, NeedlePlan, access_clause, needles_of
from millrace.index.text.patterns import read_like
from millrace.kernels.arrays import Bools, Ints32
from millrace.plan.expressions import Call, Expression, Like, Literal, Matches, Parameter, walk

_TEXT_CALLS = frozenset({"contains", "starts_with", "ends_with"})


def has_text_tests(condition: Expression | None) -> bool:
    """Say whether a condition looks for patterns in texts."""
    return condition is not None and any(
        isinstance(each, Like | Matches)
        or (isinstance(each, Call) and each.function in _TEXT_CALLS)
        for each in walk(condition)
    )


@dataclass(slots=True, eq=False)
class TextQueries:
    """Needles, and the slot of the query that each belongs to."""

    needles: list[Needle] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)

    def add(
        self, condition: Expression, parameters: pa.RecordBatch, slots: Ints32, eligible: Bools
    ) -> tuple[Bools, Bools]:
        """Take in those of a family's queries that can be found so.

        Returns which of the eligible were taken, and for which of them a needle is all there is.
        """
        taken, exact = np.zeros(slots.size, np.bool_), np.zeros(slots.size, np.bool_)
        plans = access_clause(condition)
        if plans is None:
            return taken, exact
        values = [_values(plan, parameters) for plan in plans]
        for row in np.flatnonzero(eligible).tolist():
            found: list[Needle] | None = []
            for plan, column in zip(plans, values, strict=True):
                some = needles_of(plan, column[row])
                found = None if found is None or some is None else [*found, *some]
            if found is not None:
                self.needles += found
                self.slots += [int(slots[row])] * len(found)
                taken[row] = True
                exact[row] = _exact(condition, plans, values[0][row])
        return taken, exact

    def stored(self) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """Describe the automata, and return their arrays."""
        if not self.needles:
            return [], {}
        arrays: dict[str, NDArray[Any]] = {"needles/slots": np.array(self.slots, np.int32)}
        described = []
        for number, ((column, _), automaton) in enumerate(build(self.needles).items()):
            described.append({"column": column, "arrays": list(automaton)})
            arrays |= {f"automaton{number}/{name}": each for name, each in automaton.items()}
        return described, arrays


def find_queries(
    automata: Sequence[tuple[str, Mapping[str, NDArray[Any]]]],
    needle_slots: Ints32,
    batch: pa.RecordBatch,
) -> tuple[Ints32, Ints32]:
    """Return the pairs of rows and slots for which some needle was found, each once."""
    pairs = []
    for column, automaton in automata:
        rows, needles = find(dict(automaton), batch.column(column))
        pairs.append(rows.astype(np.int64) << 32 | needle_slots[needles])
    distinct = np.unique(np.concatenate(pairs))
    return (distinct >> 32).astype(np.int32), (distinct & 0xFFFFFFFF).astype(np.int32)


def _values(plan: NeedlePlan, parameters: pa.RecordBatch) -> list[Any]:
    if isinstance(plan.pattern, Parameter):
        values: list[Any] = parameters.column(f"p{plan.pattern.number}").to_pylist()
        return values
    assert isinstance(plan.pattern, Literal), "a pattern is a constant or a parameter"
    return [plan.pattern.value] * parameters.num_rows


def _exact(condition: Expression, plans: Sequence[NeedlePlan], value: object) -> bool:
    """Say whether a row that holds the needle surely fulfils the condition."""
    if len(plans) != 1 or plans[0].ignore_case or not isinstance(value, str):
        return False
    if isinstance(condition, Like):
        return read_like(value, condition.escape).exact
    return isinstance(condition, Call)
