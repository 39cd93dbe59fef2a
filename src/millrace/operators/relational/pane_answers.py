"""What pane rows answer: groups are found among them, asked questions, and shown as aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Floats, Ints
from millrace.operators.canonical import canonical_order
from millrace.operators.relational.cells import NOWHERE, Cells, Filters
from millrace.operators.relational.equal import numbered
from millrace.operators.relational.lives import Lives
from millrace.operators.relational.pane_rows import AT, PaneRows, Part
from millrace.operators.relational.questions import Asking, Piece, Rows
from millrace.operators.relational.timed import concat_rows, rows_of, take_rows
from millrace.operators.relational.totals import RARE, Sums
from millrace.operators.relational.values import VALUE, Values, picked, share_of
from millrace.operators.weighing import Weighed
from millrace.plan.levels import BIRTH, QUERIES_AS, SEEN_FROM
from millrace.plan.panes import PaneWay

Standing = tuple[Ints, Ints, Floats]
"""Where values stand: the places of one or two, and how far between them."""


@dataclass(frozen=True, slots=True, eq=False)
class Picking:
    """The values of one aggregate, group by group in order, and the rows that have them."""

    values: Values
    rows: Rows
    ranks: Ints
    counts: Ints
    ordered: pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """What each pair of a piece holds: what is added up, and where values stand."""

    counts: Ints
    standing: list[Standing]

    def differ(self, one: Ints, other: Ints) -> Bools:
        """Say which of some pairs hold something else than others do."""
        found: Bools = (self.counts[one] != self.counts[other]).any(axis=1)
        for arrays in self.standing:
            for each in arrays:
                found |= each[one] != each[other]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of pane rows, by the sights of queries: their keys, and all that they hold."""

    panes: PaneRows
    keys: pa.RecordBatch
    sights: Ints
    rows: Rows
    counts: Ints
    digits: list[tuple[int, int]]
    """Which slot and limb the counts behind those of all groups are of."""
    pickings: list[Picking]

    def weighed(self, asking: Asking, piece: Piece, wanted: PaneWay) -> Weighed:
        """Return in which way questions about the groups of a piece are answered."""
        return asking.weighed(self.rows, self.counts.shape[1], piece, wanted)

    def answers(self, asking: Asking, piece: Piece, *, dense: bool) -> Answers:
        """Answer all questions about the groups of a piece."""
        counts = asking.sums(self.rows, self.counts, piece, dense=dense)
        standing = [
            asking.picked(
                each.rows, each.ranks, each.counts, piece, share_of(each.values.aggregate)
            )
            for each in self.pickings
        ]
        return Answers(counts, standing)

    def shown(self, answers: Answers, pairs: Ints) -> dict[str, pa.Array]:
        """Return the aggregates of some pairs, by name."""
        width = len(self.panes.totals.counted.counts)
        counts, sums = answers.counts[pairs], Sums()
        for at, (slot, place) in enumerate(self.digits, width):
            sums.setdefault(slot, {})[place] = counts[:, at]
        found = self.panes.totals.answers(counts[:, :width], sums)
        for each, standing in zip(self.pickings, answers.standing, strict=True):
            aggregate, (lower, upper, between) = each.values.aggregate, standing
            found[aggregate.name] = picked(
                aggregate, each.ordered, lower[pairs], upper[pairs], between[pairs]
            )
        return found


def grouped(
    panes: PaneRows, parts: Sequence[Part], cells: Cells, lives: Lives, *, lone: bool
) -> tuple[Groups, Filters, Ints]:
    """Find the groups of pane rows; return also what each query takes, and what it sees.

    A lone group is there for every sight.
    """
    features = concat_rows([each.features for each in parts], panes.features)
    places, filters = cells.of(features, lives.rows)
    births = lives.rows.column(f"{QUERIES_AS}.{BIRTH}").to_numpy()
    mine = [features.column(SEEN_FROM).to_numpy(), *(places[each] for each in cells.equated)]
    theirs = [births, *filters.equal.T]
    sights, _ = numbered(
        rows_of(
            [pa.array(np.concatenate(each)) for each in zip(theirs, mine, strict=True)],
            [str(at) for at in range(len(mine))],
            len(births) + features.num_rows,
        )
    )
    seen, of_rows = sights[: len(births)], sights[len(births) :]
    n_sights = int(seen.max(initial=-1)) + 1
    known = of_rows < n_sights
    for each in places.values():
        known &= each != NOWHERE
    at = np.flatnonzero(known)
    if lone:
        groups, group_sights, keys = of_rows[at], np.arange(n_sights), rows_of([], [], n_sights)
    else:
        named = take_rows(features.select(panes.keys.names), at)
        columns = [pa.array(of_rows[at]), *named.columns]
        groups, firsts = numbered(rows_of(columns, ["", *named.schema.names], len(at)))
        group_sights, keys = of_rows[at][firsts], take_rows(named, firsts)
    times = features.column(AT).to_numpy()[at]
    ranged = [places[each][at] for each in cells.ranged]
    placed = np.stack(ranged, axis=1) if ranged else np.zeros((len(at), 0), np.int64)
    stops = np.searchsorted(at, np.cumsum([len(each) for each in parts]))
    begins = np.append(0, stops[:-1])

    def rows_between(begin: int, stop: int) -> Rows:
        taken = slice(begin, stop)
        return Rows.of(groups[taken], times[taken], placed[taken], len(group_sights))

    first_rows = np.cumsum([0, *(len(each) for each in parts)])
    kept = [
        _kept(part, at[begin:stop] - first)
        for part, begin, stop, first in zip(parts, begins, stops, first_rows, strict=False)
    ]
    counts, digits = _widened(kept[0], kept[1])
    pickings = [
        _picking(each, part, groups[begin:stop], rows_between(begin, stop))
        for each, part, begin, stop in zip(
            panes.values, kept[2:], begins[2:], stops[2:], strict=True
        )
    ]
    rows = rows_between(0, int(stops[1]))
    return Groups(panes, keys, group_sights, rows, counts, digits, pickings), filters, seen


def _kept(part: Part, at: Ints) -> Part:
    return Part(take_rows(part.features, at), take_rows(part.own, at), part.counts[at])


def _widened(totals: Part, rare: Part) -> tuple[Ints, list[tuple[int, int]]]:
    """Put the digits of sums that are beyond the usual into columns behind the others."""
    slots, limbs = (rare.own.column(each.name).to_numpy() for each in RARE)
    different, columns = np.unique(np.stack((slots, limbs), axis=1), axis=0, return_inverse=True)
    n_totals, width = totals.counts.shape
    counts = np.zeros((n_totals + len(rare), width + len(different)), np.int64)
    counts[:n_totals, :width] = totals.counts
    counts[n_totals + np.arange(len(rare)), width + columns.reshape(-1)] = rare.counts[:, 0]
    return counts, [(int(slot), int(limb)) for slot, limb in different]


def _picking(values: Values, part: Part, groups: Ints, rows: Rows) -> Picking:
    """Order the values of each group."""
    names = [str(at) for at in range(1 + len(part.own.columns))]
    order = canonical_order(pa.table([pa.array(groups), *part.own.columns], names=names)).to_numpy()
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = np.arange(len(groups)) - rows.begins[groups[order]]
    ordered = part.own.column(VALUE).take(pa.array(order))
    return Picking(values, rows, ranks, part.counts[:, 0].copy(), ordered)
