"""Questions: what windows of many sizes and filters hold of groups, all answered at once.

A question is a stretch of time and a stretch of places in each filtered column; of the rows of a
group it takes those within. There are two ways to answer many of them, which say the same.

*dense*   All beginnings and ends cut time and columns into cells. Rows are added up in cells, then
          from cell to cell in each direction; what a question holds is a sum of such sums, some
          taken away. Two stretches, of time and of one column, need four of them:

                      c     d                   d, 20     all up to d and 20
                20    |#####|                 - c, 20     less what came before c
                10    |#####|                 - d, 10     less what is below 10
                                              + c, 10     which was taken away twice

*sparse*  Questions of one filter and end are answered by one walk over the group's rows
          (`kernels.sweeps`). That is cheaper where cells are many and rows are few.

Cost: dense, cells x counts, and 2^(1 + columns) sums for each question and group; sparse, rows x
different pairs of filter and end. What is picked of values (min, percentiles) is always sparse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from millrace.kernels.arrays import Bools, Floats, Ints
from millrace.kernels.grouping import add_by_number
from millrace.kernels.sweeps import Layout, Wanted, swept_places, swept_sums
from millrace.operators.weighing import Weighed
from millrace.plan.panes import PaneWay

CELLS_AT_ONCE = 1 << 21
ANSWERS_AT_ONCE = 1 << 19
DENSE, SPARSE = "dense", "sparse"
_CELL_NS, _WALK_NS = 1.0, 4.0
"""What a count of a cell that is added up takes, and a row in a walk."""


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """What is asked: times [begin, end) and places [low, high) in each column, of what is in sight.

    Those of one sight stand together, in it those of one filter and end, the newest begin first;
    `fresh` are the first of these.
    """

    sights: Ints
    begins: Ints
    ends: Ints
    lows: Ints
    highs: Ints
    fresh: Bools

    @classmethod
    def of(
        cls, sights: Ints, begins: Ints, ends: Ints, lows: Ints, highs: Ints
    ) -> tuple[Questions, Ints]:
        """Order questions; return also in which order they stand now."""
        order = np.lexsort((-begins, ends, *lows.T, *highs.T, sights))
        alike = np.stack((sights, ends, *lows.T, *highs.T), axis=1)[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (alike[1:] != alike[:-1]).any(axis=1)
        times = begins[order], ends[order]
        return cls(sights[order], *times, lows[order], highs[order], fresh), order

    def __len__(self) -> int:
        return len(self.sights)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of groups, those of one group together and the newest first.

    `at` says which rows of the caller's they are.
    """

    begins: Ints
    times: Ints
    places: Ints
    at: Ints

    @classmethod
    def of(cls, groups: Ints, times: Ints, places: Ints, n_groups: int) -> Rows:
        """Order rows of some groups."""
        order = np.lexsort((-times, groups))
        begins = np.searchsorted(groups[order], np.arange(n_groups + 1))
        return cls(begins, times[order], places[order], order)


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some groups, and all questions about them: one pair of both after the other."""

    first: int
    stop: int
    pairs: tuple[Ints, Ints]
    """The group and the question of each pair."""
    first_pairs: Ints
    """Where the pairs of each group begin."""


@dataclass(frozen=True, slots=True, eq=False)
class Asking:
    """Asks questions about groups; `sights` says which elements each group is of."""

    questions: Questions
    sights: Ints

    @property
    def spans(self) -> tuple[Ints, Ints]:
        """Which questions are asked of each group: from the first to the last."""
        first = np.searchsorted(self.questions.sights, self.sights, "left")
        last = np.searchsorted(self.questions.sights, self.sights, "right")
        return first, last

    def pieces(self) -> Iterator[Piece]:
        """Yield all groups with their questions, some at a time."""
        first, last = self.spans
        n_groups, ends = len(first), np.cumsum(last - first)
        begin = 0
        while begin < n_groups:
            before = int(ends[begin - 1]) if begin else 0
            stop = max(int(np.searchsorted(ends, before + ANSWERS_AT_ONCE, "right")), begin + 1)
            counts = (last - first)[begin:stop]
            first_pairs = np.cumsum(counts) - counts
            groups = np.repeat(np.arange(begin, stop), counts)
            questions = np.arange(len(groups)) - np.repeat(first_pairs - first[begin:stop], counts)
            yield Piece(begin, stop, (groups, questions), first_pairs)
            begin = stop

    # ---- what is added up ------------------------------------------------------------------------

    def sums(self, rows: Rows, counts: Ints, piece: Piece, *, dense: bool) -> Ints:
        """Return, for each pair of a piece, what is added up of its rows."""
        if dense:
            return self._dense(rows, counts, piece)
        first, stop = rows.begins[piece.first], rows.begins[piece.stop]
        begins = rows.begins[piece.first : piece.stop + 1] - first
        taken = slice(first, stop)
        layout = Layout(begins, rows.times[taken], rows.places[taken])
        return swept_sums(layout, counts[rows.at[taken]], self._wanted(piece))

    def _wanted(self, piece: Piece) -> Wanted:
        first, last = (each[piece.first : piece.stop] for each in self.spans)
        asked = self.questions
        bounds = asked.begins, asked.ends, asked.lows, asked.highs
        return Wanted(first, last, *bounds, asked.fresh)

    def cuts(self) -> list[Ints]:
        """Return where questions begin and end: in time, and in each column."""
        asked = self.questions
        bounds = [(asked.begins, asked.ends), *zip(asked.lows.T, asked.highs.T, strict=True)]
        return [np.unique(np.concatenate(each)) for each in bounds]

    def weighed(self, rows: Rows, width: int, piece: Piece, wanted: PaneWay) -> Weighed:
        """Return the way that is wanted, or costs less, and what both are expected to take."""
        cells = float(np.prod([len(each) + 1.0 for each in self.cuts()])) * (1 + len(self.cuts()))
        running = np.cumsum(self.questions.fresh)
        first, last = (each[piece.first : piece.stop] for each in self.spans)
        walks = np.append(0, running)[last] - np.append(0, running)[first]
        n_rows = np.diff(rows.begins[piece.first : piece.stop + 1])
        costs = {
            DENSE: _CELL_NS * cells * width * (piece.stop - piece.first),
            SPARSE: _WALK_NS * float(walks @ n_rows),
        }
        way = min(costs, key=costs.__getitem__) if wanted == "auto" else wanted
        return Weighed((way,), costs, len(piece.pairs[0]))

    def _dense(self, rows: Rows, counts: Ints, piece: Piece) -> Ints:
        cuts, asked = self.cuts(), self.questions
        shape = tuple(len(each) + 1 for each in cuts)
        groups, questions = piece.pairs
        bounds = [(asked.begins, asked.ends), *zip(asked.lows.T, asked.highs.T, strict=True)]
        ends = [[np.searchsorted(cut, each)[questions] for each in bound]
                for cut, bound in zip(cuts, bounds, strict=True)]  # fmt: skip
        found = np.zeros((len(groups), counts.shape[1]), np.int64)
        at_once = max(1, CELLS_AT_ONCE // int(np.prod(shape)))
        for begin in range(piece.first, piece.stop, at_once):
            stop = min(begin + at_once, piece.stop)
            table = self._added_up(rows, counts, (begin, stop), cuts, shape)
            mine = slice(*np.searchsorted(groups, (begin, stop)))
            for corner in product((0, 1), repeat=len(cuts)):
                places = [ends[at][side][mine] for at, side in enumerate(corner)]
                flat = np.ravel_multi_index((groups[mine] - begin, *places), (stop - begin, *shape))
                sign = -1 if (len(corner) - sum(corner)) % 2 else 1
                found[mine] += sign * table[flat]
        return found

    def _added_up(
        self,
        rows: Rows,
        counts: Ints,
        groups: tuple[int, int],
        cuts: Sequence[Ints],
        shape: tuple[int, ...],
    ) -> Ints:
        """Add up rows in cells, and then from cell to cell in each direction."""
        begin, stop = groups
        taken = slice(rows.begins[begin], rows.begins[stop])
        owners = np.repeat(np.arange(stop - begin), np.diff(rows.begins[begin : stop + 1]))
        values = [rows.times[taken], *rows.places[taken].T]
        cells = [
            np.searchsorted(cut, each, "right") for cut, each in zip(cuts, values, strict=True)
        ]
        whole = (stop - begin, *shape)
        numbers = np.ravel_multi_index((owners, *cells), whole)
        table = add_by_number(numbers, counts[rows.at[taken]], int(np.prod(whole)))
        table = table.reshape(*whole, -1)
        for axis in range(1, len(whole)):
            np.cumsum(table, axis=axis, out=table)
        return table.reshape(-1, counts.shape[1])

    # ---- what is picked --------------------------------------------------------------------------

    def picked(
        self,
        rows: Rows,
        ranks: Ints,
        counts: Ints,
        piece: Piece,
        share: tuple[tuple[int, int], int],
    ) -> tuple[Ints, Ints, Floats]:
        """Return, for each pair of a piece, which values stand at a share of what it takes.

        `ranks` says which each row of the caller's is among its group's values in order; so do the
        places that are found, counted from the first row of all groups on.
        """
        first, stop = rows.begins[piece.first], rows.begins[piece.stop]
        begins, taken = rows.begins[piece.first : piece.stop + 1] - first, slice(first, stop)
        at = rows.at[taken]
        layout = Layout(begins, rows.times[taken], rows.places[taken])
        found = swept_places(layout, ranks[at], counts[at], self._wanted(piece), share)
        lower, upper, between = found
        return (
            np.where(lower < 0, -1, lower + first),
            np.where(upper < 0, -1, upper + first),
            between,
        )
