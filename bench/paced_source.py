"""A source whose rows arrive at a steady rate by the wall clock, and carry when they did."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit


class PacedSource(DataSource):
    """Options: `rate` rows a second from `start` (seconds since 1970) on, until `stop`."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `readStream.format` takes."""
        return "paced"

    def schema(self) -> str:
        """Return the columns."""
        return "number bigint, value double, arrived timestamp"

    def streamReader(self, schema: object) -> PacedReader:  # noqa: ARG002, N802  Spark's
        """Return the reader."""
        rate, start = int(self.options["rate"]), float(self.options["start"])
        return PacedReader(rate, start, float(self.options["stop"]))


class _Rows(InputPartition):
    def __init__(self, first: int, stop: int) -> None:
        super().__init__(first)
        self.first, self.stop = first, stop


class PacedReader(DataSourceStreamReader):
    """Row n arrives at `start + n / rate`."""

    def __init__(self, rate: int, start: float, stop: float) -> None:
        self._rate, self._start, self._stop = rate, start, stop

    def initialOffset(self) -> dict[str, int]:  # noqa: N802  Spark's name
        """Return the offset before the first row."""
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802
        """Return how many rows have arrived."""
        elapsed = min(time.time(), self._stop) - self._start
        return {"rows": max(start["rows"], int(elapsed * self._rate))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one partition."""
        return [_Rows(start["rows"], end["rows"])]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows that arrived between two offsets."""
        assert isinstance(partition, _Rows)
        numbers = np.arange(partition.first, partition.stop, dtype=np.int64)
        micros = (self._start * 1e6 + numbers * (1e6 / self._rate)).astype(np.int64)
        yield pa.record_batch(
            {
                "number": pa.array(numbers),
                "value": pa.array((numbers % 1000) / 1000.0),
                "arrived": pa.array(micros, pa.timestamp("us", tz="UTC")),
            }
        )
