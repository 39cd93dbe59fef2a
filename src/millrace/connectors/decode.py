r"""Decoding: a split of a file becomes pieces of typed rows and rejects, in bounded memory.

    split ──► open, still the file that was listed? ──► format ──► pieces of at most 65,536 rows
                                                        parquet, ndjson, csv

A piece at a time is in memory: a block of bytes (8 MB) and its rows. Every good row survives its
bad neighbours, and every bad one is a reject with its place, the reason and its original bytes.

Examples
--------
>>> import tempfile, pathlib
>>> path = pathlib.Path(tempfile.mkdtemp()) / "trades.ndjson"
>>> _ = path.write_text('{"symbol": "ACME", "price": 12.5}\n{"symbol": "BOLT", "price": "?"}\n')
>>> [decoded] = read_split(whole_file(str(path)), Schema.of("symbol text, price double"))
>>> decoded.rows.to_pylist()
[{'symbol': 'ACME', 'price': 12.5}]
>>> decoded.rejects["reason"].to_pylist()
['column price: "?" is not a double']
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from millrace.connectors.formats.csv import read_csv
from millrace.connectors.formats.decoded import Decoded
from millrace.connectors.formats.json_text import decode_json_column
from millrace.connectors.formats.ndjson import read_ndjson
from millrace.connectors.formats.options import ReadOptions
from millrace.connectors.formats.parquet import read_parquet
from millrace.connectors.splits import (
    FileSplit,
    Format,
    changed_error,
    format_of,
    open_parquet,
    raise_if_passing,
)
from millrace.errors import SourceError
from millrace.schema import Schema

__all__ = [
    "Decoded",
    "FileSplit",
    "ReadOptions",
    "decode_json_column",
    "read_split",
    "warm_decoders",
    "whole_file",
]

_DEFAULT = ReadOptions()


def read_split(
    split: FileSplit, schema: Schema, options: ReadOptions = _DEFAULT
) -> Iterator[Decoded]:
    """Decode one split of a file, piece by piece.

    Raises
    ------
    SourceError
        If the file is gone, cannot be read, or is not the file that was listed: its size or
        its time of modification differ, before reading or after.
    OutageError
        If it may be there and readable at the next try: its directory is gone too, or its
        storage does not answer.
    """
    check_unchanged(split)
    if split.format == "parquet":
        yield from read_parquet(split, schema, options)
    else:
        yield from _read_text(split, schema, options)
    check_unchanged(split)


def _read_text(split: FileSplit, schema: Schema, options: ReadOptions) -> Iterator[Decoded]:
    with _open(split.path) as file:
        try:
            if split.format == "ndjson":
                yield from read_ndjson(file, (split.first, split.stop), schema, options)
            else:
                yield from read_csv(file, split.path, schema, options)
        except OSError as cause:
            raise_if_passing(cause, split.path)
            raise _gone(split.path, cause) from cause


def whole_file(path: str, form: Format | None = None) -> FileSplit:
    """Return the one split that is a whole file as it is now."""
    form = form or format_of(path)
    status = _stat(path)
    stop = open_parquet(path).metadata.num_row_groups if form == "parquet" else status[0]
    return FileSplit(path, form, 0, stop, *status)


def warm_decoders() -> None:
    """Compile, or load from the cache, every kernel that decoding uses; for before a fork."""
    schema = Schema.of(
        "b boolean, n int, d double, e decimal(5,2), s text, x binary, y date, t timestamp"
    )
    list(read_ndjson(BytesIO(b'{"s": "a"}'), (0, 10), schema, _DEFAULT))
    list(read_csv(BytesIO(b"\n"), "", schema, ReadOptions(header=False)))


def check_unchanged(split: FileSplit) -> None:
    """Refuse a file that changed after it was listed, so that none is read half old, half new."""
    size, modified = _stat(split.path)
    if size != split.size or (split.modified and modified != split.modified):
        raise changed_error(split, size)


def _stat(path: str) -> tuple[int, int]:
    try:
        status = Path(path).stat()
    except OSError as cause:
        raise_if_passing(cause, path)
        raise _gone(path, cause) from cause
    return status.st_size, status.st_mtime_ns


def _open(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except OSError as cause:
        raise_if_passing(cause, path)
        raise _gone(path, cause) from cause


def _gone(path: str, cause: OSError) -> SourceError:
    return SourceError(
        f'file "{path}" cannot be opened',
        detail=f"The system says: {cause.strerror}.",
        hint="A listed file must stay until its rows have been consumed.",
    )
