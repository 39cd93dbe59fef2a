"""Spreading: the rows of one epoch dealt out to map tasks, in all the ways that sources may.

A source partition is cut into stretches, each read in order by one task; a task may have
stretches of several partitions, mixed, and gets them in batches cut anywhere. Rows of a source
without order go to any task in any order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa

from millrace.engine.inprocess import Task
from millrace.engine.route import Arrived
from millrace.engine.streams import StreamSpec
from millrace.testing.oracle.epochs import Row

PLACE = "at"
"""The column of a test's rows that says where a row stands in its source partition."""


def spread(
    spec: StreamSpec, partitions: Mapping[str, Sequence[Row]], n_tasks: int, random: Random
) -> list[Task]:
    """Deal the rows of one stream out to at most `n_tasks` tasks."""
    shares: list[list[Sequence[Row]]] = [[] for _ in range(n_tasks)]
    for rows in partitions.values():
        given = list(rows) if spec.exact else random.sample(list(rows), len(rows))
        stretches = _cut(given, n_tasks, random)
        for share, stretch in zip(random.sample(shares, len(stretches)), stretches, strict=True):
            share.append(stretch)
    tasks = [Task(spec.name, _batches(spec, share, random)) for share in shares]
    return [task for task in tasks if task.arrived]


def _cut(rows: Sequence[Row], n_most: int, random: Random) -> list[Sequence[Row]]:
    """Cut rows into at most `n_most` stretches, none of them empty."""
    n_cuts = random.randrange(min(n_most, len(rows))) if rows else 0
    cuts = sorted(random.sample(range(1, len(rows)), n_cuts)) if n_cuts else []
    bounds = [0, *cuts, len(rows)]
    return [rows[first:stop] for first, stop in pairwise(bounds) if rows]


def _batches(spec: StreamSpec, share: Sequence[Sequence[Row]], random: Random) -> list[Arrived]:
    mixed = _mixed(share, random)
    begin: list[int | str] | None = None
    if spec.ordered and mixed:
        begin = [int(str(mixed[0][PLACE]))]
    return [_arrived(spec, rows, begin) for rows in _cut(mixed, 2, random)]


def _mixed(share: Sequence[Sequence[Row]], random: Random) -> list[Row]:
    """Mix stretches at random; each of them keeps its own order."""
    left = [list(stretch) for stretch in share if stretch]
    mixed = []
    while left:
        stretch = random.choice(left)
        mixed.append(stretch.pop(0))
        left = [each for each in left if each]
    return mixed


def _arrived(spec: StreamSpec, rows: Sequence[Row], begin: list[int | str] | None) -> Arrived:
    batch = pa.RecordBatch.from_pylist(list(rows), schema=spec.schema.to_arrow())
    places = pa.array([row[PLACE] for row in rows], pa.int64())
    return Arrived(batch, places, begin=begin, origin=spec.name)
