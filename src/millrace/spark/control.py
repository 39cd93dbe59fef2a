"""The control source: the branch of the union that moves when no row arrives.

Spark calls an epoch only when some source has something new. This source has something new
whenever the driver says so: a query was registered, a timer is due, a setting has changed. Its
offset, (registry sequence, tick, decision version), enters Spark's own offset log before the
epoch runs. It delivers no rows: the driver reads what it decided from its own memory and logs
it, so an epoch that is caused by this source alone starts no task for it.

The driver and this reader are different processes; they meet in a small file on the driver's
machine, which the driver replaces and the reader reads (about 20 microseconds a trigger).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from millrace.spark.chunk_rows import CHUNK_DDL

FORMAT = "millrace_control"
SOURCE_NAME = "millrace_control"


class ControlFile:
    """The driver's end: a number of each kind, none of which ever goes back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = {"registry": 0, "tick": 0, "decision": 0}
        self._lock = threading.Lock()

    def move(self, **numbers: int) -> None:
        """Raise some of the numbers; the reader sees all of it or nothing."""
        with self._lock:
            for name, value in numbers.items():
                self._offset[name] = max(self._offset[name], value)
            fresh = self.path.with_suffix(".new")
            fresh.write_text(json.dumps(self._offset))
            fresh.replace(self.path)

    @property
    def offset(self) -> dict[str, int]:
        """The numbers as last written."""
        return dict(self._offset)


class ControlSource(DataSource):
    """Spark's name for the source; the option `path` is the file."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `readStream.format` takes."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of a chunk, so that the branch fits into the union."""
        return CHUNK_DDL

    def streamReader(self, schema: object) -> ControlReader:  # noqa: ARG002, N802  Spark's
        """Return the reader that Spark polls."""
        return ControlReader(self.options["path"])


class ControlReader(DataSourceStreamReader):
    """The end that Spark polls once a trigger."""

    def __init__(self, path: str) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """Return the offset before the first epoch."""
        return {"registry": 0, "tick": 0, "decision": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """Return the numbers of the file, never less than where the last epoch ended."""
        try:
            with open(self._path) as file:  # noqa: PTH123  a path object costs as much as reading
                found = json.load(file)
        except FileNotFoundError:
            return start
        return {name: max(start[name], found[name]) for name in start}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Return no partition: there is nothing to read."""
        return []

    def read(self, partition: InputPartition) -> Iterator[Any]:  # noqa: ARG002
        """Return nothing; never called."""
        return iter(())
