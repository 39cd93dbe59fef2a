"""What the hash of a key means: XXH64 of canonical bytes, by the library that defines it."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal

import xxhash

NULL_HASH = 0x9AE16A3B2F90404F


def hash_value(value: object) -> int:
    """Hash one value; timestamps and dates come as integers."""
    if value is None:
        return NULL_HASH
    return int(xxhash.xxh64_intdigest(_canonical(value)))


def _canonical(value: object) -> bytes:
    match value:
        case bool() | int():
            return struct.pack("<q", value)
        case float():
            return struct.pack("<d", float("nan") if value != value else value + 0.0)  # noqa: PLR0124
        case Decimal():
            exponent = value.as_tuple().exponent
            assert isinstance(exponent, int)
            return int(value.scaleb(-exponent)).to_bytes(16, "little", signed=True)
        case str():
            return value.encode()
        case bytes():
            return value
    raise AssertionError(value)


def hash_row(values: Sequence[object]) -> int:
    """Fold the hashes of several values from left to right."""
    total = hash_value(values[0])
    for value in values[1:]:
        total = int(xxhash.xxh64_intdigest(struct.pack("<Q", hash_value(value)), seed=total))
    return total
