"""Laying out: the ranges over which band joins are spread, and the rows that are sent to them.

`plan.bands` says by which columns, `sharing.halo` how. How wide ranges are, and how far rows reach,
follows from the constants of a query. In a family it follows from all its queries: the reach is
decided for each epoch, by the queries that stand then, and is in its decision. That is enough, as a
query sees only what came when it had entered. How wide ranges are is decided once, with the first
queries, and stays: stored anchors are where they are.

Ranges are twice as wide as bands, so that a row is copied one and a half times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Floats, Ints
from millrace.operators.ranges import evaluate_constants
from millrace.operators.relational.timed import rows_of, take_rows
from millrace.plan.bands import CELL, HOME, Laid, Step
from millrace.sharing.halo import EXACT, FEW_SLOTS, SLOTS, Cells, slot_keys

if TYPE_CHECKING:
    from millrace.engine.feeds import FeedSpec

MOST_WIDE = 1e300
"""Wider bands than this do not say how wide ranges are."""
Reach = tuple[float, float]
"""How far anchors may be from a number, from and to; from a greater to a smaller one is nobody."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """How wide ranges are, to how many slots they are dealt, and how far rows of streams reach."""

    width: float
    n_slots: int
    reaches: dict[str, Reach]

    @property
    def cells(self) -> Cells:
        """How the line of numbers is cut and dealt."""
        return Cells(self.width, self.n_slots)

    def to_json(self) -> dict[str, Any]:
        """Spell them as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, spelt: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        reaches = {name: (low, high) for name, (low, high) in spelt["reaches"].items()}
        return cls(spelt["width"], spelt["n_slots"], reaches)


def ranges_of(feed: FeedSpec, decided: Mapping[str, Any]) -> Ranges:
    """Return the ranges of a feed's plan; for families they are `decided`."""
    assert feed.plan is not None, "only plans are laid out"
    if feed.plan.parameters is None:
        return constant_ranges(feed.plan.laid)
    return Ranges.from_json(decided[feed.name])


@lru_cache(maxsize=1_000)
def constant_ranges(laid: tuple[Laid, ...]) -> Ranges:
    """Return the ranges of a plan whose bands are constants."""
    nobody = pa.RecordBatch.from_pylist([{"one": 0}])
    return ranges_now(laid, nobody)


def ranges_now(
    laid: Sequence[Laid], queries: pa.RecordBatch, known: Mapping[str, Any] | None = None
) -> Ranges:
    """Return the ranges of queries with some constants; how wide they are may be `known`."""
    reaches = {each.stream: _reach(each, queries) for each in laid if each.paths}
    if known is not None:
        return Ranges(known["width"], known["n_slots"], reaches)
    if any(each.one_sided for each in laid):
        return Ranges(0.0, FEW_SLOTS, reaches)
    widths = [high - low for low, high in reaches.values() if 0 < high - low < MOST_WIDE]
    return Ranges(max(widths, default=0.5) * 2, SLOTS, reaches)


def _reach(laid: Laid, queries: pa.RecordBatch) -> Reach:
    """Return how far from its number a row meets anchors, by all paths and for all queries."""
    lows, highs = [], []
    for path in laid.paths:
        steps = [_band(each, queries) for each in path]
        standing = np.all([each.standing for each in steps], axis=0)
        low, high = (np.sum(each, axis=0) for each in zip(*(s.ends for s in steps), strict=True))
        scale = np.sum([np.abs(end) for each in steps for end in each.ends], axis=0)
        whole = np.all([end == np.floor(end) for each in steps for end in each.ends], axis=0)
        exact = (whole & (scale < EXACT)) | ~np.isfinite(scale)
        error = np.where(exact, 0.0, 4 * np.spacing(scale))
        real = standing & ~(low > high)
        lows.append(np.min((low - error)[real], initial=np.inf))
        highs.append(np.max((high + error)[real], initial=-np.inf))
    return float(min(lows)), float(max(highs))


@dataclass(frozen=True, slots=True)
class _Band:
    """The band of each query: where it begins and ends, and whether it holds anything."""

    ends: tuple[Floats, Floats]
    standing: Bools


def _band(step: Step, queries: pa.RecordBatch) -> _Band:
    """Return the bands of queries; one with NULL at an end holds nothing.

    What is not finite is no end: infinity and NaN meet everybody, and are asked then.
    """
    n_rows, standing = queries.num_rows, np.ones(queries.num_rows, np.bool_)
    low, high = np.full(n_rows, -np.inf), np.full(n_rows, np.inf)
    for at_least, bounds in ((True, step.lows), (False, step.highs)):
        for each in bounds:
            found = evaluate_constants(each, queries).cast(pa.float64(), safe=False)
            standing &= found.is_valid().to_numpy(zero_copy_only=False)
            values = found.fill_null(0.0).to_numpy(zero_copy_only=False)
            if at_least:
                low = np.maximum(low, np.where(np.isfinite(values), values, -np.inf))
            else:
                high = np.minimum(high, np.where(np.isfinite(values), values, np.inf))
    return _Band((low, high), standing)


def laid_out(rows: pa.RecordBatch, laid: Laid, ranges: Ranges) -> tuple[pa.RecordBatch, Ints]:
    """Return rows of a stream as often as there are ranges that they are sent to.

    They have the range as one more column. The places say which row each was. What has no number
    meets nobody, and is left out.
    """
    column, cells = rows.column(laid.column), ranges.cells
    known = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    values = column.take(pa.array(known)).to_numpy(zero_copy_only=False)
    values = values.astype(np.int64 if values.dtype.kind == "i" else np.float64)
    at, slots = np.arange(len(values)), cells.home(values)
    home = slots
    if laid.paths:
        at, slots = cells.copies(values, *ranges.reaches[laid.stream])
        if laid.anchor:  # it may not reach its own range
            mine = np.arange(len(values)) * ranges.n_slots + home
            places = np.unique(np.concatenate((at * ranges.n_slots + slots, mine)))
            at, slots = places // ranges.n_slots, places % ranges.n_slots
    taken = known[at]
    columns = {CELL: pa.array(slot_keys(ranges.n_slots)[slots]), HOME: pa.array(slots == home[at])}
    more = [columns[each.name] for each in laid.columns]
    names = [*rows.schema.names, *(each.name for each in laid.columns)]
    found = rows_of([*take_rows(rows, taken).columns, *more], names, len(taken))
    return found, taken
