"""Which of many texts hold a word: blocks of texts that may hold it, and a look into those."""

from __future__ import annotations

import numpy as np
from numba import njit

from millrace.kernels.arrays import Bits, Bools, Bytes, Ints

N_GRAMS = 4_096
"""Into how many kinds three bytes in a row are hashed."""


@njit(cache=True, nogil=True)
def gram_blocks(data: Bytes, ends: Ints, n_texts: int, grams: Bits) -> None:
    """Set bit b of row g of `grams` if block b of `n_texts` texts has three bytes of kind g."""
    first = 0
    for block in range(-(-ends.size // n_texts)):
        stop = ends[min((block + 1) * n_texts, ends.size) - 1]
        word, bit = block >> 6, np.uint64(1) << np.uint64(block & 63)
        for at in range(first, stop - 2):
            grams[_kind(data, at), word] |= bit
        first = stop


@njit(cache=True, nogil=True)
def blocks_with(word: Bytes, grams: Bits, blocks: Bits) -> None:
    """Clear from `blocks` those that miss three bytes in a row of `word`."""
    for at in range(word.size - 2):
        kind = _kind(word, at)
        for place in range(blocks.size):
            blocks[place] &= grams[kind, place]


@njit(cache=True, nogil=True)
def texts_with(
    data: Bytes, ends: Ints, n_texts: int, blocks: Bits, word: Bytes, rare: int, found: Bools
) -> None:
    """Mark the texts of some blocks that hold `word`; text i is `data[ends[i - 1]:ends[i]]`.

    The byte at place `rare` of the word is looked for, eight bytes of `data` at a time, whose size
    is a multiple of eight: x has a zero byte if and only if `(x - 0x01…) & ~x & 0x80…` is not zero.
    """
    eights = data.view(np.uint64)
    ones, highs = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
    wanted = np.uint64(word[rare]) * ones
    for block in range(-(-ends.size // n_texts)):
        if not blocks[block >> 6] >> np.uint64(block & 63) & np.uint64(1):
            continue
        text = block * n_texts
        low = (ends[text - 1] if text else 0) + rare
        high = ends[min(text + n_texts, ends.size) - 1] - (word.size - 1 - rare)
        eight = low >> 3
        while 8 * eight < high:
            differs = eights[eight] ^ wanted
            if (differs - ones) & ~differs & highs == 0:
                eight += 1
                continue
            behind = 0
            for at in range(max(8 * eight, low), min(8 * eight + 8, high)):
                if data[at] != word[rare] or at < behind:
                    continue
                while ends[text] <= at - rare:
                    text += 1
                if _stands(data, at - rare, word):
                    found[text] = True
                    behind = ends[text] + rare  # the rest of this text is of no interest
            eight = max(eight + 1, behind >> 3)


@njit(cache=True, nogil=True)
def _kind(data: Bytes, at: int) -> int:
    three = np.int64(data[at]) << 16 | np.int64(data[at + 1]) << 8 | np.int64(data[at + 2])
    return int((three * 0x9E3779B1) >> 20 & (N_GRAMS - 1))


@njit(cache=True, nogil=True)
def _stands(data: Bytes, first: int, word: Bytes) -> bool:
    place = 0
    while place < word.size and data[first + place] == word[place]:
        place += 1
    return place == word.size
