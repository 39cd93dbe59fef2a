"""Queries that are found by the texts they need: which they are, and the search for them.

A query whose intervals narrow nothing down, but whose condition needs some text to occur, is
found through that text: one pass over a column finds all needles of all such queries. What is
found are candidates; their whole condition is evaluated, unless the needle says it all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.index.text.automaton import build, find
from millrace.index.text.needles import Needle, NeedlePlan, access_clause, needles_of
from millrace.index.text.patterns import read_like
from millrace.kernels.arrays import Bools, Bytes, Ints32
from millrace.plan.expressions import (
    Both,
    Call,
    Expression,
    Like,
    Literal,
    Matches,
    Parameter,
    walk,
)
from millrace.plan.fold import chain

MOST_CLAUSES = 63
_CLAUSE_BITS, _SLOT_BITS = 6, 31

_TEXT_CALLS = frozenset({"contains", "starts_with", "ends_with"})


def has_text_tests(condition: Expression | None, functions: Collection[str] = ()) -> bool:
    """Say whether a condition looks for patterns in texts; `functions` are registered ones."""
    ours = _TEXT_CALLS.difference(functions)
    return condition is not None and any(
        isinstance(each, Like | Matches) or (isinstance(each, Call) and each.function in ours)
        for each in walk(condition)
    )


@dataclass(slots=True, eq=False)
class TextQueries:
    """Needles, each with the slot of its query and the clause of the query that it belongs to.

    A row is a candidate for a query if it holds a needle of each of the query's clauses.
    """

    needles: list[Needle] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    clauses: list[int] = field(default_factory=list)
    n_clauses: dict[int, int] = field(default_factory=dict)
    functions: Collection[str] = ()

    def add(
        self, condition: Expression, parameters: pa.RecordBatch, slots: Ints32, eligible: Bools
    ) -> tuple[Bools, Bools]:
        """Take in those of a family's queries that can be found so.

        Returns which of the eligible were taken, and for which of them needles are all there is.
        """
        taken, exact = np.zeros(slots.size, np.bool_), np.zeros(slots.size, np.bool_)
        conjuncts = conjuncts_of(condition)
        # Of an AND inside of an OR only one part gives needles.
        whole = not any(isinstance(node, Both) for each in conjuncts for node in walk(each))
        chosen = [access_clause(each, self.functions) for each in conjuncts]
        clauses = [plans for plans in chosen if plans][:MOST_CLAUSES]
        values = [[_values(plan, parameters) for plan in plans] for plans in clauses]
        for row in np.flatnonzero(eligible).tolist():
            found = [
                _needles(plans, [column[row] for column in columns])
                for plans, columns in zip(clauses, values, strict=True)
            ]
            useful = [each for each in found if each is not None]
            if not useful:
                continue
            self._take(int(slots[row]), useful)
            taken[row] = True
            exact[row] = (
                whole
                and len(useful) == len(conjuncts)
                and all(
                    _exact(plan, column[row])
                    for plans, columns in zip(clauses, values, strict=True)
                    for plan, column in zip(plans, columns, strict=True)
                )
            )
        return taken, exact

    def _take(self, slot: int, clauses: list[list[Needle]]) -> None:
        self.n_clauses[slot] = len(clauses)
        for number, needles in enumerate(clauses):
            self.needles += needles
            self.slots += [slot] * len(needles)
            self.clauses += [number] * len(needles)

    def stored(self, n_slots: int) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        """Describe the automata, and return their arrays."""
        if not self.n_clauses:
            return [], {}
        n_clauses = np.zeros(n_slots, np.uint8)
        n_clauses[list(self.n_clauses)] = list(self.n_clauses.values())
        arrays: dict[str, NDArray[Any]] = {
            "needles/slots": np.array(self.slots, np.int32),
            "needles/clauses": np.array(self.clauses, np.uint8),
            "needles/n_clauses": n_clauses,
        }
        described = []
        for number, ((column, _), automaton) in enumerate(build(self.needles).items()):
            described.append({"column": column, "arrays": list(automaton)})
            arrays |= {f"automaton{number}/{name}": each for name, each in automaton.items()}
        return described, arrays


@dataclass(frozen=True, slots=True, eq=False)
class TextIndex:
    """What `TextQueries` stored, mapped."""

    automata: Sequence[tuple[str, Mapping[str, NDArray[Any]]]]
    slots: Ints32
    clauses: Bytes
    n_clauses: Bytes

    def find(self, batch: pa.RecordBatch) -> tuple[Ints32, Ints32]:
        """Return the pairs of rows and slots that have a needle of every clause, each once."""
        hits = [np.zeros(0, np.int64)]
        for column, automaton in self.automata:
            rows, needles = find(dict(automaton), batch.column(column))
            places = rows.astype(np.int64) << _SLOT_BITS | self.slots[needles]
            hits.append(places << _CLAUSE_BITS | self.clauses[needles])
        pairs, n_found = np.unique(
            np.unique(np.concatenate(hits)) >> _CLAUSE_BITS, return_counts=True
        )
        slots = (pairs & (1 << _SLOT_BITS) - 1).astype(np.int32)
        whole = n_found == self.n_clauses[slots]
        return (pairs >> _SLOT_BITS)[whole].astype(np.int32), slots[whole]


def conjuncts_of(condition: Expression) -> list[Expression]:
    """Return what a condition is the AND of."""
    return chain(condition) if isinstance(condition, Both) else [condition]


def _needles(plans: Sequence[NeedlePlan], values: Sequence[Any]) -> list[Needle] | None:
    """Return the needles of a clause for one query; None if it has a branch without any."""
    found: list[Needle] = []
    for plan, value in zip(plans, values, strict=True):
        some = needles_of(plan, value)
        if some is None:
            return None
        found += some
    return found


def _values(plan: NeedlePlan, parameters: pa.RecordBatch) -> list[Any]:
    if isinstance(plan.pattern, Parameter):
        values: list[Any] = parameters.column(f"p{plan.pattern.number}").to_pylist()
        return values
    assert isinstance(plan.pattern, Literal), "a pattern is a constant or a parameter"
    return [plan.pattern.value] * parameters.num_rows


def _exact(plan: NeedlePlan, value: object) -> bool:
    """Say whether a text that holds the needle surely passes the test, and no other does."""
    if plan.ignore_case or plan.form == "regex":
        return False
    return plan.form != "like" or (isinstance(value, str) and read_like(value, plan.escape).exact)
