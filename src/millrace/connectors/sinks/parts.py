"""A part: one Parquet file while it is written, under its hidden name.

Rows are gathered until they make a row group worth writing. Where a group ends depends on the
values alone, and each group is one chunk, so that the same rows give the same bytes.
"""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from millrace.operators.canonical import logical_bytes

GROUP_BYTES = 16 << 20
GROUP_ROWS = 1 << 20


class Part:
    """A Parquet file that grows; nothing is on the disk before a group is full."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self._schema = schema
        self._waiting: list[pa.Table] = []
        self._n_bytes = 0
        self._writer: pq.ParquetWriter | None = None

    def add(self, table: pa.Table) -> None:
        """Add rows behind those that are there."""
        self._waiting.append(table)
        self._n_bytes += logical_bytes(table)
        if self._n_bytes >= GROUP_BYTES:
            self._write_group()

    def finish(self) -> None:
        """Write what waits, end the file and sync it."""
        if self._waiting:
            self._write_group()
        assert self._writer is not None, "a part has rows"
        self._writer.close()
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _write_group(self) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self.path, self._schema, version="2.6", compression="zstd", write_page_index=True
            )
        group = pa.concat_tables(self._waiting).combine_chunks()
        self._writer.write_table(group, row_group_size=GROUP_ROWS)
        self._waiting, self._n_bytes = [], 0
