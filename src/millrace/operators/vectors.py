"""Vectors: Arrow values as NumPy arrays and back, where Arrow has no kernel of our meaning.

A `Datum` is an Arrow array, or a scalar that stands for one of any length. A `Vector` is its
NumPy form; what is NULL is false in `valid` and holds some value that means nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Datum: TypeAlias = Any
"""An Arrow array, or a scalar that stands for one; Arrow has no types for mypy."""


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """Values, of no dimension for a scalar, and which are not NULL (None for all of them)."""

    values: NDArray[Any]
    valid: NDArray[np.bool_] | None


def null(arrow: pa.DataType) -> pa.Scalar:
    """Return NULL of a type."""
    return pa.scalar(None, arrow)


def vector(datum: Datum) -> Vector:
    """Return the NumPy form of a datum of integers, floats or booleans."""
    if isinstance(datum, pa.Scalar):
        dtype = datum.type.to_pandas_dtype()
        if datum.is_valid:
            return Vector(np.array(datum.as_py(), dtype), None)
        return Vector(np.zeros((), dtype), np.zeros((), np.bool_))
    if not datum.null_count:
        return Vector(datum.to_numpy(zero_copy_only=False), None)
    filler = pa.scalar(0).cast(datum.type)
    values = pc.fill_null(datum, filler).to_numpy(zero_copy_only=False)
    return Vector(values, datum.is_valid().to_numpy(zero_copy_only=False))


def both_valid(left: Vector, right: Vector) -> NDArray[np.bool_] | None:
    """Say where neither is NULL."""
    if left.valid is None or right.valid is None:
        return right.valid if left.valid is None else left.valid
    return left.valid & right.valid


def datum_of(values: NDArray[Any], valid: NDArray[np.bool_] | None, arrow: pa.DataType) -> Datum:
    """Return the Arrow form, of a type that has the width of the values."""
    if values.ndim == 0:
        if valid is not None and not valid.all():
            return null(arrow)
        return pa.array(values.reshape(1), arrow)[0]
    if valid is None or (valid.ndim == 0 and valid):
        return pa.array(values, arrow)
    mask = np.broadcast_to(~valid, values.shape) if valid.shape != values.shape else ~valid
    return pa.array(values, arrow, mask=mask)


def as_array(datum: Datum, n_rows: int) -> pa.Array:
    """Return a datum as an array of that length."""
    return pa.repeat(datum, n_rows) if isinstance(datum, pa.Scalar) else datum


def true_array(condition: Datum, n_rows: int) -> pa.Array:
    """Say for which rows a condition is true: neither false nor unknown."""
    if isinstance(condition, pa.Scalar):  # NULL as it is written has no type
        condition = condition.cast(pa.bool_())
    return pc.fill_null(as_array(condition, n_rows), fill_value=False)


def where_true(condition: Datum, n_rows: int) -> NDArray[np.bool_]:
    """Say the same as bytes."""
    truth: NDArray[np.bool_] = true_array(condition, n_rows).to_numpy(zero_copy_only=False)
    return truth


def length_of(*data: Datum) -> int | None:
    """Return the number of rows, or None if all are scalars."""
    return next((len(each) for each in data if not isinstance(each, pa.Scalar)), None)


def elementwise(function: Callable[..., pa.Array], *data: Datum) -> Datum:
    """Apply a function of arrays of one length to data, some or all of which may be scalars."""
    n_rows = length_of(*data)
    result = function(*(as_array(each, 1 if n_rows is None else n_rows) for each in data))
    return result[0] if n_rows is None else result


def masked(datum: Datum, absent: Datum) -> Datum:
    """Return the datum with NULL where `absent` is true."""
    return pc.if_else(absent, null(datum.type), datum)


def by_distinct(
    function: Callable[..., Datum], subject: Datum, *varying: Datum, result: pa.DataType
) -> Datum:
    """Apply a function that takes constants to rows of which each has constants of its own.

    `function(rows, *constants)` is called once for each distinct combination of the constants,
    which are Python values, with just the rows that have it. NULL in, NULL out.
    """
    if any(isinstance(each, pa.Scalar) and not each.is_valid for each in varying):
        return null(result)
    if all(isinstance(each, pa.Scalar) for each in varying):
        constants = [each.as_py() for each in varying]
        return elementwise(lambda rows: function(rows, *constants).cast(result), subject)
    return elementwise(
        lambda rows, *columns: _by_group(function, rows, columns, result), subject, *varying
    )


def _by_group(
    function: Callable[..., pa.Array],
    rows: pa.Array,
    columns: tuple[pa.Array, ...],
    result: pa.DataType,
) -> pa.Array:
    codes, constants = _coded(columns)
    order = np.argsort(codes, kind="stable")
    stops = np.searchsorted(codes[order], np.arange(len(constants)), side="right")
    first = int(np.count_nonzero(codes < 0))
    parts = [pa.nulls(first, result)]
    for each, stop in zip(constants, stops.tolist(), strict=True):
        part = function(rows.take(pa.array(order[first:stop])), *each)
        parts.append(part.cast(result))
        first = stop
    places = np.empty(order.size, np.int64)
    places[order] = np.arange(order.size)
    return pa.concat_arrays(parts).take(pa.array(places))


def _coded(columns: tuple[pa.Array, ...]) -> tuple[NDArray[np.int64], list[tuple[Any, ...]]]:
    """Number the distinct combinations of values; -1 stands for one that holds NULL."""
    codes = np.zeros(len(columns[0]), np.int64)
    present = np.ones(len(columns[0]), np.bool_)
    words: list[list[Any]] = []
    for column in columns:
        encoded = column.dictionary_encode()
        here = vector(encoded.indices)
        present &= True if here.valid is None else here.valid
        codes = codes * max(len(encoded.dictionary), 1) + here.values
        words.append(encoded.dictionary.to_pylist())
    distinct, dense = np.unique(codes[present], return_inverse=True)
    numbered = np.full(codes.size, -1, np.int64)
    numbered[present] = dense
    sizes = tuple(max(len(each), 1) for each in words)
    places = np.unravel_index(distinct, sizes)
    constants = [
        tuple(word[at] for word, at in zip(words, place, strict=True))
        for place in zip(*(each.tolist() for each in places), strict=True)
    ]
    return numbered, constants
