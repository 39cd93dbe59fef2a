"""Kernels of the tabled access method: a row is the intersection of one line of each table.

All tables stand in one array of lines, each with one bit a box. A row names one line for each
constrained column, that of the cell it falls in.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bits, Ints32
from millrace.kernels.box_bits import add_columns, count_ones, grown, lowest_one

_ONE = np.uint64(1)
_STRIP = 256  # words of a row that are worked on together: 2 kB, so that they stay in L1
_LINE = 8  # words of a cache line


@njit(cache=True, nogil=True)
def toggle(table: Bits, firsts: Ints32, stops: Ints32) -> None:
    """Set the bit of each box on the lines `firsts[box] .. stops[box]` of a clear table."""
    for box in range(firsts.size):
        bit = _ONE << np.uint64(box & 63)
        table[firsts[box], box >> 6] ^= bit
        if stops[box] < table.shape[0]:
            table[stops[box], box >> 6] ^= bit
    for line in range(1, table.shape[0]):
        above, here = table[line - 1], table[line]
        for word in range(table.shape[1]):
            here[word] ^= above[word]


@njit(cache=True, nogil=True)
def _intersect(table: Bits, lines: Ints32, row: int, first: int, strip: Bits) -> int:
    """Intersect words `first ..` of the row's lines; return the number of ones."""
    source = table[lines[0, row], first : first + strip.size]
    for word in range(strip.size):
        strip[word] = source[word]
    for column in range(1, lines.shape[0]):
        other = table[lines[column, row], first : first + strip.size]
        for word in range(strip.size):
            strip[word] &= other[word]
    total = 0
    for word in range(strip.size):
        total += count_ones(strip[word])
    return total


@njit(cache=True, nogil=True)
def emit_rows(table: Bits, lines: Ints32, ids: Ints32, base: int) -> tuple[Ints32, Ints32]:
    """Return the pairs of each row; rows count from `base`."""
    n_words, n_rows = table.shape[1], lines.shape[1]
    buffer = np.empty(_STRIP, np.uint64)
    rows = np.empty(4 * n_rows + 64, np.int32)
    boxes = np.empty(4 * n_rows + 64, np.int32)
    used = 0
    for row in range(n_rows):
        for first in range(0, n_words, _STRIP):
            strip = buffer[: min(_STRIP, n_words - first)]
            total = _intersect(table, lines, row, first, strip)
            if total == 0:
                continue
            if used + total > rows.size:
                rows = grown(rows, used, used + total)
                boxes = grown(boxes, used, used + total)
            for word in range(strip.size):
                bits = strip[word]
                while bits:
                    rows[used] = base + row
                    boxes[used] = ids[((first + word) << 6) + lowest_one(bits)]
                    used += 1
                    bits &= bits - _ONE
    return rows[:used], boxes[:used]


@njit(cache=True, nogil=True)
def count_rows(table: Bits, lines: Ints32, ids: Ints32, counts: Ints32) -> None:
    """Add up the rows of each box, in squares of 64 rows and 64 boxes."""
    n_words, n_rows = table.shape[1], lines.shape[1]
    squares = np.zeros((_LINE, 64), np.uint64)
    for first_row in range(0, n_rows, 64):
        for first in range(0, n_words, _LINE):
            n_line = min(_LINE, n_words - first)
            squares[:] = np.uint64(0)
            for row in range(first_row, min(n_rows, first_row + 64)):
                for word in range(n_line):
                    bits = table[lines[0, row], first + word]
                    for column in range(1, lines.shape[0]):
                        bits &= table[lines[column, row], first + word]
                    squares[word, row - first_row] = bits
            for word in range(n_line):
                add_columns(squares[word], ids, (first + word) << 6, counts)
