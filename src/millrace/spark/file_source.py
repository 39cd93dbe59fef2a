"""The descriptor source: Spark's view of a stream of files is a few lines of text an epoch.

Listing happens in the process in which Spark plans; what it found is durable before it is
offered (`connectors.discovery`). An offset is the number of splits consumed. How many rows an
epoch may take is read from a small file that the driver keeps (`pace`), so the size of epochs
follows their measured cost without a restart. A directory that cannot be listed now offers
nothing new, and says so (`spark.outages`).

A descriptor is a stretch of consecutive splits: one task reads it in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from millrace.connectors.discovery import DiscoveryOptions, Listing
from millrace.connectors.files import Files
from millrace.connectors.splits import FileSplit
from millrace.errors import OutageError, SourceError
from millrace.spark.chunk_rows import CHUNK_DDL
from millrace.spark.outages import OutageNote
from millrace.state.root import open_root

FORMAT = "millrace_files"
UNLIMITED = 1 << 62


class FileSource(DataSource):
    """Spark's name for the source; options: root, listing, source, stream, pace, tasks, dealt."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `readStream.format` takes."""
        return FORMAT

    def schema(self) -> str:
        """Return the one column: a stretch of splits, as JSON.

        Where the driver deals files there are no rows; then the columns are those of chunks.
        """
        return CHUNK_DDL if "dealt" in self.options else "descriptor string"

    def streamReader(self, schema: object) -> FileReader:  # noqa: ARG002, N802  Spark's
        """Return the reader that Spark asks for offsets and descriptors."""
        return FileReader(dict(self.options))


class Stretch(InputPartition):
    """Consecutive splits for one task."""

    def __init__(self, begin: int, splits: Sequence[FileSplit]) -> None:
        super().__init__(begin)
        self.descriptor = json.dumps(
            {"begin": begin, "splits": [each.to_json() for each in splits]}
        )


class FileReader(DataSourceStreamReader):
    """Offers what is listed, as much at a time as the driver's pace allows."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._listing: Listing | None = None
        self._outage = OutageNote(Path(options["pace"]).parent, options["stream"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """Return the offset before the first file."""
        return {"splits": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """Return where the next epoch should end."""
        listing = self._listed()
        if listing.n_splits - start["splits"] < self._tasks():
            self._refresh(listing)
        rows = read_pace(self._options["pace"], self._options["stream"])
        return {"splits": listing.advance(start["splits"], rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Cut an epoch's splits into one stretch a task, of about equal numbers of rows.

        There is none if the driver deals them (`spark.dealing`).
        """
        if "dealt" in self._options:
            return []
        listing = self._listed()
        if end["splits"] > listing.n_splits:
            listing.refresh()
        splits = listing.splits(start["splits"], end["splits"])
        return cut_evenly(start["splits"], splits, self._tasks())

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the one descriptor of a stretch."""
        assert isinstance(partition, Stretch), "partitions come from this reader"
        yield (partition.descriptor,)

    def _refresh(self, listing: Listing) -> None:
        """Look for new files; a source that cannot be looked at has none for now."""
        try:
            listing.refresh()
        except (SourceError, OutageError) as error:
            self._outage.write(error)
        else:
            self._outage.clear()

    def _tasks(self) -> int:
        return int(self._options["tasks"])

    def _listed(self) -> Listing:
        if self._listing is None:
            source = Files.from_json(json.loads(self._options["source"]))
            options = DiscoveryOptions(
                pattern=source.path, form=source.format, settle=source.settle
            )
            root = open_root(self._options["root"])
            warn = self._outage.warn
            self._listing = Listing(root, self._options["listing"], options, warn=warn)
        return self._listing


def cut_evenly(begin: int, splits: Sequence[FileSplit], n_tasks: int) -> list[Stretch]:
    """Cut consecutive splits into at most `n_tasks` stretches of similar weight."""
    total = sum(max(each.n_rows, 1) for each in splits)
    stretches: list[Stretch] = []
    some: list[FileSplit] = []
    taken = weight = 0
    for position, split in enumerate(splits):
        some.append(split)
        weight += max(split.n_rows, 1)
        if weight * n_tasks >= total * (len(stretches) + 1) or position == len(splits) - 1:
            stretches.append(Stretch(begin + taken, some))
            taken, some = taken + len(some), []
    return stretches


def read_pace(path: str, stream: str) -> int:
    """Return how many rows of a stream the next epoch may take."""
    try:
        return int(json.loads(Path(path).read_text()).get(stream, UNLIMITED))
    except FileNotFoundError:
        return UNLIMITED
