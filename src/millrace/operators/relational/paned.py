"""A family whose queries share panes: elements are added up once, and combined for each query.

    elements ──► pane rows (pane, cells, group) ──► stored ──┐
                       new ones                              ├──► questions ──► answers, told
                                     those of earlier slabs ─┘

What queries take of elements cuts time into panes and columns into cells (`pane_rows`). A slab adds
its elements to pane rows and stores these; at ticks, or where windows slide, all pane rows that are
of use answer all queries at once (`questions`), and what is told is what has changed, or all that
stands (`tellings`).

Cost: for each slab its elements, and the pane rows of the widest window if something is to be told;
for each query and group a few sums; for each answer that is told, a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.grouping import add_by_number, net_by_instant, order_by, pairs_of
from millrace.operators.keys import hash_columns
from millrace.operators.relational.cells import Cells
from millrace.operators.relational.equal import LESSER_BITS, numbered, same_values
from millrace.operators.relational.feeds import values_of
from millrace.operators.relational.lives import Lives, Remembered
from millrace.operators.relational.pane_answers import Answers, Groups, grouped
from millrace.operators.relational.pane_rows import AT, Met, PaneRows, together
from millrace.operators.relational.questions import DENSE, Asking, Piece
from millrace.operators.relational.rowwise import changed, each_row, plain_elements
from millrace.operators.relational.slab import Elements, Slab
from millrace.operators.relational.streams import Net, ordered
from millrace.operators.relational.tellings import Asked, Points, Tellings
from millrace.operators.relational.timed import OPEN, Timed, rows_of, take_rows
from millrace.operators.relational.windows import sizes_of, slides_of
from millrace.operators.weighing import Weighed
from millrace.plan.levels import QUERIES, QUERIES_AS, SEEN_FROM
from millrace.plan.panes import SHARD, Added, Paned, PaneWay

QUESTIONS_AT_ONCE = 1 << 18


@dataclass(frozen=True, slots=True)
class SharedPanes:
    """Tells the groups of all queries of a family."""

    name: str
    paned: Paned
    remembered: Remembered
    panes: PaneRows
    told: pa.Schema
    column: str | None
    """The column by which elements are spread over shards, if they are."""
    way: PaneWay = "auto"

    def stores(self) -> dict[str, pa.Schema]:
        """Return the stores that are used, with their columns."""
        return {**self.remembered.stores(), **self.panes.stores()}

    def repeated(self, slab: Slab, weighed: list[Weighed]) -> Elements:
        """Take a slab; return what stands at ticks, and note in which ways it was found."""
        told = Timed.concat(list(self._step(slab, weighed)), self.told)
        return ordered(told.rows, told.starts, told.weights)

    def net(self, slab: Slab, weighed: list[Weighed]) -> Net:
        """Take a slab; return what comes and what goes, and note in which ways it was found."""
        told = Timed.concat(list(self._step(slab, weighed)), self.told)
        numbers, firsts = numbered(told.rows)
        order = order_by(numbers, told.starts, len(firsts))
        stretches, begins = net_by_instant(numbers[order], told.starts[order])
        net = add_by_number(stretches, told.weights[order][:, None], len(begins))[:, 0]
        at = order[begins][net != 0]
        return Net(take_rows(told.rows, at), told.starts[at], net[net != 0])

    def _step(self, slab: Slab, weighed: list[Weighed]) -> Iterator[Timed]:
        lives = self.remembered.step(changed(slab.tables[QUERIES], QUERIES_AS), slab)
        if not len(lives):
            return
        sizes = sizes_of(self.paned.window, lives.rows)
        slides = slides_of(self.paned.window, lives.rows)
        cells = Cells(self.paned.tests)
        met, grid = self._met(slab, cells, lives, sizes, slides)
        made = self.panes.made(met, slab)
        reach = int(sizes.max()) + 2 * int(slides.max()) + grid + 1
        until = np.minimum(met.features.column(AT).to_numpy() + reach, OPEN - 1)
        self.panes.write(made, met, until, slab)
        if not self._tells(lives, slides, slab):
            return
        stored = self.panes.read(slab)
        parts = [together(one, new) for one, (new, _) in zip(stored, made, strict=True)]
        groups, filters, sights = grouped(self.panes, parts, cells, lives, lone=self.paned.lone)
        asked = Asked(lives, sizes, slides, sights, filters)
        yield from self._told(asked, groups, slab, weighed)

    # ---- elements --------------------------------------------------------------------------------

    def _met(
        self, slab: Slab, cells: Cells, lives: Lives, sizes: Ints, slides: Ints
    ) -> tuple[Met, int]:
        """Return the elements of a slab as they meet in pane rows, and how long panes are."""
        given = self._given(slab)
        places, _ = cells.of(given.rows, lives.rows)
        known = np.ones(len(given), np.bool_)
        for name, each in places.items():
            known &= each >= 0
            if name in cells.equated and name not in cells.ranged:
                known &= each % 2 == 1
        given, at = given.where(known), np.flatnonzero(known)
        grid = grid_of(sizes, slides, self.paned.every)
        keys = [values_of(each.value, given, slab) for each in self.paned.keys]
        seen, shards = (given.rows.column(each) for each in (SEEN_FROM, SHARD))
        columns = [
            shards, seen, *keys, pa.array(-(-given.starts // grid)),
            *([] if slides.any() else [pa.array(given.starts % grid == 0)]),
            *(pa.array(each[at]) for each in places.values()),
        ]  # fmt: skip
        numbers, firsts = numbered(
            rows_of(columns, [str(each) for each in range(len(columns))], len(given))
        )
        tested = [given.rows.column(each) for each in self.panes.tested.names]
        features = rows_of(
            [seen, pa.array(given.starts), *keys, *tested], self.panes.features.names, len(given)
        )
        buckets = shards.take(pa.array(firsts)).to_numpy()
        return Met(given, numbers, take_rows(features, firsts), buckets), grid

    def _given(self, slab: Slab) -> Timed:
        """Return what is grouped of a slab's elements, with birth, shard and tested columns."""
        elements = plain_elements(slab.streams[self.paned.stream])
        rows, n_rows = elements.rows, len(elements)
        names = [
            each if each == SEEN_FROM else f"{self.paned.alias}.{each}"
            for each in rows.schema.names
        ]
        shards = np.zeros(n_rows, np.uint64)
        if self.column is not None:
            shards = hash_columns(rows, [self.column]) & ~LESSER_BITS
        given = Timed(
            rows_of([*rows.columns, pa.array(shards)], [*names, SHARD], n_rows),
            elements.times,
            np.full(n_rows, OPEN),
            np.ones(n_rows, np.int64),
        )
        for node in self.paned.below:
            if isinstance(node, Added):
                given = _with(given, node, slab)
            else:
                given = each_row(given, slab, node)
        return given

    # ---- what is told ----------------------------------------------------------------------------

    def _tells(self, lives: Lives, slides: Ints, slab: Slab) -> bool:
        """Say whether anything may be told in a slab."""
        if self.paned.every is not None:
            steps = [self.paned.every]
        else:
            steps = np.unique(slides).tolist()
            edges = np.concatenate((lives.starts, lives.stops))
            if ((edges >= slab.begin) & (edges < slab.end)).any():
                return True
        return any(-(-slab.begin // each) < -(-slab.end // each) for each in steps)

    def _told(
        self, asked: Asked, groups: Groups, slab: Slab, weighed: list[Weighed]
    ) -> Iterator[Timed]:
        """Yield what is told, some instants at a time."""
        points = Points(self.paned.every)
        n_points = len(asked.lives) * points.count(asked.slides, slab.begin, slab.end)
        n_spans = -(-n_points // QUESTIONS_AT_ONCE)
        length = -(-(slab.end - slab.begin) // n_spans)
        for begin in range(slab.begin, slab.end, length):
            tellings = points.of(asked, begin, min(begin + length, slab.end))
            asking = Asking(tellings.questions, groups.sights)
            for piece in asking.pieces():
                weighed.append(groups.weighed(asking, piece, self.way))
                answers = groups.answers(asking, piece, dense=weighed[-1].way == DENSE)
                yield from self._shown(asked.lives, groups, piece, answers, tellings, slab)

    def _shown(
        self,
        lives: Lives,
        groups: Groups,
        piece: Piece,
        answers: Answers,
        tellings: Tellings,
        slab: Slab,
    ) -> Iterator[Timed]:
        """Yield the rows that are told of a piece."""
        present = answers.counts[:, 0] > 0
        if self.paned.lone:
            present[:] = True
        there = np.flatnonzero(present)
        kinds = [
            (tellings.standing, there, there, 1),
            (tellings.coming, there, there, 1),
            (tellings.going, there, there, -1),
        ]
        if len(tellings.moving):
            now, before = _moved(groups, piece, answers, tellings, present)
            is_now, was_before = present[now], present[before]
            kinds += [
                (tellings.moving, now[is_now], now[is_now], 1),
                (tellings.moving, now[was_before], before[was_before], -1),
            ]
        for told, of, there, sign in kinds:
            if len(told) and len(of):
                questions = piece.pairs[1][of]
                places, begins = np.arange(len(told)), told.begins(len(tellings.questions))
                asked = np.flatnonzero(begins[questions + 1] > begins[questions])
                questions, shown = questions[asked], there[asked]  # the others may not even fit
                left, right = pairs_of(places, begins, questions)
                aggregates = groups.shown(answers, shown)
                columns = {name: each.take(pa.array(left)) for name, each in aggregates.items()}
                keys = take_rows(groups.keys, piece.pairs[0][shown][left])
                queries = take_rows(lives.rows, told.queries[right])
                yield self._rows(queries, keys, columns, told.times[right], sign, slab)

    def _rows(
        self,
        queries: pa.RecordBatch,
        keys: pa.RecordBatch,
        aggregates: dict[str, pa.Array],
        times: Ints,
        sign: int,
        slab: Slab,
    ) -> Timed:
        """Return rows of groups of queries as they are told."""
        columns = [*queries.columns, *keys.columns, *aggregates.values()]
        names = [*queries.schema.names, *keys.schema.names, *aggregates]
        rows = rows_of(columns, names, len(times))
        timed = Timed(rows, times, times + 1, np.full(len(times), sign))
        for node in self.paned.above:
            timed = each_row(timed, slab, node)
        return timed


def grid_of(sizes: Ints, slides: Ints, every: int | None) -> int:
    """Return the length of panes: by multiples of it windows begin, end and slide."""
    steps = [*np.unique(sizes).tolist(), *np.unique(slides).tolist()]
    if not slides.any():
        steps.append(every or 1)
    return max(int(np.gcd.reduce(np.array(steps, np.int64))), 1)


def _moved(
    groups: Groups, piece: Piece, answers: Answers, tellings: Tellings, present: Bools
) -> tuple[Ints, Ints]:
    """Return the pairs whose answers are other than at the point before, and those of that."""
    _, question = piece.pairs
    begins = tellings.moving.begins(len(tellings.questions))
    told = (tellings.previous[question] >= 0) & (begins[question + 1] > begins[question])
    now = np.flatnonzero(told)
    before = now + tellings.previous[question[now]] - question[now]
    other = (present[now] != present[before]) | answers.differ(now, before)
    now, before = now[other], before[other]
    stands = np.flatnonzero(present[now] & present[before])
    new, old = groups.shown(answers, now[stands]), groups.shown(answers, before[stands])
    same = np.ones(len(stands), np.bool_)
    for name, each in new.items():
        same &= same_values(each, old[name])
    left = np.ones(len(now), np.bool_)
    left[stands[same]] = False
    return now[left], before[left]


def _with(given: Timed, node: Added, slab: Slab) -> Timed:
    """Put computed columns behind the others."""
    columns = [values_of(each.value, given, slab) for each in node.outputs]
    names = [*given.rows.schema.names, *(each.name for each in node.outputs)]
    return given.with_rows(rows_of([*given.rows.columns, *columns], names, len(given)))
