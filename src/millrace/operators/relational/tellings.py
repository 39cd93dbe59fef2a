"""Tellings: which questions a stretch of time asks for queries, and what is told of the answers.

Queries that take the same elements ask the same: there is one question for them and each *point*,
an instant at which their window stands anew. What a stream tells of a query is

    rstream            at each tick the answer that stands
    istream, dstream   at each point, where the answer is other than at the point before: both;
                       when the query comes, the answer that stands; when it goes, the same
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from millrace.kernels.arrays import Ints
from millrace.operators.relational.cells import Filters
from millrace.operators.relational.lives import Lives
from millrace.operators.relational.questions import Questions


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Queries with what they take: those that take the same have one number.

    A window that does not slide has a slide of 0.
    """

    lives: Lives
    sizes: Ints
    slides: Ints
    sights: Ints
    filters: Filters

    def together(self) -> tuple[Ints, Ints]:
        """Return the number of each query, and where each number occurs first."""
        columns = (self.sights, self.sizes, self.slides, self.filters.lows, self.filters.highs)
        table = np.column_stack(columns)
        _, firsts, numbers = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return numbers.reshape(-1), firsts


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """Of which question which query tells the answer, and when; ordered by question."""

    questions: Ints
    queries: Ints
    times: Ints

    @classmethod
    def of(cls, questions: Ints, queries: Ints, times: Ints) -> Told:
        """Order what is told by question."""
        order = np.argsort(questions, kind="stable")
        return cls(questions[order], queries[order], times[order])

    def __len__(self) -> int:
        return len(self.times)

    def begins(self, n_questions: int) -> Ints:
        """Return where what is told of each question begins."""
        found: Ints = np.searchsorted(self.questions, np.arange(n_questions + 1))
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Tellings:
    """Questions, and what is told of them: as it stands, where it moved, as it came or went.

    `previous` is the question about the point before, or -1.
    """

    questions: Questions
    previous: Ints
    standing: Told
    moving: Told
    coming: Told
    going: Told


@dataclass(frozen=True, slots=True)
class Points:
    """Makes the tellings of stretches of time; with `every` what stands is told at ticks."""

    every: int | None

    def count(self, slides: Ints, begin: int, end: int) -> int:
        """Return about how many points a query has at most between two instants."""
        steps = slides[slides > 0]
        step = int(steps.min()) if len(steps) else end - begin
        step = min(step, self.every or step)
        return (end - begin) // max(step, 1) + 2

    def of(self, asked: Asked, begin: int, end: int) -> Tellings:
        """Return the tellings of [begin, end)."""
        numbers, firsts = asked.together()
        slides = asked.slides[firsts]
        points = {each: self._points(each, begin, end) for each in np.unique(slides).tolist()}
        n_points = np.array([len(points[each]) for each in slides.tolist()], np.int64)
        owners = np.repeat(np.arange(len(firsts)), n_points)
        first_of = np.cumsum(n_points) - n_points
        at = np.concatenate([np.zeros(0, np.int64), *(points[each] for each in slides.tolist())])
        ends = at + 1
        begins = at - asked.sizes[firsts][owners] + (slides[owners] > 0)
        lows, highs = asked.filters.lows[firsts][owners], asked.filters.highs[firsts][owners]
        questions, order = Questions.of(asked.sights[firsts][owners], begins, ends, lows, highs)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        previous = np.full(len(order), -1)
        follows = np.flatnonzero(owners[1:] == owners[:-1]) + 1
        previous[place[follows]] = place[follows - 1]
        where = _Where(points, slides, first_of, place)
        none = Told(*(np.zeros(0, np.int64) for _ in range(3)))
        if self.every is not None:
            ticks = np.arange(-(-begin // self.every), -(-end // self.every)) * self.every
            return Tellings(
                questions, previous, self._standing(asked.lives, numbers, ticks, where),
                none, none, none,
            )  # fmt: skip
        told = _changing(asked.lives, numbers, where, begin, end)
        return Tellings(questions, previous, none, *told)

    def _points(self, slide: int, begin: int, end: int) -> Ints:
        """Return the points of windows of one slide, ascending; the first may be before."""
        if self.every is not None:
            ticks = np.arange(-(-begin // self.every), -(-end // self.every)) * self.every
            return np.unique(ticks // slide * slide) if slide else ticks
        return np.arange((begin - 1) // slide, -(-end // slide)) * slide

    def _standing(self, lives: Lives, numbers: Ints, ticks: Ints, where: _Where) -> Told:
        there = (lives.starts[:, None] <= ticks[None, :]) & (lives.stops[:, None] > ticks[None, :])
        queries, at = np.nonzero(there)
        return Told.of(where.question(numbers[queries], ticks[at]), queries, ticks[at])


@dataclass(frozen=True, slots=True, eq=False)
class _Where:
    """Finds the question of queries with one number that stands at an instant."""

    points: dict[int, Ints]
    slides: Ints
    first_of: Ints
    place: Ints

    def question(self, numbers: Ints, times: Ints) -> Ints:
        found = np.zeros(len(numbers), np.int64)
        slides = self.slides[numbers]
        for slide, points in self.points.items():
            mine = slides == slide
            found[mine] = np.searchsorted(points, times[mine], "right") - 1
        where: Ints = self.place[self.first_of[numbers] + found]
        return where


def _changing(
    lives: Lives, numbers: Ints, where: _Where, begin: int, end: int
) -> tuple[Told, Told, Told]:
    """Return who tells what moves at points, who comes, and who goes."""
    queries, times = list[Ints](), list[Ints]()
    slides = where.slides[numbers]
    for slide, points in where.points.items():
        at = points[points >= begin]
        mine = np.flatnonzero(slides == slide)
        there = (lives.starts[mine][:, None] < at[None, :]) & (
            lives.stops[mine][:, None] > at[None, :]
        )
        some, of = np.nonzero(there)
        queries.append(mine[some])
        times.append(at[of])
    none = np.zeros(0, np.int64)
    query, time = np.concatenate([none, *queries]), np.concatenate([none, *times])
    moving = Told.of(where.question(numbers[query], time), query, time)
    come = np.flatnonzero((lives.starts >= begin) & (lives.starts < end))
    gone = np.flatnonzero((lives.stops >= begin) & (lives.stops < end))
    coming = Told.of(where.question(numbers[come], lives.starts[come]), come, lives.starts[come])
    going = Told.of(where.question(numbers[gone], lives.stops[gone] - 1), gone, lives.stops[gone])
    return moving, coming, going
