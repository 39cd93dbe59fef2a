"""Searching: which of some texts hold a word, without a Python object for each.

The texts of up to 65,536 queries lie behind each other in one buffer, folded to small letters, a
zero byte behind each. Of a word, the two bytes that are rarest in the buffer are looked for at
their distance, many bytes at a time; where both stand the rest is compared.

Cost: 1,000,000 texts of 80 bytes take about 50 ms. Which texts held a word is remembered for the
last few words, so that the next page of a search costs nothing.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.kernels.arrays import Bools, Bytes, Ints
from millrace.kernels.text_search import texts_with

MOST_REMEMBERED = 8


class Haystack:
    """Some texts, each made of the same row of some columns."""

    def __init__(self, *columns: pa.Array) -> None:
        folded = [pc.utf8_lower(pc.fill_null(each, "")) for each in columns]
        joined = pc.binary_join_element_wise(*folded, "", "\0").cast(pa.large_string())
        _, offsets, data = joined.buffers()
        first = joined.offset
        self._ends: Ints = np.frombuffer(offsets, np.int64)[first + 1 : first + 1 + len(joined)]
        self._data: Bytes = np.frombuffer(data or b"", np.uint8)
        self._counts = np.bincount(self._data, minlength=256)
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
            hits = self._hits(word)
            texts_with(self._data, self._ends, word, hits, hits.view(np.uint64), found)
        return found

    def _hits(self, word: Bytes) -> Bytes:
        """Mark where the word may begin, in whole groups of eight bytes."""
        n_places = max(self._data.size - word.size + 1, 0)
        hits: Bytes = np.zeros(-(-max(n_places, 1) // 8) * 8, np.uint8)
        marks = hits[:n_places].view(np.bool_)
        order = np.argsort(self._counts[word], kind="stable")
        first = int(order[0])
        np.equal(self._data[first : first + n_places], word[first], out=marks)
        for at in order[1:2].tolist():
            marks &= self._data[at : at + n_places] == word[at]
        return hits


def warm_search() -> None:
    """Compile, or load from the cache, the kernel that searching uses."""
    Haystack(pa.array(["a"])).holding("a")
