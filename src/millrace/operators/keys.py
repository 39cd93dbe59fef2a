"""Keys: the 64-bit hash of some columns of a batch, and the bucket that it falls in.

Values that SQL calls equal hash alike: an integer by its value whatever its width, -0.0 as 0.0,
every NaN as one NaN, a float as the double of the same value, NULL as itself. Values of
different families (5 and 5.0, 1.5 and 1.50 of another scale) do not; the binder casts the two
sides of a comparison to one type first.

Invariant: the hash is part of the format of stored files and never changes; the test of golden
values is there to fail. Slices and offsets of the batch do not matter.

Cost: no copy of text; numbers narrower than 8 bytes are widened once. Two columns, text and
bigint, of 65,536 rows take about 2 ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from millrace.errors import SchemaError
from millrace.kernels.arrays import Bytes, Hashes, Ints, Ints32, Uints16
from millrace.kernels.hashing import combine, hash_bytes, hash_ints, set_nulls
from millrace.operators.lists import comparable

BUCKET_BITS = 10
N_BUCKETS = 1 << BUCKET_BITS

Number = TypeVar("Number", bound=np.generic)

_CANONICAL_NAN = np.int64(0x7FF8000000000000)
_WIDTHS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def hash_columns(batch: pa.RecordBatch, names: Sequence[str]) -> Hashes:
    """Hash each row by the named columns, in that order.

    Examples
    --------
    >>> batch = pa.record_batch({"symbol": ["ACME", None], "size": [1, 2]})
    >>> [hex(each) for each in hash_columns(batch, ["symbol", "size"]).tolist()]
    ['0x75a82bd3f40933ab', '0x4335edd4f1354efc']
    """
    assert names, "a key has at least one column"
    total: Hashes | None = None
    for name in names:
        hashes = hash_array(_column(batch, name))
        total = hashes if total is None else combine(total, hashes)
    assert total is not None
    return total


def bucket_of(hashes: Hashes) -> Uints16:
    """Return the bucket of each hash: its top 10 bits."""
    return (hashes >> np.uint64(64 - BUCKET_BITS)).astype(np.uint16)


def shard_of(hashes: Hashes, shards: Sequence[int]) -> Ints:
    """Return the shard of each hash; `shards` are the buckets where shards begin, and the end."""
    return np.searchsorted(np.asarray(shards[1:-1], np.uint16), bucket_of(hashes), side="right")


def hash_array(array: pa.Array) -> Hashes:
    """Hash each value of one column of any of our types, or of lists of one."""
    array = comparable(array)
    if kinds.is_string(array.type) or kinds.is_binary(array.type):
        hashes = hash_bytes(*text_buffers(array))
    elif kinds.is_decimal(array.type):
        hashes = hash_bytes(*_decimal_buffers(array))
    else:
        hashes = hash_ints(read_only(_as_ints(array)))
    if array.null_count:
        set_nulls(hashes, array.is_valid().to_numpy(zero_copy_only=False))
    return hashes


def text_buffers(array: pa.Array) -> tuple[Ints32, Bytes]:
    """Return the offsets and bytes of a text or binary array, without a copy."""
    _, offsets, data = array.buffers()
    if offsets is None or offsets.size == 0:
        window = np.zeros(1, np.int32)
    else:
        window = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4)
    return read_only(window), read_only(np.frombuffer(data or b"", np.uint8))


def read_only(array: NDArray[Number]) -> NDArray[Number]:
    """Return a view that cannot be written to.

    Arrow's arrays sometimes can and sometimes cannot, and numba compiles a kernel for each kind;
    giving it one kind halves what is compiled, and none is compiled in the middle of a stream.
    """
    view = array.view()
    view.flags.writeable = False
    return view


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    at = batch.schema.get_field_index(name)
    if at < 0:
        raise SchemaError(
            f'column "{name}" does not exist',
            detail=f"The columns are {', '.join(batch.schema.names)}.",
        )
    return batch.column(at)


def _decimal_buffers(array: pa.Array) -> tuple[Ints32, Bytes]:
    offsets = np.arange(len(array) + 1, dtype=np.int32) * 16
    data = np.frombuffer(array.buffers()[1] or b"", np.uint8)
    return read_only(offsets), read_only(data[array.offset * 16 :])


def _as_ints(array: pa.Array) -> Ints:
    if kinds.is_boolean(array.type):
        return np.asarray(array.cast(pa.int64()).fill_null(0))
    if kinds.is_floating(array.type):
        return _float_bits(array)
    assert kinds.is_primitive(array.type), f"{array.type} is one of our types"
    width = array.type.bit_width // 8
    data = array.buffers()[1] or b""
    values = np.frombuffer(data, _WIDTHS[width], len(array), array.offset * width)
    return values.astype(np.int64, copy=False)


def _float_bits(array: pa.Array) -> Ints:
    width = np.float32 if kinds.is_float32(array.type) else np.float64
    offset = array.offset * np.dtype(width).itemsize
    values = np.frombuffer(array.buffers()[1] or b"", width, len(array), offset)
    values = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    bits = values.view(np.int64)
    bits[np.isnan(values)] = _CANONICAL_NAN
    return bits
