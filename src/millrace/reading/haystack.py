"""Searching: which of some texts hold a word, without a Python object for each.

The texts of up to 65,536 queries lie behind each other in one buffer, folded to small letters, a
zero byte behind each. 64 texts are a block, and for each kind of three bytes in a row there is a
bit for each block that has them:

    s12345     the blocks of s12, of 123, of 234 and of 345; what all of them have is looked through

A block is looked through for the byte of the word that is rarest, eight bytes at a time.

Cost: the bits take 8 bytes a text. Among 1,000,000 texts of 80 bytes a word that few hold takes
1 ms, and one that many hold, or that is shorter, 25 ms. Which texts held a word is remembered for
the last few words, so that the next page of a search costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.kernels.arrays import Bits, Bools, Bytes, Ints
from millrace.kernels.text_search import N_GRAMS, blocks_with, gram_blocks, texts_with

MOST_REMEMBERED = 8
BLOCK = 64


class Haystack:
    """Some texts, each made of the same row of some columns.

    Without `blocks` all texts are looked through; what is found is the same.
    """

    def __init__(self, *columns: pa.Array, blocks: bool = True) -> None:
        folded = [pc.utf8_lower(pc.fill_null(each, "")) for each in columns]
        joined = pc.binary_join_element_wise(*folded, "", "\0").cast(pa.large_string())
        _, offsets, data = joined.buffers()
        first = joined.offset
        self._ends: Ints = np.frombuffer(offsets, np.int64)[first + 1 : first + 1 + len(joined)]
        self._data = _whole_eights(np.frombuffer(data or b"", np.uint8))
        self._counts = np.bincount(self._data, minlength=256)
        n_words = -(-len(joined) // (64 * BLOCK))
        self._grams: Bits = np.zeros((N_GRAMS if blocks else 0, n_words), np.uint64)
        if blocks:
            gram_blocks(self._data, self._ends, BLOCK, self._grams)
        self._found: OrderedDict[str, Bools] = OrderedDict()

    def holding(self, word: str) -> Bools:
        """Mark the texts that hold a word; case does not count.

        >>> Haystack(pa.array(["big"]), pa.array(["SELECT Price"])).holding("price").tolist()
        [True]
        """
        known = self._found.get(word)
        if known is None:
            known = self._found[word] = self._looked_for(word.lower().encode())
            if len(self._found) > MOST_REMEMBERED:
                self._found.popitem(last=False)
        return known

    def _looked_for(self, text: bytes) -> Bools:
        found: Bools = np.zeros(self._ends.size, np.bool_)
        if b"\0" not in text and text:
            word: Bytes = np.frombuffer(text, np.uint8)
            blocks: Bits = np.full(self._grams.shape[1], ~np.uint64(0))
            if self._grams.size:
                blocks_with(word, self._grams, blocks)
            rare = int(np.argmin(self._counts[word]))
            texts_with(self._data, self._ends, BLOCK, blocks, word, rare, found)
        return found


def _whole_eights(data: Bytes) -> Bytes:
    whole: Bytes = np.zeros(-(-data.size // 8) * 8, np.uint8)
    whole[: data.size] = data
    return whole


def warm_search() -> None:
    """Compile, or load from the cache, the kernels that searching uses."""
    Haystack(pa.array(["abc"])).holding("abc")
