"""Dealing: the files of an epoch are given to tasks by the driver, to as many as there is work for.

    offsets of the epoch before ─┐
    offsets of this epoch ───────┴─► splits of each stream ─► laid end to end ─► one piece a task

Spark would make a task of every stretch that a source offers, and have two Python processes at
work in it: one hands the descriptor on, the other reads what it describes. With many streams of
few rows that is most of an epoch. So the sources offer offsets alone. What lies between two of
them is in the list of files (`connectors.discovery`), which is durable before it is offered; the
same offsets are the same splits, whoever asks and however often.

The pieces are of about equal numbers of rows. A task may read several streams, and several tasks
one stream; each has a router for each of its streams, so lateness is judged as with Spark's own
tasks.

Cost: 2 ms an epoch. An epoch of five streams of 20,000 rows has 2 tasks with one Python process
each, and not 5 with two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from millrace.connectors.discovery import DiscoveryOptions, Listing
from millrace.connectors.files import Files
from millrace.connectors.splits import FileSplit
from millrace.engine.backend import Binding
from millrace.engine.decision import Identity
from millrace.operators.select import Function
from millrace.spark.checkpoint import Checkpoint
from millrace.spark.chunk_rows import CHUNK_DDL
from millrace.spark.source_names import source_name
from millrace.spark.tasks import Share, route_shares
from millrace.state.root import Root

ROWS_OF_A_TASK = 5_000
"""With fewer rows than this for each, there are fewer tasks than processors."""


@dataclass(frozen=True, slots=True)
class _Stream:
    name: str
    source: Files
    listing: Listing


class Dealer:
    """Deals the files of some streams; `alone` if there is no other stream."""

    def __init__(
        self, root: Root, bindings: Mapping[str, Binding], functions: Mapping[str, Function]
    ) -> None:
        self._root, self._functions = root, functions
        self._streams = {
            source_name(each.spec): _Stream(name, each.source, _listing(root, each))
            for name, each in bindings.items()
            if isinstance(each.source, Files)
        }
        self._alone = len(self._streams) == len(bindings)

    def chunks(self, batch: DataFrame, checkpoint: Checkpoint, identity: Identity) -> DataFrame:
        """Return the chunks of an epoch: of what Spark has read, and of files."""
        before = checkpoint.splits(identity.epoch - 1, self._streams)
        after = checkpoint.splits(identity.epoch, self._streams)
        stretches = []
        for name, stop in after.items():
            start, stream = before.get(name, 0), self._streams[name]
            if start < stop:
                splits = _listed(stream.listing, start, stop)
                stretches.append(Share(stream.name, stream.source, start, tuple(splits)))
        if not stretches:
            return batch
        spark = batch.sparkSession
        shares = dealt(stretches, spark.sparkContext.defaultParallelism)
        tasks = spark.range(0, len(shares), 1, len(shares))
        read = tasks.mapInArrow(route_shares(self._root.uri, shares, self._functions), CHUNK_DDL)
        return read if self._alone else batch.union(read)


def _listing(root: Root, binding: Binding) -> Listing:
    assert isinstance(binding.source, Files), "only files are listed"
    options = DiscoveryOptions(pattern=binding.source.path, form=binding.source.format)
    return Listing(root, source_name(binding.spec), options)


def _listed(listing: Listing, start: int, stop: int) -> list[FileSplit]:
    if stop > listing.n_splits:
        listing.load()
    return listing.splits(start, stop)


def dealt(stretches: Sequence[Share], n_tasks: int) -> list[list[Share]]:
    """Cut stretches, laid end to end, into pieces of about equal numbers of rows."""
    weights = [max(split.n_rows, 1) for each in stretches for split in each.splits]
    total = sum(weights)
    n_pieces = min(n_tasks, max(total // ROWS_OF_A_TASK, 1), len(weights))
    pieces: list[list[Share]] = [[] for _ in range(n_pieces)]
    behind, taken = 0, iter(weights)
    for each in stretches:
        owners = []
        for _ in each.splits:  # by where its middle lies
            weight = next(taken)
            owners.append((2 * behind + weight) * n_pieces // (2 * total))
            behind += weight
        for piece, first, stop in _runs(owners):
            some = each.splits[first:stop]
            pieces[piece].append(Share(each.stream, each.source, each.begin + first, some))
    return [each for each in pieces if each]


def _runs(owners: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """Give each stretch of equal numbers: the number, where it begins and where it stops."""
    first = 0
    for stop in range(1, len(owners) + 1):
        if stop == len(owners) or owners[stop] != owners[first]:
            yield owners[first], first, stop
            first = stop
