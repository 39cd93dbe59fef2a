"""The push source: Spark's view of a push log is the numbers of its files.

An offset is a number of files. What Spark has committed is deleted when it says so, which is after
our own commit of that epoch; a file that is read again after a crash is therefore still there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from millrace.connectors.pushed import PushedFile, PushLog
from millrace.spark.file_source import read_pace
from millrace.state.root import open_root

FORMAT = "millrace_push"


class PushSource(DataSource):
    """Spark's name for the source; options: root, folder, stream, pace, tasks."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `readStream.format` takes."""
        return FORMAT

    def schema(self) -> str:
        """Return the one column: a stretch of files, as JSON."""
        return "descriptor string"

    def streamReader(self, schema: object) -> PushReader:  # noqa: ARG002, N802  Spark's
        """Return the reader that Spark asks for offsets and descriptors."""
        return PushReader(dict(self.options))


class FileStretch(InputPartition):
    """Consecutive files for one task."""

    def __init__(self, files: Sequence[PushedFile]) -> None:
        super().__init__(files[0].number)
        self.descriptor = json.dumps([each.to_json() for each in files])


class PushReader(DataSourceStreamReader):
    """Offers what was pushed, as much at a time as the driver's pace allows."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._known: PushLog | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """Return the offset before the first file."""
        return {"files": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """Return where the next epoch should end."""
        if self._log.refresh() <= start["files"]:
            return start
        rows = read_pace(self._options["pace"], self._options["stream"])
        return {"files": self._log.advance(start["files"], rows)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Cut an epoch's files into one stretch a task, of about equal numbers of rows."""
        self._log.refresh()
        files = self._log.files(start["files"], end["files"])
        return cut_files(files, int(self._options["tasks"]))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the one descriptor of a stretch."""
        assert isinstance(partition, FileStretch), "partitions come from this reader"
        yield (partition.descriptor,)

    def commit(self, end: dict[str, int]) -> None:
        """Delete what is committed."""
        self._log.consume(end["files"])

    @property
    def _log(self) -> PushLog:
        if self._known is None:
            self._known = PushLog(open_root(self._options["root"]), self._options["folder"])
        return self._known


def cut_files(files: Sequence[PushedFile], n_tasks: int) -> list[FileStretch]:
    """Cut consecutive files into at most `n_tasks` stretches of similar weight."""
    total = sum(max(each.n_rows, 1) for each in files)
    stretches: list[FileStretch] = []
    some: list[PushedFile] = []
    weight = 0
    for position, file in enumerate(files):
        some.append(file)
        weight += max(file.n_rows, 1)
        if weight * n_tasks >= total * (len(stretches) + 1) or position == len(files) - 1:
            stretches.append(FileStretch(some))
            some = []
    return stretches
