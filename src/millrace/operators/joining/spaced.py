"""Codes of texts with room between them: a constant that comes later gets a code of its own.

`TextCodes` numbers constants one after the other, so one that comes changes the codes of all behind
it, and whatever was made of those. Here constants are far apart, and one that comes is put into the
middle of its gap:

    constants        b                   h                            codes 100 and 200
    texts         a  b  c  d ........ g  h  i ..                  0  100  101 ........  200  201
    e comes          b         e         h                              150, and 151 behind it

Invariant: codes ascend with their texts; between those of two constants there is at least one more,
which all texts between the two have. A constant keeps its code.

Cost: a gap is halved by each constant that comes into it; of 100,000 there is room for 40 in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.operators.codes import NULL_CODE, TextCodes, distinct_texts

FIRST, LAST = -(1 << 61), 1 << 61
"""Codes lie behind the first, which texts before all constants have, and before the last."""


@dataclass(frozen=True, slots=True, eq=False)
class SpacedTexts:
    """Constants in ascending order, each once, their ranks and their codes."""

    texts: pa.Array
    ranks: TextCodes
    codes: Ints

    @classmethod
    def of(cls, constants: pa.Array) -> Self:
        """Give codes to constants (binary; NULL is left out)."""
        texts = distinct_texts(constants)
        step = (LAST - FIRST) // (len(texts) + 1)
        codes = FIRST + step * np.arange(1, len(texts) + 1)
        return cls(texts, TextCodes.ascending(texts), codes)

    def holding(self, constants: pa.Array) -> SpacedTexts | None:
        """Return the same with more constants; None if there is no room between the known ones."""
        some = distinct_texts(constants)
        ranks = self.ranks.codes_of(some)
        new = np.flatnonzero(ranks % 2 == 0)
        if not len(new):
            return self
        places = ranks[new] // 2
        ends = np.concatenate(([FIRST], self.codes, [LAST]))
        gaps, firsts, n_new = np.unique(places, return_index=True, return_counts=True)
        step = np.repeat((ends[gaps + 1] - ends[gaps]) // (n_new + 1), n_new)
        if int(step.min()) < 2:
            return None
        nth = np.arange(len(new)) - np.repeat(firsts, n_new) + 1
        codes = np.insert(self.codes, places, ends[places] + nth * step)
        order = np.insert(np.arange(len(self.texts)), places, len(self.texts) + np.arange(len(new)))
        every = pa.concat_arrays([self.texts, some.take(pa.array(new))])
        texts = every.take(pa.array(order))
        return SpacedTexts(texts, TextCodes.ascending(texts), codes)

    def __call__(self, values: pa.Array) -> Ints:
        """Return the codes of texts; NULL is `NULL_CODE`."""
        ranks = self.ranks.codes_of(values)
        ends = np.concatenate(([FIRST - 1], self.codes))
        places = np.where(ranks == NULL_CODE, 0, ranks // 2 + ranks % 2)
        return np.where(ranks == NULL_CODE, NULL_CODE, ends[places] + 1 - ranks % 2)
