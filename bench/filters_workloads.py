"""The standing queries and the rows of the filter benchmark, the same for every contestant.

CACQ's workload (Madden et al., SIGMOD 2002): five columns uniform over 0 to 99; a query constrains
each column with probability 1/2 by one of < > <= >= and a uniform constant. About a quarter of all
pairs of row and query match, so the work is to count and not to find.

Alerts: `symbol = ? AND price > ?`. Few pairs match, so the work is to find. The prices are chosen
so that a row has a given number of matches on average, however many queries there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

SEED = 7
FIELDS = ("a", "b", "c", "d", "e")
COMPARISONS = ("<", ">", "<=", ">=")
NOWHERE, EVERYWHERE = -1, 100  # bounds that leave a column free

CACQ_COLUMNS = "a int, b int, c int, d int, e int, ts timestamp"
ALERT_COLUMNS = "number bigint, symbol string, price double, size bigint, ts timestamp"
ALERT_TEXT = "SELECT number, symbol, price FROM rows WHERE symbol = :sym AND price > :low"

Counts = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class Cacq:
    """Queries as arrays: entry [q, f] is what query q asks of field f; -1 is no comparison."""

    comparisons: Ints
    constants: Ints

    def __len__(self) -> int:
        return len(self.constants)

    def texts(self) -> list[str]:
        """Return each query as SQL."""
        texts = []
        for chosen, constants in zip(
            self.comparisons.tolist(), self.constants.tolist(), strict=True
        ):
            clauses = [
                f"{field} {COMPARISONS[which]} {constant}"
                for field, which, constant in zip(FIELDS, chosen, constants, strict=True)
                if which >= 0
            ]
            where = f" WHERE {' AND '.join(clauses)}" if clauses else ""
            texts.append(f"SELECT a FROM rows{where}")
        return texts

    def conditions(self) -> list[str]:
        """Return each query's condition, as Spark reads it."""
        return [text.partition(" WHERE ")[2] or "true" for text in self.texts()]

    def bounds(self) -> tuple[Ints, Ints]:
        """Return the least and the greatest value that each query accepts of each field."""
        which, constants = self.comparisons, self.constants
        high = np.select([which == 0, which == 2], [constants - 1, constants], EVERYWHERE)
        low = np.select([which == 1, which == 3], [constants + 1, constants], NOWHERE)
        return low.astype(np.int32), high.astype(np.int32)


@lru_cache(maxsize=4)
def cacq(n_queries: int) -> Cacq:
    """Draw queries; a worker that is used again remembers them."""
    random = np.random.default_rng(SEED)
    shape = n_queries, len(FIELDS)
    comparisons = random.integers(0, len(COMPARISONS), shape, np.int32)
    comparisons[random.random(shape) < 0.5] = -1
    return Cacq(comparisons, random.integers(0, 100, shape, np.int32))


def cacq_rows(n_rows: int) -> pa.Table:
    """Draw rows."""
    random = np.random.default_rng(SEED + 1)
    columns = {name: random.integers(0, 100, n_rows, np.int32) for name in FIELDS}
    return pa.table({**columns, "ts": _times(n_rows)})


@dataclass(frozen=True, slots=True)
class Alerts:
    """A population of alerts: how many, over how many symbols, with how many matches a row."""

    n_queries: int
    n_symbols: int
    matches: float

    @property
    def n_traded(self) -> int:
        """How many symbols have both rows and alerts."""
        return min(self.n_symbols, self.n_queries)

    def parameters(self, seed: int = SEED) -> pa.Table:
        """Draw the rows of the template: the symbols in turn, prices near the top."""
        random = np.random.default_rng(seed)
        symbols = np.arange(self.n_queries) % self.n_symbols
        share = min(self.matches * self.n_traded / self.n_queries, 1.0)
        low = 100 * (1 - share * (0.5 + random.random(self.n_queries)))
        return pa.table({"sym": _names(symbols), "low": low})

    def rows(self, n_rows: int) -> pa.Table:
        """Draw trades, of symbols that have alerts and prices from 0 to 100."""
        random = np.random.default_rng(SEED + 2)
        symbols = random.integers(0, self.n_traded, n_rows)
        return pa.table(
            {
                "number": np.arange(n_rows),
                "symbol": _names(symbols),
                "price": random.random(n_rows) * 100,
                "size": random.integers(1, 1_000, n_rows),
                "ts": _times(n_rows),
            }
        )


def alert_counts(parameters: pa.Table, rows: pa.Table) -> Counts:
    """Count each alert's rows, by a search among its symbol's sorted prices."""
    by_symbol = {
        name: np.sort(prices) for name, prices in _grouped(rows["symbol"], rows["price"].to_numpy())
    }
    found = np.zeros(parameters.num_rows, np.int64)
    for name, asking in _grouped(parameters["sym"], np.arange(parameters.num_rows)):
        prices = by_symbol.get(name, np.zeros(0))
        low = parameters["low"].to_numpy()[asking]
        found[asking] = prices.size - np.searchsorted(prices, low, "right")
    return found


def _grouped(keys: pa.ChunkedArray, values: Array) -> Iterator[tuple[str, Array]]:
    """Part values by their keys."""
    known = keys.combine_chunks().dictionary_encode()
    codes = known.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[order], np.arange(1, len(known.dictionary)))
    yield from zip(known.dictionary.to_pylist(), np.split(values[order], cuts), strict=True)


def write_input(directory: Path, rows: pa.Table, *, files: int) -> None:
    """Write one Parquet file and link it under other names: two files are an epoch's rows."""
    directory.mkdir(parents=True)
    first = directory / "part-00000.parquet"
    pq.write_table(rows, first, row_group_size=1 << 17)
    for number in range(1, files):
        (directory / f"part-{number:05d}.parquet").hardlink_to(first)


def _names(symbols: npt.NDArray[np.int64]) -> pa.Array:
    names = pa.array([f"S{number:05d}" for number in range(int(symbols.max()) + 1)])
    return names.take(pa.array(symbols))


def _times(n_rows: int) -> pa.Array:
    return pa.array(np.arange(n_rows), pa.timestamp("us", tz="UTC"))
