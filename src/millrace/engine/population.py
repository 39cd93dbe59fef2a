"""The population: all standing queries as rows, in blocks of two kinds.

    fresh block    the rows of one registration, in memory; durable in the registry's log
    index block    a file with the rows and their index, mapped; named by snapshots

Rows are registered into fresh blocks. When an epoch is about to run, the fresh blocks of a stream
become one index file, which the epoch's tasks map; small files are merged into larger ones later.
A query that is dropped is marked in its block and left out when the block is next rewritten.

Query ids ascend and are never given again, so a block is searched by bisection.

Not safe for threads by itself: the registry has one lock for everything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from millrace.engine.feeds import Family
from millrace.index.build import Standing
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Bools, Ints
from millrace.time import SECOND

Qids = NDArray[np.uint64]
LARGEST_ID = (1 << 63) - 1


@dataclass(slots=True, eq=False)
class FreshBlock:
    """Rows of one family that no index file holds yet."""

    key: str
    qids: Qids
    parameters: pa.RecordBatch
    dead: Bools

    def alive(self, families: Mapping[str, Family]) -> Iterator[Standing]:
        """Yield the rows that stand; those of a feed that was dropped do not."""
        if self.key in families:
            yield _standing(families[self.key], self.qids, self.parameters, ~self.dead)

    def family_at(self, place: int) -> str:  # noqa: ARG002  they are all of one
        """Return the key of a row's family."""
        return self.key

    def constants_at(self, place: int) -> dict[str, Any]:
        """Return the constants of a row."""
        return _first_row(self.parameters.slice(place, 1))

    def of_families(self, keys: set[str]) -> Bools:
        """Mark the rows of some families."""
        return np.full(self.qids.size, self.key in keys)

    def belongs(self, places: Ints, family: str) -> Bools:
        """Say which of some rows are of a family."""
        return np.full(places.size, self.key == family)


@dataclass(slots=True, eq=False)
class IndexBlock:
    """The rows of one index file."""

    run: IndexRun
    dead: Bools

    @property
    def qids(self) -> Qids:
        """The ids, ascending."""
        return self.run.qids

    def alive(self, families: Mapping[str, Family]) -> Iterator[Standing]:
        """Yield the rows that stand, family by family."""
        for number, stored in enumerate(self.run.families):
            if stored.key in families:
                slots = self.run.slots_of_family(number)
                kept = ~self.dead[slots]
                parameters = self.run.parameters(number)
                yield _standing(families[stored.key], self.qids[slots], parameters, kept)

    def family_at(self, place: int) -> str:
        """Return the key of a row's family."""
        [owner] = self.run.owners(np.array([place], np.int32))
        family = self.run.families[int(owner)]
        return family.key

    def constants_at(self, place: int) -> dict[str, Any]:
        """Return the constants of a row."""
        at = np.array([place], np.int32)
        [owner], [row] = self.run.owners(at), self.run.places(at)
        return _first_row(self.run.parameters(int(owner)).slice(int(row), 1))

    def of_families(self, keys: set[str]) -> Bools:
        """Mark the rows of some families."""
        mine = np.array([each.key in keys for each in self.run.families])
        return mine[self.run.owners(np.arange(self.run.n, dtype=np.int32))]

    def belongs(self, places: Ints, family: str) -> Bools:
        """Say which of some rows are of a family."""
        mine = np.array([each.key == family for each in self.run.families])
        found: Bools = mine[self.run.owners(places.astype(np.int32))]
        return found


Block = FreshBlock | IndexBlock


@dataclass(slots=True, eq=False)
class Population:
    """Every standing query, by the stream it reads.

    `names` holds only queries that were given one; `generations` only those that were resumed;
    `expires` only those that are to end by themselves, in us. `stamps` says from which id on
    queries were registered when, in us, to the second.
    """

    blocks: dict[str, list[Block]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)
    generations: dict[int, int] = field(default_factory=dict)
    n_rows: int = 0
    expires: dict[int, int] = field(default_factory=dict)
    stamps: list[tuple[int, int]] = field(default_factory=list)

    def stamp(self, qids: range, *, at: int | None, expires: int | None) -> None:
        """Take down when queries were registered, and when they are to end, where that is known."""
        if at is not None and (not self.stamps or at - self.stamps[-1][1] >= SECOND):
            self.stamps.append((qids.start, at))
        if expires is not None:
            self.expires.update(dict.fromkeys(qids, expires))

    def registered(self, qid: int) -> int | None:
        """Return when a query was registered, if that is known."""
        place = bisect_right(self.stamps, qid, key=lambda each: each[0])
        return self.stamps[place - 1][1] if place else None

    def add(
        self, stream: str, family: Family, first: int, rows: pa.RecordBatch, names: list[str] | None
    ) -> None:
        """Take in rows whose ids begin with `first`."""
        if not rows.num_rows:
            return
        qids = np.arange(first, first + rows.num_rows, dtype=np.uint64)
        dead = np.zeros(rows.num_rows, np.bool_)
        self.blocks.setdefault(stream, []).append(FreshBlock(family.key, qids, rows, dead))
        self.n_rows += rows.num_rows
        if names is not None:
            self.names.update(zip(names, qids.tolist(), strict=True))

    def missing(self, qids: Qids) -> Qids:
        """Return those ids that stand for no query."""
        left = np.unique(qids)
        for block in self._all():
            at, mine = _places(block, left)
            left = left[~mine | block.dead[at]]
        return left

    def strangers(self, qids: Qids, family: str) -> Qids:
        """Return those ids that stand for no query of a family."""
        left = np.unique(qids)
        for block in self._all():
            at, mine = _places(block, left)
            mine &= ~block.dead[at]
            mine[mine] = block.belongs(at[mine], family)
            left = left[~mine]
        return left

    def drop(self, qids: Qids) -> None:
        """Remove queries."""
        for block in self._all():
            at, mine = _places(block, qids)
            self._kill(block, np.unique(at[mine]))

    def drop_families(self, stream: str, keys: set[str]) -> None:
        """Remove all queries of some families."""
        for block in self.blocks.get(stream, []):
            self._kill(block, np.flatnonzero(block.of_families(keys)))

    def change(self, stream: str, family: Family, rows: pa.RecordBatch) -> None:
        """Give queries other constants; they keep their ids, and names if they have any."""
        qids: Qids = rows.column("qid").to_numpy()
        if not qids.size:
            return
        for block in self._all():
            at, mine = _places(block, qids)
            block.dead[at[mine]] = True
        order = np.argsort(qids)
        constants = rows.drop_columns(["qid"]).take(pa.array(order))
        fresh = FreshBlock(family.key, qids[order], constants, np.zeros(qids.size, np.bool_))
        self.blocks.setdefault(stream, []).append(fresh)

    def find(self, qid: int) -> tuple[str, dict[str, Any]] | None:
        """Return the key of a query's family and its constants; None if it does not stand."""
        if not 0 <= qid <= LARGEST_ID:
            return None
        for block in self._all():
            [place], [mine] = _places(block, np.array([qid], np.uint64))
            if mine and not block.dead[place]:
                return block.family_at(int(place)), block.constants_at(int(place))
        return None

    def members(self, stream: str, keys: set[str]) -> Qids:
        """Return the ids of all queries of some families."""
        blocks = self.blocks.get(stream, [])
        found = [block.qids[block.of_families(keys) & ~block.dead] for block in blocks]
        return np.concatenate([np.zeros(0, np.uint64), *found])

    def grouped(self, families: Mapping[str, Family], by: Callable[[str], str]) -> dict[str, Qids]:
        """Return the ids of all queries, by what a function makes of the names of their feeds.

        Cost: a call for each family, and 0.1 s for a million queries.
        """
        found: dict[str, list[Qids]] = {}
        for block in self._all():
            alive = np.flatnonzero(~block.dead)
            if isinstance(block, FreshBlock):
                if block.key in families:
                    found.setdefault(by(families[block.key].feed), []).append(block.qids[alive])
                continue
            names, numbers = np.unique([by(each.feed) for each in block.run.families],
                                       return_inverse=True)  # fmt: skip
            groups = numbers[block.run.owners(alive.astype(np.int32))]
            order = np.argsort(groups, kind="stable")
            bounds = np.searchsorted(groups[order], np.arange(names.size + 1))
            for at, name in enumerate(names.tolist()):
                mine = alive[order[bounds[at] : bounds[at + 1]]]
                found.setdefault(name, []).append(block.qids[mine])
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def newcomers(self, stream: str, first: int, stop: int) -> Iterator[tuple[str, Qids]]:
        """Yield the queries over a stream with ids of [first, stop), with the key of their family.

        Cost: that of the blocks and of these queries, however many others there are.
        """
        for block in self.blocks.get(stream, []):
            low, high = np.searchsorted(block.qids, np.array([first, stop], np.uint64)).tolist()
            alive = np.arange(low, high, dtype=np.int32)[~block.dead[low:high]]
            if not alive.size:
                continue
            if isinstance(block, FreshBlock):
                yield block.key, block.qids[alive]
                continue
            owners = block.run.owners(alive)
            for number in np.unique(owners).tolist():
                yield block.run.families[number].key, block.qids[alive[owners == number]]

    def standing(self, stream: str, families: Mapping[str, Family]) -> Iterator[Standing]:
        """Yield the rows over a stream that stand, block by block."""
        for block in self.blocks.get(stream, []):
            yield from block.alive(families)

    def index_bytes(self, stream: str) -> int:
        """Return how large the index files over a stream are."""
        blocks = self.blocks.get(stream, [])
        return sum(each.run.n_bytes for each in blocks if isinstance(each, IndexBlock))

    def out(self, block: Block) -> Bools:
        """Return who of a block gives no answers now."""
        mask = block.dead.copy()
        if self.paused:
            at, mine = _places(block, np.array(sorted(self.paused), np.uint64))
            mask[at[mine]] = True
        return mask

    def _all(self) -> Iterator[Block]:
        for blocks in self.blocks.values():
            yield from blocks

    def _kill(self, block: Block, places: Ints) -> None:
        fresh = places[~block.dead[places]]
        block.dead[fresh] = True
        self.n_rows -= fresh.size
        gone = set(block.qids[fresh].tolist())
        self.paused -= gone
        if self.generations:
            self.generations = {q: g for q, g in self.generations.items() if q not in gone}
        if self.expires:
            self.expires = {q: at for q, at in self.expires.items() if q not in gone}
        if self.names and gone:
            self.names = {name: q for name, q in self.names.items() if q not in gone}


def _places(block: Block, qids: Qids) -> tuple[Ints, Bools]:
    """Return where each id would be in a block, and whether it is there."""
    if not block.qids.size:
        return np.zeros(qids.size, np.int64), np.zeros(qids.size, np.bool_)
    at = np.minimum(np.searchsorted(block.qids, qids), block.qids.size - 1)
    return at, block.qids[at] == qids


def _first_row(rows: pa.RecordBatch) -> dict[str, Any]:
    listed: list[dict[str, Any]] = rows.to_pylist()
    return listed[0] if listed else {}


def _standing(family: Family, qids: Qids, rows: pa.RecordBatch, kept: Bools) -> Standing:
    if not kept.all():
        qids, rows = qids[kept], rows.filter(pa.array(kept))
    return Standing(family.key, family.feed, family.selection, qids, rows)
