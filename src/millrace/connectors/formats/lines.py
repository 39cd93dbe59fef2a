"""Reading the lines that start in an interval of bytes, in blocks and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from millrace.kernels.arrays import Bytes, Ints

_BOM = b"\xef\xbb\xbf"
KEPT_BYTES = 4096  # of a line that is too long


@dataclass(frozen=True, slots=True, eq=False)
class LineBlock:
    """Whole lines: line i is `data[firsts[i]:stops[i]]`, without its newline.

    `base` is the offset of the block in the file. With `overlong` there is one line, of which
    only the beginning is here.
    """

    data: Bytes
    base: int
    firsts: Ints
    stops: Ints
    overlong: bool = False


def read_lines(
    file: BinaryIO, first: int, stop: int, *, block_bytes: int, max_line_bytes: int
) -> Iterator[LineBlock]:
    """Read the lines that start at an offset in `[first, stop)`; the last may end behind it."""
    at = _line_start(file, first, block_bytes)
    file.seek(at)
    carry = b""
    while at < stop:
        chunk = file.read(min(block_bytes, max(stop - at - len(carry), 1 << 16)))
        carry += chunk
        end = carry.rfind(b"\n") + 1 if chunk else len(carry)
        if end:
            yield _cut(carry[:end], at, stop)
        elif len(carry) > max_line_bytes:
            yield _overlong(carry, at)
            at = _line_start(file, at + len(carry) + 1, block_bytes)
            file.seek(at)
            carry = b""
            continue
        at, carry = at + end, carry[end:]
        if not chunk:
            return


def _line_start(file: BinaryIO, at: int, block_bytes: int) -> int:
    """Return the first position at or behind `at` where a line starts, or the end of the file."""
    if at == 0:
        return 0
    at -= 1  # the newline before `at` makes `at` itself a start
    file.seek(at)
    while chunk := file.read(block_bytes):
        found = chunk.find(b"\n")
        if found >= 0:
            return at + found + 1
        at += len(chunk)
    return at


def _cut(block: bytes, base: int, stop: int) -> LineBlock:
    data = np.frombuffer(block, np.uint8)
    stops = np.flatnonzero(data == 10)
    if not block.endswith(b"\n"):
        stops = np.append(stops, data.size)
    firsts = np.concatenate([np.zeros(1, np.int64), stops[:-1] + 1])
    n_owned = int(np.searchsorted(firsts, stop - base))
    return LineBlock(data, base, firsts[:n_owned], stops[:n_owned])


def _overlong(carry: bytes, base: int) -> LineBlock:
    data = np.frombuffer(carry[:KEPT_BYTES], np.uint8)
    return LineBlock(data, base, np.zeros(1, np.int64), np.array([data.size]), overlong=True)


def skip_mark(block: LineBlock) -> Ints:
    """Return where the lines' contents start: behind a byte order mark at the file's start."""
    if block.base == 0 and block.data[:3].tobytes() == _BOM:
        firsts = block.firsts.copy()
        firsts[0] = 3
        return firsts
    return block.firsts
