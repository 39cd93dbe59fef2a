"""Which rows are equal: NULL equals NULL here, NaN equals NaN, and -0.0 equals 0.0.

Rows are numbered by the 64-bit hash of their values. Two rows with one hash and different values
are so rare that nothing is spent on them but a look: values are compared once, and only if any
differ are the rows numbered again by their values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.kernels.grouping import number_hashes
from millrace.operators.keys import BUCKET_BITS, hash_columns
from millrace.operators.lists import comparable
from millrace.plan.placement import FIRST

LESSER_BITS = np.uint64((1 << (64 - BUCKET_BITS)) - 1)
"""The bits of a hash that do not decide about the shard."""
ONE_KEY = np.uint64(0)
"""The hash of rows without columns."""


def hashes_of(rows: pa.RecordBatch, place: str | None = None) -> Hashes:
    """Hash rows by all their columns.

    The upper bits, which decide about the shard, are those of the column `place` alone, if it is
    given: so rows are in the shard that the rows came to which they are made of.
    """
    if not rows.schema.names:
        return np.full(rows.num_rows, ONE_KEY)
    hashes = hash_columns(rows, rows.schema.names)
    if place is None or rows.schema.names == [place]:
        return hashes
    return placed_by(rows, place, hashes)


def placed_by(rows: pa.RecordBatch, place: str, hashes: Hashes) -> Hashes:
    """Return hashes whose upper bits, which decide about the shard, are those of a column."""
    if place == FIRST:
        return hashes & LESSER_BITS
    return (hash_columns(rows, [place]) & ~LESSER_BITS) | (hashes & LESSER_BITS)


def numbered(rows: pa.RecordBatch, hashes: Hashes | None = None) -> tuple[Ints, Ints]:
    """Number different rows; return the number of each row and where each number occurs first."""
    hashes = hashes_of(rows) if hashes is None else hashes
    numbers, firsts = number_hashes(hashes)
    if all(_alike(column, firsts[numbers]).all() for column in rows.columns):
        return numbers, firsts
    return number_hashes(_codes(rows.columns))


def plain(column: pa.Array) -> pa.Array:
    """Return values of which equal ones have the same bytes: -0.0 is 0.0, and NaN is one NaN.

    Of equal rows any may stand for all, and which one it is must not depend on batches or shards.
    """
    if not kinds.is_floating(column.type):
        return column
    found = pc.add(column, pa.scalar(0.0, column.type))
    if pc.any(pc.is_nan(found)).as_py():
        found = pc.if_else(pc.is_nan(found), pa.scalar(np.nan, column.type), found)
    return found


def without_nulls(columns: Sequence[pa.Array], n_rows: int) -> Bools:
    """Say which rows have no NULL in any of some columns."""
    mask = np.ones(n_rows, np.bool_)
    for column in columns:
        if column.null_count:
            mask &= column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _alike(column: pa.Array, other: Ints) -> Bools:
    """Compare each value with the one at another place of the same column."""
    return same_values(column, column.take(pa.array(other)))


def same_values(left: pa.Array, right: pa.Array) -> Bools:
    """Compare values one by one; NULL and NULL are the same, and so are NaN and NaN."""
    left, right = comparable(left), comparable(right)
    equal = pc.equal(left, right)
    if kinds.is_floating(left.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    if left.null_count or right.null_count:
        both = pc.and_(left.is_null(), right.is_null())
        equal = pc.or_(equal.fill_null(False), both)
    found: Bools = equal.to_numpy(zero_copy_only=False)
    return found


def _codes(columns: Sequence[pa.Array]) -> Hashes:
    """Number rows by their values, column by column."""
    total = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        coded = plain(comparable(column)).dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy()
        pairs = np.stack((total, codes.astype(np.uint64)), axis=1)
        total = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1).astype(np.uint64)
    return total
