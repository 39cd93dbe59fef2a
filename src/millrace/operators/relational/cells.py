"""Cells: where values stand among the constants that queries compare them with.

The different constants of all queries cut a column into cells; within one of them no query can
tell two values apart. A place is twice the number of constants below, plus one at a constant:

    constants            10        20
    places          0    1    2    3    4

So a comparison takes a stretch of places: `> 10` takes those from 2 on. NULL is at no place, and a
comparison with NULL takes none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from millrace.kernels.arrays import Ints
from millrace.operators.compare import aligned
from millrace.operators.evaluate import evaluate
from millrace.operators.vectors import as_array
from millrace.plan.panes import Test

NOWHERE = -1


@dataclass(frozen=True, slots=True, eq=False)
class Filters:
    """What each query takes of each tested column: places [low, high), or the place it equals.

    `equal` has a column for each that must equal something, `lows` and `highs` for each other.
    """

    equal: Ints
    lows: Ints
    highs: Ints


@dataclass(frozen=True, slots=True)
class Cells:
    """Tells the places of rows, and what queries take of them, for some tests."""

    tests: tuple[Test, ...]

    @property
    def columns(self) -> list[str]:
        """The tested columns."""
        return list(dict.fromkeys(each.column for each in self.tests))

    @property
    def equated(self) -> list[str]:
        """The columns that must equal something."""
        named = {each.column for each in self.tests if each.operator == "="}
        return [each for each in self.columns if each in named]

    @property
    def ranged(self) -> list[str]:
        """The columns of which a stretch is taken: by what is tested beside one equality."""
        compared = [each.column for each in self.tests]
        named = {each.column for each in self.tests if each.operator != "="}
        return [each for each in self.columns if each in named or compared.count(each) > 1]

    def of(self, rows: pa.RecordBatch, queries: pa.RecordBatch) -> tuple[dict[str, Ints], Filters]:
        """Return the places of rows by column, and what each query takes."""
        found, equal = dict[str, Ints](), dict[str, Ints]()
        lows, highs = list[Ints](), list[Ints]()
        for column in self.columns:
            mine = [each for each in self.tests if each.column == column]
            constants = [
                as_array(evaluate(each.value, queries, {}), queries.num_rows) for each in mine
            ]
            found[column], places = placed(rows.column(column), constants)
            others = []
            for test, at in zip(mine, places, strict=True):
                if test.operator == "=" and column not in equal:
                    equal[column] = at
                else:
                    others.append((test, at))
            if column in self.ranged:
                low, high = _stretch(others, queries.num_rows)
                lows.append(low)
                highs.append(high)
        none = np.zeros((queries.num_rows, 0), np.int64)
        return found, Filters(
            np.stack([equal[each] for each in self.equated], axis=1) if equal else none,
            np.stack(lows, axis=1) if lows else none,
            np.stack(highs, axis=1) if highs else none,
        )


def _stretch(tests: Sequence[tuple[Test, Ints]], n_queries: int) -> tuple[Ints, Ints]:
    """Return the places that all of some tests take."""
    low, high = np.zeros(n_queries, np.int64), np.full(n_queries, np.iinfo(np.int64).max)
    for test, at in tests:
        match test.operator:
            case ">":
                low = np.maximum(low, at + 1)
            case ">=":
                low = np.maximum(low, at)
            case "<":
                high = np.minimum(high, at)
            case "<=":
                high = np.minimum(high, at + 1)
            case _:
                low, high = np.maximum(low, at), np.minimum(high, at + 1)
        high = np.where(at == NOWHERE, 0, high)
    return low, np.maximum(low, high)


def placed(values: pa.Array, constants: Sequence[pa.Array]) -> tuple[Ints, list[Ints]]:
    """Return the places of values among constants, and those of the constants.

    >>> placed(pa.array([5, 20, None]), [pa.array([10, 20])])[0].tolist()
    [0, 3, -1]
    """
    together = pa.concat_arrays(list(constants))
    left, right = _codes(*aligned(values, together))
    present = together.is_valid().to_numpy(zero_copy_only=False)
    cuts = np.unique(right[present])
    stops = np.cumsum([len(each) for each in constants])[:-1]
    return _among(cuts, left, values), np.split(_among(cuts, right, together), stops)


def _among(cuts: NDArray[Any], codes: NDArray[Any], values: pa.Array) -> Ints:
    found: Ints = np.searchsorted(cuts, codes, "left") + np.searchsorted(cuts, codes, "right")
    if values.null_count:
        found = np.where(values.is_valid().to_numpy(zero_copy_only=False), found, NOWHERE)
    return found


def _codes(left: pa.Array, right: pa.Array) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return numbers that compare as values of one type do; those of NULL mean nothing."""
    if kinds.is_floating(left.type):
        return left.fill_null(0.0).to_numpy(), right.fill_null(0.0).to_numpy()
    if kinds.is_string(left.type) or kinds.is_binary(left.type) or kinds.is_decimal(left.type):
        both = pa.concat_arrays([left, right]).dictionary_encode()
        ranks = np.empty(len(both.dictionary), np.int64)
        ranks[pc.sort_indices(both.dictionary).to_numpy()] = np.arange(len(ranks))
        codes = np.append(ranks, 0)[both.indices.fill_null(len(ranks)).to_numpy()]
        return codes[: len(left)], codes[len(left) :]
    return _whole(left), _whole(right)


def _whole(values: pa.Array) -> Ints:
    if kinds.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif kinds.is_date32(values.type):
        values = values.cast(pa.int32())
    found: Ints = values.cast(pa.int64()).fill_null(0).to_numpy()
    return found
