"""Following: keep the rows of a template equal to a table that changes elsewhere.

The table is read again and again. Rows are compared as wholes, with their number: what is in the
table and not in the template is inserted, what is in the template and not in the table is
dropped, and everything else keeps its id and goes on undisturbed.

A table that cannot be read, or that has a row which does not fit, changes nothing; the error is
shown by `failure`, and the next reading tries again.
"""

from __future__ import annotations

import glob
import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from millrace.errors import SourceError
from millrace.time import SECOND, to_micros

if TYPE_CHECKING:
    from millrace.engine.given_rows import Rows
    from millrace.session.template import Template

SETTLE_NS = 300_000_000
"""A file that was written to less than that ago may be half written."""
TRIES = 40

_logger = logging.getLogger(__name__)


class Following:
    """A thread that follows one table until `stop`."""

    def __init__(
        self, template: Template, source: str | Callable[[], Rows], every: str | int
    ) -> None:
        self._template = template
        self._read = source if callable(source) else lambda: read_rows(source)
        self._pause = to_micros(every) / SECOND
        self._stopped = threading.Event()
        self.failure: Exception | None = None
        self.take()
        self._thread = threading.Thread(
            target=self._follow, name=f"millrace-follow-{template.name}", daemon=True
        )
        self._thread.start()

    def take(self) -> tuple[int, int]:
        """Read the table now; return how many rows came and how many went."""
        wanted = self._template.fit(self._read())
        fresh, gone = difference(self._template.rows(), wanted)
        self._template.exchange(gone, wanted.take(fresh))
        return len(fresh), len(gone)

    def stop(self) -> None:
        """Follow no longer; the queries stay as they are."""
        self._stopped.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._stopped.wait(self._pause):
            try:
                self.take()
            except Exception as error:  # whatever it is, the next reading tries again
                self.failure = error
                _logger.warning("table not followed: template=%s %s", self._template.name, error)
            else:
                self.failure = None


def difference(present: pa.Table, wanted: pa.RecordBatch) -> tuple[pa.Array, list[int]]:
    """Say which of the wanted rows are not there yet, and which queries are there but not wanted.

    A row that is wanted twice is to be there twice.
    """
    qids: list[int] = present.column(0).to_pylist()
    ids: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for qid, row in zip(qids, _tuples(present.columns[1:]), strict=True):
        ids[row].append(qid)
    left = Counter({row: len(some) for row, some in ids.items()})
    fresh = []
    for at, row in enumerate(_tuples(wanted.columns)):
        if left[row] > 0:
            left[row] -= 1
        else:
            fresh.append(at)
    gone = [qid for row, some in ids.items() for qid in some[len(some) - left[row] :]]
    return pa.array(fresh, pa.int64()), gone


def read_rows(pattern: str) -> pa.Table:
    """Read all Parquet and CSV files that a pattern names, as one table."""
    paths = sorted(glob.glob(pattern))  # noqa: PTH207  a pattern may be absolute
    if not paths:
        raise SourceError(f'file "{pattern}" does not exist')
    before = _settled(paths)
    tables = [_read_file(each) for each in paths]
    after = {each: _status(each) for each in sorted(glob.glob(pattern))}  # noqa: PTH207
    if after != before:
        raise SourceError(f'file "{pattern}" was written while it was read')
    return pa.concat_tables(tables, promote_options="default")


def _settled(paths: list[str]) -> dict[str, tuple[int, int, int]]:
    """Wait until nobody has written to files for a moment; return their status."""
    for _ in range(TRIES):
        found = {each: _status(each) for each in paths}
        if time.time_ns() - max(modified for _, _, modified in found.values()) > SETTLE_NS:
            return found
        time.sleep(SETTLE_NS / 2e9)
    raise SourceError(f'file "{paths[0]}" is being written')


def _status(path: str) -> tuple[int, int, int]:
    try:
        status = Path(path).stat()
    except OSError as cause:
        raise SourceError(f'file "{path}" cannot be read', detail=f"{cause}.") from cause
    return status.st_ino, status.st_size, status.st_mtime_ns


def _read_file(path: str) -> pa.Table:
    try:
        if path.endswith(".csv"):
            return pyarrow.csv.read_csv(path)
        return pyarrow.parquet.read_table(path)
    except (pa.ArrowInvalid, OSError) as cause:
        raise SourceError(f'file "{path}" cannot be read', detail=f"{cause}.") from cause


def _tuples(columns: list[pa.Array]) -> Iterator[tuple[Any, ...]]:
    return zip(*map(_comparable, columns), strict=True)


def _comparable(column: pa.Array) -> list[Any]:
    """Return values that can be looked up; there a set is itself, and so is NaN."""
    values = column.to_pylist()
    if pa.types.is_list(column.type):
        return [repr(each) for each in values]
    if pa.types.is_floating(column.type):
        return [each if each == each else "NaN" for each in values]  # noqa: PLR0124  only NaN is not
    return list(values)
