"""File splits: the pieces of files that are read, each by one task, in any order.

A split names a file as it was when it was listed, and an interval of it: row groups of a Parquet
file, bytes of an NDJSON file, the whole of a CSV file (a quote may hold newlines, so that only
the start of a file is surely the start of a record). A byte interval owns the lines that START
in it, so cutting a file otherwise neither loses nor doubles a line:

    bytes      0        10        20
    file       {...}|{.......}|{....}|{...}
    split 0    [          )                     owns lines 0 and 1
    split 1               [           )         owns lines 2 and 3
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Self, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from millrace.errors import OutageError, SourceError

Format = Literal["parquet", "ndjson", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)

_ENDINGS: dict[str, Format] = {
    ".parquet": "parquet",
    ".parq": "parquet",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".csv": "csv",
    ".tsv": "csv",
}
_ROW_BYTES: dict[str, int] = {"ndjson": 100, "csv": 50}  # to guess rows from bytes


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The interval `[first, stop)` of a file: row groups, or bytes.

    `size` and `modified` (nanoseconds since 1970) are those of the whole file when it was
    listed; a reader refuses the file if they have changed. `modified` 0 leaves that out.
    """

    path: str
    format: Format
    first: int
    stop: int
    size: int
    modified: int = 0
    n_rows: int = 0  # exact for Parquet, else a guess

    def to_json(self) -> str:
        """Write the split for a descriptor or a listing."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        return cls(**json.loads(text))


def ending_format(path: str) -> Format | None:
    """Tell a file's format by the ending of its name, if that names one."""
    lower = path.lower()
    return next((form for ending, form in _ENDINGS.items() if lower.endswith(ending)), None)


def format_of(path: str) -> Format:
    """Tell a file's format by the ending of its name."""
    if found := ending_format(path):
        return found
    raise SourceError(
        f'file "{path}" has an ending that names no format',
        detail=f"The endings are {', '.join(_ENDINGS)}.",
        hint="Name the format where the stream is declared.",
    )


@dataclass(frozen=True, slots=True)
class CutOptions:
    """How large a split may become; a row group is never cut."""

    split_bytes: int = 32 << 20
    split_rows: int = 1 << 18


DEFAULT_CUT = CutOptions()


def cut_file(
    path: str, form: Format, *, size: int, modified: int = 0, options: CutOptions = DEFAULT_CUT
) -> list[FileSplit]:
    """Cut a file into splits; a Parquet file's footer is read for it.

    An empty file, or one of no rows, still has one split, so that it is seen to be consumed.
    """
    if form == "parquet":
        return _cut_parquet(path, size, modified, options)
    step = options.split_bytes if form == "ndjson" else max(size, 1)
    guess = _ROW_BYTES[form]
    return [
        FileSplit(
            path, form, at, min(at + step, size), size, modified, (min(step, size - at)) // guess
        )
        for at in range(0, max(size, 1), step)
    ]


def _cut_parquet(path: str, size: int, modified: int, options: CutOptions) -> list[FileSplit]:
    metadata = open_parquet(path).metadata
    counts = [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)]
    splits, first, n_rows = [], 0, 0
    for index, count in enumerate(counts):
        if n_rows and n_rows + count > options.split_rows:
            splits.append(FileSplit(path, "parquet", first, index, size, modified, n_rows))
            first, n_rows = index, 0
        n_rows += count
    splits.append(FileSplit(path, "parquet", first, len(counts), size, modified, n_rows))
    return splits


def raise_if_passing(cause: Exception, path: str) -> None:
    """Raise what may be over at the next try; return if the fault is the file's own.

    Errors of the system carry a number; Arrow's verdicts on damaged content do not. A file that
    is gone from a directory that is there, or is no file, will not be one at the next try. If the
    directory is gone too, or cannot be listed, its storage is: a mount may come back.
    """
    if isinstance(cause, FileNotFoundError | NotADirectoryError):
        raise_if_unlisted(str(Path(path).parent))
        return
    passing = isinstance(cause, MemoryError) or getattr(cause, "errno", None) is not None
    if passing and not isinstance(cause, IsADirectoryError):
        raise OutageError(
            f'file "{path}" cannot be read now',
            detail=f"The system says: {cause}.",
            hint="Reading is tried again; see to the storage if it goes on.",
        ) from cause


def raise_if_unlisted(directory: str) -> None:
    """Raise an outage if a directory cannot be listed, for whatever reason."""
    try:
        with os.scandir(directory):
            pass
    except OSError as cause:
        raise OutageError(
            f'directory "{directory}" cannot be listed now',
            detail=f"The system says: {cause.strerror}.",
            hint="Reading is tried again. If the directory was removed for good, make an empty "
            "one in its place: what was listed in it then becomes dead letters.",
        ) from cause


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a Parquet file, or say in words why it cannot be read."""
    try:
        return pq.ParquetFile(path, memory_map=False)
    except (OSError, pa.ArrowException) as cause:
        raise_if_passing(cause, path)
        raise SourceError(
            f'Parquet file "{path}" cannot be read',
            detail=f"The reader says: {cause}",
            hint="Remove the file or write it again; files must appear complete, by rename.",
        ) from cause


def changed_error(split: FileSplit, size: int) -> SourceError:
    """Say that a file is not the one that was listed."""
    return SourceError(
        f'file "{split.path}" changed after it was listed',
        detail=f"It had {split.size} bytes and now has {size}.",
        hint="Write files under a temporary name and rename them when they are complete.",
    )
