"""Kernels over bytes as text: whether they are UTF-8, and writing one character as it."""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bytes


@njit(cache=True, nogil=True, inline="always")
def byte_at(data: Bytes, at: int) -> int:
    """Return a byte as a signed number, so that arithmetic on it does not wrap."""
    return np.int64(data[at])  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def valid_utf8(data: Bytes, first: int, stop: int) -> bool:
    """Say whether the bytes from `first` to `stop` are UTF-8, by the table of RFC 3629."""
    at = first
    while at < stop:
        lead = data[at]
        at += 1
        if lead < 0x80:
            continue
        n_more, low, high = _continuation(lead)
        if n_more == 0 or at + n_more > stop or not low <= data[at] <= high:
            return False
        for index in range(1, n_more):
            if not 0x80 <= data[at + index] <= 0xBF:
                return False
        at += n_more
    return True


@njit(cache=True, nogil=True)
def _continuation(lead: int) -> tuple[int, int, int]:
    """Return how many bytes follow a lead byte, and the bounds of the first of them."""
    if 0xC2 <= lead <= 0xDF:
        return 1, 0x80, 0xBF
    if 0xE0 <= lead <= 0xEF:  # E0: no overlong forms; ED: no surrogates
        return 2, 0xA0 if lead == 0xE0 else 0x80, 0x9F if lead == 0xED else 0xBF
    if 0xF0 <= lead <= 0xF4:  # F0: no overlong forms; F4: nothing above U+10FFFF
        return 3, 0x90 if lead == 0xF0 else 0x80, 0x8F if lead == 0xF4 else 0xBF
    return 0, 0, 0


@njit(cache=True, nogil=True)
def put_character(out: Bytes, at: int, code: int) -> int:
    """Write the character `code` at `at` and return where it ends."""
    if code < 0x80:
        out[at] = np.uint8(code)
        return at + 1
    if code < 0x800:
        out[at] = np.uint8(0xC0 | code >> 6)
        out[at + 1] = np.uint8(0x80 | code & 0x3F)
        return at + 2
    if code < 0x10000:
        out[at] = np.uint8(0xE0 | code >> 12)
        out[at + 1] = np.uint8(0x80 | code >> 6 & 0x3F)
        out[at + 2] = np.uint8(0x80 | code & 0x3F)
        return at + 3
    out[at] = np.uint8(0xF0 | code >> 18)
    out[at + 1] = np.uint8(0x80 | code >> 12 & 0x3F)
    out[at + 2] = np.uint8(0x80 | code >> 6 & 0x3F)
    out[at + 3] = np.uint8(0x80 | code & 0x3F)
    return at + 4
