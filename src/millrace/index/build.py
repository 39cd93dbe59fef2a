"""Building an index: from the constants of standing queries to the sections of one file.

    families ─► boxes ─► groups by access path ─► arrays of each access method that may serve

Queries of all families over one stream are put together, so that a thousand families of three
queries each are as quick as one family of three thousand. What parts them is only how they are
found:

    key     boxes with one point on a column where there are many different points: by hash
    dense   all other boxes
    text    queries that none of their intervals narrows, but that need some text to occur
    scan    queries without any of that: every row is looked at

A *slot* is the place of a query in its file; slots are in the order of query ids.

Cost: about 1.5 s for 1,000,000 queries with two constants.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.index.access import METHODS
from millrace.index.atoms import Analysis, Analyst
from millrace.index.boxes import Boxes, Draft
from millrace.index.text.group import TextQueries, has_text_tests
from millrace.kernels.arrays import Bools, Ints, Ints32
from millrace.operators.codes import MAX_CODE, NULL_CODE, TextCodes, codes_of, is_text
from millrace.operators.ranges import Coder
from millrace.plan.bind import Functions
from millrace.plan.nodes import Selection
from millrace.plan.spelling import to_json
from millrace.schema import Schema
from millrace.state import container
from millrace.state.names import Data

FEWEST_KEYS = 8
MOST_FOR_ALL_METHODS = 200_000

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Queries of one family: their ids, ascending, and their constants, a row each."""

    key: str
    feed: str
    selection: Selection
    qids: NDArray[np.uint64]
    parameters: pa.RecordBatch


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Boxes that one access method finds, and the slot of each."""

    columns: tuple[str, ...]
    slots: Ints32
    low: Ints
    high: Ints
    methods: tuple[str, ...]


def build_index(
    families: Sequence[Standing], schema: Schema, functions: Functions
) -> list[memoryview]:
    """Return the file of an index over all these queries."""
    return _Builder(families, schema, functions).file()


class _Builder:
    def __init__(self, families: Sequence[Standing], schema: Schema, functions: Functions) -> None:
        self._families = families
        self._functions = frozenset(functions)
        analyst = Analyst(schema, functions)
        self._analyses = [analyst.analyse(each.selection.condition) for each in families]
        self._drafts = [
            Draft(analysis, family.parameters)
            for analysis, family in zip(self._analyses, families, strict=True)
        ]
        self._slots, self._qids, self._owner, self._place = _slots_of(families)
        self._texts = _text_codes(self._drafts)
        self._columns: dict[str, int] = {}
        self._arrays: Arrays = {}

    def file(self) -> list[memoryview]:
        """Put everything together."""
        boxes = [draft.boxes(self._coder) for draft in self._drafts]
        verify = np.zeros(self._qids.size, np.bool_)
        for slots, each in zip(self._slots, boxes, strict=True):
            verify[slots] = each.verify
        texts, boxes = self._found_by_text(boxes, verify)
        groups = [self._stored(number, group) for number, group in enumerate(self._groups(boxes))]
        self._arrays["qids"] = self._qids
        if len(self._families) > 1:
            self._arrays["owner"], self._arrays["place"] = self._owner, self._place
        if verify.any():
            self._arrays["verify"] = verify
        for column, codes in self._texts.items():
            if column in self._columns:
                self._arrays |= codes.to_arrays(f"text/{self._columns[column]}")
        meta = {
            "n": int(self._qids.size),
            "families": [
                _family_json(family, analysis, self._columns)
                for family, analysis in zip(self._families, self._analyses, strict=True)
            ],
            "columns": [json.loads(each) for each in self._columns],
            "groups": groups,
            "automata": texts,
            "arrays": {name: [each.dtype.str, each.shape] for name, each in self._arrays.items()},
        }
        return container.pack(meta, self._sections())

    def _sections(self) -> Iterable[tuple[str, Data]]:
        for name, array in self._arrays.items():
            yield name, np.ascontiguousarray(array).data.cast("B") if array.size else b""
        for number, family in enumerate(self._families):
            yield f"parameters/{number}", family.parameters.serialize()
            yield f"schema/{number}", family.parameters.schema.serialize()

    def _coder(self, column: str, arrow: pa.DataType) -> Coder:
        if is_text(arrow):
            return self._texts[column].codes_of
        return codes_of

    def _found_by_text(
        self, boxes: list[Boxes], verify: Bools
    ) -> tuple[list[dict[str, Any]], list[Boxes]]:
        """Take the queries out of the boxes that are better found by the texts they need."""
        n_points, left = _point_counts(boxes), []
        texts = TextQueries(functions=self._functions)
        settled = np.zeros(self._qids.size, np.bool_)
        parts = zip(self._families, self._analyses, self._slots, boxes, strict=True)
        for family, analysis, slots, each in parts:
            condition = analysis.condition
            if condition is None or not has_text_tests(condition, self._functions):
                left.append(each)
                continue
            hidden = has_text_tests(analysis.residual, self._functions)
            eligible = each.verify | hidden
            for key, mine in _keyed(each, n_points):
                if key is not None:
                    eligible[each.queries[mine]] = False
            taken, exact = texts.add(condition, family.parameters, slots, eligible)
            verify[slots[taken]] = ~exact[taken]
            settled[slots[taken & exact]] = True
            kept = ~taken[each.queries]
            intervals = {c: (low[kept], high[kept]) for c, (low, high) in each.intervals.items()}
            left.append(replace(each, queries=each.queries[kept], intervals=intervals))
        described, arrays = texts.stored(self._qids.size)
        self._arrays |= arrays
        if settled.any():
            self._arrays["settled"] = settled
        return described, left

    def _groups(self, boxes: list[Boxes]) -> list[_Group]:
        """Part the boxes by how they are found."""
        n_points = _point_counts(boxes)
        parts: dict[str | None, list[tuple[Ints32, Boxes, Bools]]] = {}
        for slots, each in zip(self._slots, boxes, strict=True):
            for key, mine in _keyed(each, n_points):
                parts.setdefault(key, []).append((slots[each.queries], each, mine))
        return [_grouped(key, some) for key, some in parts.items()]

    def _stored(self, number: int, group: _Group) -> dict[str, Any]:
        """Build the arrays of each method that may serve a group."""
        for column in group.columns:
            self._columns.setdefault(column, len(self._columns))
        self._arrays[f"group{number}/slots"] = group.slots
        for method in group.methods:
            built = METHODS[method].build(group.low, group.high)
            self._arrays |= {f"group{number}/{method}/{name}": a for name, a in built.items()}
        return {
            "columns": [self._columns[column] for column in group.columns],
            "methods": {method: self._names(number, method) for method in group.methods},
        }

    def _names(self, number: int, method: str) -> list[str]:
        prefix = f"group{number}/{method}/"
        return [name.removeprefix(prefix) for name in self._arrays if name.startswith(prefix)]


def _slots_of(
    families: Sequence[Standing],
) -> tuple[list[Ints32], NDArray[np.uint64], Ints32, Ints32]:
    """Return the slots of each family's queries; for each slot its query, family and row."""
    sizes = [each.qids.size for each in families]
    qids = np.concatenate([each.qids for each in families])
    order = np.argsort(qids, kind="stable")
    slot_of = np.empty(qids.size, np.int32)
    slot_of[order] = np.arange(qids.size, dtype=np.int32)
    owner = np.repeat(np.arange(len(families), dtype=np.int32), sizes)[order]
    place = np.concatenate([np.arange(size, dtype=np.int32) for size in sizes])[order]
    return np.split(slot_of, np.cumsum(sizes)[:-1]), qids[order], owner, place


def _text_codes(drafts: list[Draft]) -> dict[str, TextCodes]:
    constants: dict[str, list[pa.Array]] = {}
    for draft in drafts:
        for column, arrow, values in draft.constants:
            if is_text(arrow):
                constants.setdefault(column, []).append(values.cast(pa.binary()))
    return {
        column: TextCodes.of(pa.chunked_array(values).combine_chunks())
        for column, values in constants.items()
    }


def _point_counts(boxes: list[Boxes]) -> dict[str, int]:
    """Return for each column how many different points boxes have on it."""
    points: dict[str, list[Ints]] = {}
    for each in boxes:
        for column, (low, high) in each.intervals.items():
            found = low[(low == high) & (low > NULL_CODE)]
            if found.size:
                points.setdefault(column, []).append(np.unique(found))
    return {column: np.unique(np.concatenate(some)).size for column, some in points.items()}


def _keyed(boxes: Boxes, n_points: dict[str, int]) -> list[tuple[str | None, Bools]]:
    """Part a family's boxes by the column they are found by; None is no such column."""
    left = np.ones(boxes.queries.size, np.bool_)
    found: list[tuple[str | None, Bools]] = []
    for column in sorted(boxes.intervals, key=lambda each: -n_points.get(each, 0)):
        if n_points.get(column, 0) >= FEWEST_KEYS:
            low, high = boxes.intervals[column]
            mine = left & (low == high) & (low > NULL_CODE)
            if mine.any():
                found.append((column, mine))
                left = left & ~mine
    if left.any():
        found.append((None, left))
    return found


def _grouped(key: str | None, parts: list[tuple[Ints32, Boxes, Bools]]) -> _Group:
    """Put the boxes of one group together; a column that a family does not have is free."""
    columns = dict.fromkeys(
        column
        for _, boxes, mine in parts
        for column, (low, high) in boxes.intervals.items()
        if ((low[mine] > NULL_CODE) | (high[mine] < MAX_CODE)).any()
    )
    slots = np.concatenate([slots[mine] for slots, _, mine in parts]).astype(np.int32)
    low = np.full((len(columns), slots.size), NULL_CODE)
    high = np.full((len(columns), slots.size), MAX_CODE)
    first = 0
    for _, boxes, mine in parts:
        stop = first + int(mine.sum())
        for at, column in enumerate(columns):
            if column in boxes.intervals:
                low[at, first:stop] = boxes.intervals[column][0][mine]
                high[at, first:stop] = boxes.intervals[column][1][mine]
        first = stop
    return _Group(tuple(columns), slots, low, high, _methods(key, low, high))


def _methods(key: str | None, low: Ints, high: Ints) -> tuple[str, ...]:
    """Choose which access methods to build; which of them serves is chosen batch by batch."""
    if not low.shape[0]:
        return ()
    possible = [name for name, each in METHODS.items() if each.possible(low, high)]
    if key is not None and low.shape[1] > MOST_FOR_ALL_METHODS:
        return ("hash",)
    return tuple(possible)


def _family_json(family: Standing, analysis: Analysis, columns: dict[str, int]) -> dict[str, Any]:
    """Describe a family to those who will answer for it."""
    used = {atom.name for clause in analysis.clauses for atom in clause}
    return {
        "key": family.key,
        "feed": family.feed,
        "selection": family.selection.to_json(),
        "residual": None if analysis.residual is None else to_json(analysis.residual),
        "columns": sorted(columns[each] for each in used if each in columns),
        "projection": json.dumps(family.selection.to_json()["outputs"]),
    }
