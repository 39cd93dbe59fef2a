"""Choose the access method that will be the quickest for a batch.

Each method says how much it would have to do (`Access.work`): rows, candidates, words, cuts.
Candidates are not estimated from histograms but counted, exactly, for a sample of 64 rows; on
clustered ranges a histogram of 100 steps was wrong by a factor of four. Each amount has a price
in ns. The prices are fitted by `bench/fit_access.py`, with relative errors, since a method that
is wrong by 1 ms matters more for a batch of 2 ms than for one of 2 s.

The choice never changes an answer; `forced` is there for the tests that show it.

Cost: 50 to 400 us a choice, at a million boxes too.
"""

from __future__ import annotations

from collections.abc import Mapping

from millrace.index.access import METHODS
from millrace.index.access.statistics import Arrays, Mode, Work
from millrace.kernels.arrays import Ints

SAMPLE_ROWS = 64

Prices = dict[str, Work]

# ns, in the order of what `work` returns; the first is always that of a cut of the batch.
PRICES: dict[Mode, Prices] = {
    "pairs": {
        "hash": (16700.0, 51.3, 0.0, 3.06),
        "stab": (19900.0, 49.1, 4.14, 6.05),
        "block": (39500.0, 34.3, 0.0917, 55.5, 0.0),
        "table": (18100.0, 22.8, 0.352),
        "rank": (41200.0, 3.74, 13.6, 5.9, 0.356),
    },
    "count": {
        "hash": (14600.0, 14.5, 3.41, 3.45),
        "stab": (13900.0, 9.8, 2.33, 5.42),
        "block": (39700.0, 46.2, 0.0976, 9.05, 7.97),
        "table": (17200.0, 8.91, 2.73),
        "rank": (41200.0, 2.44, 2.91, 4.25, 0.155),
    },
}


def choose(
    candidates: Mapping[str, Arrays],
    sample: Ints,
    n_rows: int,
    mode: str,
    *,
    forced: str | None = None,
) -> str:
    """Return the name of the cheapest of the methods that were built for a group of boxes.

    Parameters
    ----------
    candidates
        What each method built, by the method's name.
    sample
        The codes of some rows of the batch, `sample[column, row]`; `SAMPLE_ROWS` are enough.
    n_rows
        The size of the whole batch.
    mode
        "count" if only numbers of matches are wanted, else "pairs".
    forced
        The method to take wherever it was built.
    """
    if forced in candidates:
        return str(forced)
    costs = predicted(candidates, sample, n_rows, mode)
    return min(costs, key=costs.__getitem__)


def predicted(
    candidates: Mapping[str, Arrays], sample: Ints, n_rows: int, mode: str
) -> dict[str, float]:
    """Return what each method is expected to take, in ns."""
    purpose: Mode = "count" if mode == "count" else "pairs"
    return {
        name: priced(METHODS[name].work(arrays, sample, n_rows, purpose), PRICES[purpose][name])
        for name, arrays in candidates.items()
    }


def priced(work: Work, prices: Work) -> float:
    """Return the sum of amounts times prices."""
    return sum(amount * price for amount, price in zip(work, prices, strict=True))
