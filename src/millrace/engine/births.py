"""Births: which queries of a family began together, and what each of them sees.

The queries of a family come and go while its plan runs. Those that an epoch is the first to know of
are a *birth*: they begin at the same instant, and see the same elements, as queries of their own
would that were registered then: those that arrive from that epoch on.

    until      the number of the registry's last change then: a row of an earlier one was there
    entered    the epoch: they see what arrives in it, and after it
    since      the instant at which they begin: where all streams were complete then, or if one had
               not begun, the least time of what has come since, once that is complete
    newest     the greatest time of an element that came before them, and that they do not see

Where all windows of a plan forget (`horizon`), a birth is of *age* some time after it began: what
it sees is what a query would see that has always been there. From that instant on its queries
belong to the eldest, birth 0, which the first ones of a plan are of at once:

    since ─────────────── age ──────────►
      birth 17             │ birth 0            of which there is one, however many were born

Where sizes of windows are parameters, that time is what the widest window of a birth `lasts`, and
no less than that of an earlier one that is not of age. So births come of age in their order.

Law: of two births the later one begins no earlier. So what the plan has taken is said by a few
numbers: up to which birth queries have come, which are of age, up to which change they have gone.

Births that see history begin before their *mark*, where streams were complete when they were
registered. They see what has a time from `since` on, whenever it came, and run beside the plan
until they are where it is (`engine.beside`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any, Self

import numpy as np
import pyarrow as pa

from millrace.engine.decision import Decision
from millrace.engine.elements import StoredElements, as_elements
from millrace.engine.feeds import FeedSpec
from millrace.engine.plan_stores import EPOCH
from millrace.engine.progress import Progress, frontier
from millrace.engine.query_rows import BORN, comings, queries_spec
from millrace.engine.table_changes import Place, of_place
from millrace.engine.tables import COPIES, SEQUENCE, TableFile, consolidated, read_changes
from millrace.kernels.arrays import Bools, Hashes, Ints
from millrace.operators.relational.slab import Elements
from millrace.operators.relational.timed import NEVER, OPEN, rows_of, take_rows
from millrace.plan.levels import BIRTH, BIRTHS_SCHEMA, QUERY, SEEN_FROM
from millrace.state.root import Root

ELDEST = 0


@dataclass(frozen=True, slots=True)
class Birth:
    """Queries that begin together; until they do, the least time that they were given.

    How long it `lasts` until they see what queries do that were always there, if that is not the
    same for all births.
    Those that see history have a `mark`, and are of age at the instant `grows` at the earliest if
    they have run beside the others.
    """

    until: int
    entered: int
    newest: int | None = None
    since: int | None = None
    earliest: int | None = None
    mark: int | None = None
    grows: int | None = None
    lasts: int | None = None

    def settled(self, least: int | None, reached: int | None) -> Birth:
        """Return the birth after an epoch that gave it elements, and came to an instant."""
        if self.since is not None:
            return self
        given = [each for each in (self.earliest, least) if each is not None]
        earliest = min(given, default=None)
        if earliest is not None and reached is not None and earliest < reached:
            return replace(self, since=earliest, earliest=None)
        return replace(self, earliest=earliest)

    def of_age(self, horizon: int) -> int:
        """Return the instant from which on its queries are like those that were always there."""
        assert self.since is not None, "it has begun"
        unseen = self.since if self.newest is None else self.newest + 1
        age = max(self.since, unseen) + (horizon if self.lasts is None else self.lasts)
        return age if self.grows is None else max(age, self.grows)

    @property
    def sees_from(self) -> int:
        """The least time of elements that it may see: those of others are told by their epochs."""
        return NEVER if self.mark is None or self.since is None else self.since


@dataclass(frozen=True, slots=True)
class Births:
    """The births of a family, and what its plan has taken of its queries.

    `gone` are births that have no query any more, and that the plan has not forgotten yet. Queries
    of births up to `added` have come, those that went with changes up to `removed` have gone;
    births up to `grown` are of age. Without a `horizon` none ever is; each may have its own, which
    is at least that of all. `ripe` is when the last one
    is that had begun. Births up to `floor` are those of another plan; `joining` are those behind
    that number which have just come from one that ran beside this. `marked` are births that have
    come with their marks, until the plan is beyond all of them. `out` are queries, with the changes
    that they came with, that the plan does not hold as they have failed; `leaving` are those that
    it does not hold from the next slab on.
    """

    horizon: int | None
    alive: tuple[Birth, ...] = ()
    gone: tuple[Birth, ...] = ()
    added: int = 0
    removed: int = 0
    grown: int = 0
    ripe: int | None = None
    floor: int = 0
    joining: int | None = None
    marked: tuple[tuple[int, int], ...] = ()
    out: tuple[tuple[int, int], ...] = ()
    leaving: tuple[tuple[int, int], ...] = ()

    def after(self, born: Sequence[int], fresh: Birth | None, reached: int | None) -> Births:
        """Return the births of the next epoch, which begins where its plan has come.

        `born` are the changes that queries came with; new ones are of the birth `fresh`.
        """
        grown = self.grown
        if self.horizon is not None and reached is not None:
            begun = [each for each in self.begun if each.until <= self.added]
            ripe = [each.until for each in begun if each.of_age(self.horizon) <= reached]
            grown = max([grown, *ripe])
        alive, gone, left = [], list(self.gone), {each for each in born if each > grown}
        for each in self.alive:
            mine = {one for one in left if one <= each.until}
            left -= mine
            if mine:
                alive.append(each)
            elif grown < each.until <= self.added:
                gone.append(each)
        if fresh is not None and any(each > self.last for each in left):
            alive.append(fresh)
        ahead = reached is None or any(mark > reached for _, mark in self.marked)
        marked = self.marked if ahead else ()
        return replace(self, alive=tuple(alive), gone=tuple(gone), grown=grown, marked=marked)

    def settled(self, least: int | None, reached: int | None) -> Births:
        """Return the births after an epoch that gave them elements, and came to an instant."""
        return replace(self, alive=tuple(each.settled(least, reached) for each in self.alive))

    def taken(self, sequence: int) -> Births:
        """Return the births after a slab, under the catalog of that number."""
        alive = tuple(each for each in self.alive if each.until > self.eldest)
        added = max([self.added, *(each.until for each in self.begun)])
        ages = [] if self.horizon is None else [each.of_age(self.horizon) for each in self.begun]
        ripe = max([*([] if self.ripe is None else [self.ripe]), *ages], default=None)
        return replace(
            self,
            alive=alive,
            gone=(),
            added=added,
            removed=sequence,
            grown=self.eldest,
            ripe=ripe,
            joining=None,
            marked=self._marks,
            out=self.leaving,
            leaving=(),
        )

    @property
    def _marks(self) -> tuple[tuple[int, int], ...]:
        """The births that see history, with their marks, in order."""
        known = {each.until: each.mark for each in self.alive if each.mark is not None}
        return tuple(sorted((dict(self.marked) | known).items()))

    def joined(self, others: Births, at: int) -> Births:
        """Return the births with those that ran beside them until both had come to an instant."""
        least = at + 1 if self.ripe is None else max(at + 1, self.ripe)
        come = tuple(replace(each, grows=least) for each in others.alive)
        joining = None if self.horizon is None else others.floor
        alive = (*self.alive, *come)
        return replace(self, alive=alive, added=others.added, joining=joining)

    @property
    def last(self) -> int:
        """Up to which change queries are of these births."""
        return max([self.added, *(each.until for each in self.alive)])

    @property
    def begun(self) -> list[Birth]:
        """The births whose queries run, in order."""
        return [each for each in self.alive if each.since is not None]

    @property
    def eldest(self) -> int:
        """Up to which birth queries are of age; those that a plan begins with are at once."""
        if self.horizon is None or self.added or not self.begun:
            return self.grown
        return self.begun[0].until

    @property
    def first(self) -> int | None:
        """The instant at which the first of them begins."""
        return min((each.since for each in self.begun if each.since is not None), default=None)

    def to_json(self) -> dict[str, Any]:
        """Spell the births as JSON."""
        spelt = {name: getattr(self, name) for name in self.__slots__}
        for name in ("alive", "gone"):
            spelt[name] = [astuple(each) for each in spelt[name]]
        return spelt

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        some = {name: tuple(Birth(*each) for each in spelt[name]) for name in ("alive", "gone")}
        pairs = {
            name: tuple((one, other) for one, other in spelt.get(name, ()))
            for name in ("marked", "out", "leaving")
        }
        return cls(**{**spelt, **some, **pairs})

    # ---- what a slab takes -----------------------------------------------------------------------

    def births_at(self, start: int) -> Elements:
        """Return the births that come and go in a slab that starts at an instant."""
        told: list[tuple[int, int, int]] = []
        for each in self.begun:
            if each.until > self.added and each.since is not None:
                told += self._lives(each, each.since, 1)
        for each in self.gone:
            told += self._lives(each, start, -1)
        if self.joining is not None and self.horizon is not None:
            come = [each for each in (*self.alive, *self.gone) if each.until > self.joining]
            told += [(each.until, each.of_age(self.horizon), -1) for each in come]
        births, times, copies = np.array(told, np.int64).reshape(-1, 3).T
        batch = pa.record_batch([pa.array(births)], schema=BIRTHS_SCHEMA.to_arrow())
        return Elements(batch, times, copies)

    def _lives(self, birth: Birth, at: int, copies: int) -> list[tuple[int, int, int]]:
        """Tell that a birth is there from an instant on, until it is of age, or no longer."""
        if birth.until <= self.eldest:
            return [(ELDEST, at, copies)]
        told = [(birth.until, at, copies)]
        if self.horizon is not None:
            told.append((birth.until, birth.of_age(self.horizon), -copies))
        return told

    def queries_at(
        self, start: int, root: Root, files: Sequence[TableFile], types: Sequence[pa.DataType]
    ) -> Elements:
        """Return the queries that come and go in a slab that starts at an instant."""
        changed = self._changes(root, files, types)
        net = pa.concat_tables([changed, self._joining(root, files, types)])
        born, copies = net.column(BORN).to_numpy(), net.column(COPIES).to_numpy()
        known = sorted([*self.begun, *self.gone], key=lambda each: each.until)
        known.append(Birth(OPEN, 0, since=start))  # of no query: the others are of age
        last_ones = np.array([each.until for each in known], np.int64)
        since = np.array([start if each.since is None else each.since for each in known], np.int64)
        birth = np.searchsorted(last_ones, born)
        rows, ids = (
            np.arange(changed.num_rows),
            np.where(born <= self.eldest, ELDEST, last_ones[birth]),
        )
        times = np.where(copies > 0, since[birth], start)[rows]
        if self.horizon is not None:
            age = np.array([each.of_age(self.horizon) for each in known], np.int64)
            young = np.flatnonzero(ids != ELDEST)
            later, moved = age[birth[young]], copies[young]
            ids = np.concatenate((ids[rows], ids[young], np.full(len(young), ELDEST)))
            copies = np.concatenate((copies[rows], -moved, moved))
            rows = np.concatenate((rows, young, young))
            times = np.concatenate((times, later, later))
        names = [f"p{number}" for number in range(len(types))]
        taken = net.take(pa.array(rows))
        columns = [taken.column(QUERY), pa.array(ids), *(taken.column(name) for name in names)]
        found = rows_of(list(map(_one, columns)), [QUERY, BIRTH, *names], len(rows))
        return Elements(found, times, copies)

    def _changes(
        self, root: Root, files: Sequence[TableFile], types: Sequence[pa.DataType]
    ) -> pa.Table:
        """Return the queries that the plan has to take, and those that it has to forget."""
        spec = queries_spec("queries", types)
        changes = read_changes(root, spec, files, self.added or None, numbered=True)
        born, copies = changes.column(BORN).to_numpy(), changes.column(COPIES).to_numpy()
        seen = (copies < 0) & (born <= self.added)
        seen &= changes.column(SEQUENCE).to_numpy() <= self.removed
        seen |= born <= self.floor
        net = consolidated(changes.filter(pa.array(~seen)).drop_columns([SEQUENCE]))
        now = max([self.added, *(each.until for each in self.begun)])
        wanted = (net.column(COPIES).to_numpy() < 0) | (net.column(BORN).to_numpy() <= now)
        net = net.filter(pa.array(wanted))
        if self.out or self.leaving:
            net = self._without(net, consolidated(read_changes(root, spec, files, None)))
        return net.combine_chunks()

    def _without(self, net: pa.Table, standing: pa.Table) -> pa.Table:
        """Return what changes without queries that are left out; those that are held go."""
        unheld, leaving = {*self.out, *self.leaving}, {*self.leaving} - {*self.out}
        here = [each not in unheld for each in comings(net)]
        held = [each in leaving and each[1] <= self.added for each in comings(standing)]
        going = standing.filter(pa.array(held, pa.bool_()))
        back = pa.array(np.full(going.num_rows, -1, np.int64))
        going = going.set_column(going.num_columns - 1, COPIES, back)
        return pa.concat_tables([net.filter(pa.array(here, pa.bool_())), going])

    def _joining(
        self, root: Root, files: Sequence[TableFile], types: Sequence[pa.DataType]
    ) -> pa.Table:
        """Return the queries that came from beside: of their coming only the age is untold."""
        spec = queries_spec("queries", types)
        if self.joining is None:
            return spec.changes.empty_table()
        changes = read_changes(root, spec, files, self.joining, numbered=True)
        born, number = changes.column(BORN).to_numpy(), changes.column(SEQUENCE).to_numpy()
        stood = (born > self.joining) & (born <= self.added) & (number <= self.removed)
        return consolidated(changes.filter(pa.array(stood)).drop_columns([SEQUENCE]))

    def marks_of(
        self,
        keys: Hashes,
        root: Root,
        files: Sequence[TableFile],
        types: Sequence[pa.DataType],
    ) -> Ints:
        """Return the marks of some queries: what they tell of before is about history."""
        queries = read_changes(root, queries_spec("queries", types), files, self.floor or None)
        ids, born = queries.column(QUERY).to_numpy(), queries.column(BORN).to_numpy()
        last_ones, marks = np.array([*self._marks, (OPEN, NEVER)], np.int64).T
        order = np.lexsort((born, ids))  # the last of a query's lives counts
        at = np.searchsorted(ids[order], keys.astype(np.int64), side="right") - 1
        found: Ints = marks[np.searchsorted(last_ones, born[order][at])] if len(ids) else marks[:0]
        return found

    def seen(self, elements: Elements, epochs: Ints) -> Elements:
        """Return elements once for each birth that sees them, in the same order."""
        some = [
            (each.until, each.entered, each.sees_from)
            for each in self.begun
            if each.until > self.eldest
        ]
        eldest = [(ELDEST, 0, NEVER)] if self.horizon is not None else []
        last_ones, entered, low = np.array([*eldest, *some], np.int64).reshape(-1, 3).T
        seen = (epochs[:, None] >= entered) & (elements.times[:, None] >= low)
        rows, births = np.nonzero(seen)
        taken = take_rows(elements.rows, rows)
        columns = [*taken.columns, pa.array(last_ones[births])]
        names = [*taken.schema.names, SEEN_FROM]
        return Elements(rows_of(columns, names, len(rows)), elements.times[rows])


@dataclass(frozen=True, slots=True)
class SeenByBirths:
    """The elements that the births of a family have seen, once for each that has."""

    stored: StoredElements
    births: Births

    def between(self, stream: str, begin: int, end: int) -> Elements:
        """Return those whose time is in [begin, end)."""
        return self._seen(self.stored.before(stream, begin, end))

    def of(self, stream: str, keys: Hashes, after: int) -> Elements:
        """Return those of some keys whose time is greater than `after`."""
        return self._seen(self.stored.keyed(stream, keys, after))

    def having(self, stream: str, keys: Hashes, after: int) -> Bools:
        """Say which of some keys there may be elements of whose time is greater than `after`."""
        return self.stored.having(stream, keys, after)

    def _seen(self, table: pa.Table) -> Elements:
        return self.births.seen(as_elements(table), table.column(EPOCH).to_numpy())


def births_now(feed: FeedSpec, decision: Decision, progress: Progress) -> Births:
    """Return the births of a family, with those that can begin now that its streams are there."""
    given = [progress.earliest[name] for name in feed.sources if name in progress.earliest]
    births = Births.from_json(decision.births[feed.name])
    return births.settled(min(given, default=None), frontier(feed, progress.marks))


def gone(queries: Elements) -> Ints:
    """Return the ids of queries that go and do not come again, as changes in one slab tell."""
    ids, numbers = np.unique(queries.rows.column(QUERY).to_numpy(), return_inverse=True)
    found: Ints = ids[np.bincount(numbers, queries.copies, len(ids)) < 0]
    return found


def placed(elements: Elements, place: Place) -> Elements:
    """Return the rows of a table that belong to a shard."""
    at = of_place(elements.rows, place)
    copies = None if elements.copies is None else elements.copies[at]
    return Elements(take_rows(elements.rows, at), elements.times[at], copies)


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else whole.chunk(0)
