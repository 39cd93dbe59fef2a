"""Ranges: what a comparison is for each of many queries, as a closed interval of codes.

The constants of many queries are columns of a table, so all of this is done for a whole table at
once. A text gets its code only when all constants are known; therefore an interval is first a pair
of *ends*, values with a shift, and becomes codes later:

    price > 10        low  = code(10) + 1         high = MAX_CODE

Invariant: an interval holds the code of every value that satisfies its comparison; where it is not
`exact` it may hold others, and the query's condition has to be evaluated. A NULL constant, like
any comparison that can never be true, is the empty interval EMPTY.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from millrace.kernels.arrays import Bools, Ints
from millrace.operators.codes import (
    EXACT_DOUBLES,
    HIGHEST,
    LOWEST,
    MAX_CODE,
    NULL_CODE,
    is_text,
    valid,
)
from millrace.operators.compare import as_type
from millrace.operators.evaluate import evaluate
from millrace.plan.expressions import Expression

PRESENT = NULL_CODE + 1
EMPTY = (MAX_CODE, MAX_CODE - 1)

Coder = Callable[[pa.Array], Ints]


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of an interval: a constant of the query, and whether it is left out itself."""

    value: Expression
    open: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """One end of an interval for each query: constants and what to add to their codes."""

    values: pa.Array
    shift: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Ends:
    """An interval for each query; `low` or `high` is None where that end is open for all."""

    low: End | None
    high: End | None
    exact: Bools
    null: bool = False

    def constants(self) -> list[pa.Array]:
        """Return all constants, for those who need to know them beforehand."""
        return [each.values for each in (self.low, self.high) if each is not None]

    def codes(self, coder: Coder, n_rows: int) -> tuple[Ints, Ints]:
        """Return the closed intervals; an empty one is always `EMPTY`."""
        if self.null:
            return np.full(n_rows, NULL_CODE), np.full(n_rows, NULL_CODE)
        low = _ends(self.low, coder, PRESENT, n_rows)
        high = _ends(self.high, coder, MAX_CODE, n_rows)
        low, high = np.where(self.exact, low, PRESENT), np.where(self.exact, high, MAX_CODE)
        for end in (self.low, self.high):
            if end is not None and end.values.null_count:
                unknown = self.exact & ~valid(end.values)
                low, high = np.where(unknown, EMPTY[0], low), np.where(unknown, EMPTY[1], high)
        empty = low > high
        return np.where(empty, EMPTY[0], low), np.where(empty, EMPTY[1], high)


def evaluate_constants(node: Expression, parameters: pa.RecordBatch) -> pa.Array:
    """Return the value of an expression without columns for each query."""
    found = evaluate(node, parameters, {}, parameters)
    return pa.repeat(found, parameters.num_rows) if isinstance(found, pa.Scalar) else found


def constants_of(
    bound: Bound, target: pa.DataType, parameters: pa.RecordBatch, *, least: bool
) -> tuple[pa.Array, Ints, Bools]:
    """Evaluate one bound for each query and bring it to the column's type."""
    values = evaluate_constants(bound.value, parameters)
    return converted(values, target, least=least, is_open=bound.open)


def end_of(
    bound: Bound | None, target: pa.DataType, parameters: pa.RecordBatch, *, least: bool
) -> tuple[End | None, Bools]:
    """Return one end of an interval for each query, and where it is exact."""
    if bound is None:
        return None, np.ones(parameters.num_rows, np.bool_)
    values, shift, exact = constants_of(bound, target, parameters, least=least)
    return End(values, shift), exact


def converted(
    values: pa.Array, target: pa.DataType, *, least: bool, is_open: bool
) -> tuple[pa.Array, Ints, Bools]:
    """Bring constants to a column's type: the values, what to add to their codes, and exactness.

    `least` says that they are lower ends. Beside a column of integers, 1.5 as a lower end is 2.
    """
    shift = np.full(len(values), 0 if not is_open else (1 if least else -1), np.int64)
    exact = np.ones(len(values), np.bool_)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), _held_as(target)), shift, exact
    if is_text(target):
        return values.cast(pa.binary()), shift, exact
    if kinds.is_floating(target):
        return as_type(values, pa.float64()), shift, exact
    if kinds.is_integer(target):
        return _whole(values, shift, least=least, is_open=is_open)
    if kinds.is_decimal(target):
        return _decimals(values, target, shift)
    if values.type == target:
        return values, shift, exact
    return pa.nulls(len(values), target), shift, ~valid(values)


def _held_as(target: pa.DataType) -> pa.DataType:
    """Return the type in which `converted` gives the constants beside a column."""
    if is_text(target):
        return pa.binary()
    if kinds.is_floating(target):
        return pa.float64()
    return pa.int64() if kinds.is_integer(target) else target


def _whole(
    values: pa.Array, shift: Ints, *, least: bool, is_open: bool
) -> tuple[pa.Array, Ints, Bools]:
    if kinds.is_integer(values.type):
        numbers = values.cast(pa.int64())
        plain = numbers.fill_null(0).to_numpy()
        return numbers, shift, (plain > LOWEST) & (plain < HIGHEST)
    if not (kinds.is_floating(values.type) or kinds.is_decimal(values.type)):
        return pa.nulls(len(values), pa.int64()), shift, ~valid(values)
    if kinds.is_decimal(values.type):  # 0.5 has no digit to be rounded up to
        values = values.cast(pa.decimal256(76, values.type.scale))
    size = pc.abs(values).cast(pa.float64())
    exact = pc.fill_null(pc.less(size, float(EXACT_DOUBLES)), fill_value=True)
    upward = least != is_open  # [1.5 and 1.5) begin and end at 2; (1.5 and 1.5] at 1
    rounded = (pc.ceil if upward else pc.floor)(pc.if_else(exact, values, None))
    return rounded.cast(pa.int64()), shift, exact.to_numpy(zero_copy_only=False)


def _decimals(values: pa.Array, target: pa.DataType, shift: Ints) -> tuple[pa.Array, Ints, Bools]:
    """Take those constants that the column's type can hold; the others are not exact.

    Beside a double, decimals are compared as doubles, which may be equal where they differ.
    """
    if kinds.is_floating(values.type):
        return pa.nulls(len(values), target), shift, ~valid(values)
    try:
        return values.cast(target), shift, np.ones(len(values), np.bool_)
    except pa.ArrowInvalid:  # not all of them; which?
        plain = values.cast(pa.decimal128(19)) if kinds.is_integer(values.type) else values
        wide = plain.cast(pa.decimal256(76, max(plain.type.scale, target.scale)))
        short = pc.equal(pc.round(wide, target.scale), wide)
        within = pc.less(pc.abs(wide), Decimal(10) ** (target.precision - target.scale))
        fitting = pc.and_(short, within)
        exact = pc.fill_null(fitting, fill_value=True).to_numpy(zero_copy_only=False)
        return pc.if_else(fitting, wide, None).cast(target), shift, exact


def _ends(end: End | None, coder: Coder, otherwise: int, n_rows: int) -> Ints:
    if end is None:
        return np.full(n_rows, otherwise)
    return coder(end.values) + np.where(valid(end.values), end.shift, 0)
