"""Which of many texts hold a word, given the places where it may stand."""

from __future__ import annotations

from numba import njit

from millrace.kernels.arrays import Bits, Bools, Bytes, Ints


@njit(cache=True, nogil=True)
def texts_with(
    data: Bytes, ends: Ints, word: Bytes, hits: Bytes, eights: Bits, found: Bools
) -> None:
    """Mark the texts that hold `word`; text i is `data[ends[i - 1]:ends[i]]`.

    `hits` is not zero where the word may begin; `eights` is the same memory, eight bytes at a time,
    so that where nothing may begin eight bytes cost one comparison.
    """
    text = 0
    for eight in range(eights.size):
        if eights[eight] == 0:
            continue
        for at in range(8 * eight, 8 * eight + 8):
            if hits[at] == 0:
                continue
            while ends[text] <= at:
                text += 1
            if found[text]:
                continue
            same = True
            for place in range(word.size):
                if data[at + place] != word[place]:
                    same = False
                    break
            if same:
                found[text] = True
