"""CSV files, with or without a header.

Blank lines are skipped, NULL is an empty field that is not quoted (or what the options say),
CRLF is a newline, newlines in quotes are part of the value. A header maps names to columns, in
any order and with others among them; a file whose header lacks a column is rejected as a whole,
in one reject, because NULLs in its place would be wrong in silence.

The ordinal of a row is its number among the records behind the header, blank and rejected ones
counted.

Cost: about 2.5 million rows of 43 bytes a second and core, bad records included.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from millrace.connectors.formats.block import Block, decode_block
from millrace.connectors.formats.decoded import Decoded
from millrace.connectors.formats.lines import KEPT_BYTES
from millrace.connectors.formats.options import ReadOptions
from millrace.kernels import csv_scan as scan
from millrace.kernels.arrays import Bytes, Ints, Ints32
from millrace.schema import Schema

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """What the scanner needs to know: the column of each field, the marks, what is NULL."""

    fields: Ints32
    n_columns: int
    marks: tuple[int, int]
    nulls: Bytes
    null_offsets: Ints32

    @classmethod
    def of(cls, fields: Sequence[int], n_columns: int, options: ReadOptions) -> _Layout:
        words = [word.encode() for word in options.null_strings]
        offsets = np.cumsum([0, *map(len, words)]).astype(np.int32)
        marks = ord(options.delimiter), ord(options.quote) if options.quote else 0
        nulls = np.frombuffer(b"".join(words), np.uint8)
        return cls(np.array(fields, np.int32), n_columns, marks, nulls, offsets)


def read_csv(file: BinaryIO, path: str, schema: Schema, options: ReadOptions) -> Iterator[Decoded]:
    """Decode a whole file from its start."""
    head = file.read(options.block_bytes).removeprefix(_BOM)
    fields = list(range(len(schema)))
    if options.header:
        names, length, head = _read_header(file, head, options)
        missing = [name for name in schema.names if name not in names]
        if missing and not names:
            return  # an empty file has no header and no rows
        if missing:
            reason = f"the header lacks the column {', '.join(missing)}; it has {', '.join(names)}"
            yield Decoded.nothing(schema, [(0, reason, path.encode())])
            return
        fields = [schema.names.index(name) if name in schema else -1 for name in names]
        head = head[length:]
    yield from _records(file, head, _Layout.of(fields, len(schema), options), schema, options)


def _read_header(file: BinaryIO, head: bytes, options: ReadOptions) -> tuple[list[str], int, bytes]:
    """Return the header's names, its length, and the bytes read so far."""
    layout = _Layout.of([], 0, options)
    while True:
        more = file.read(options.block_bytes) if len(head) < options.max_record_bytes else b""
        starts = _scan(np.frombuffer(head, np.uint8), 0, layout, final=not more, max_records=1)[3]
        if starts.size > 1 or not more:
            break
        head += more
    head += more
    length = int(starts[-1])
    text = head[:length].decode("utf-8", "replace").rstrip("\r\n")
    rows = csv.reader(
        io.StringIO(text, newline=""),
        delimiter=options.delimiter,
        quotechar=options.quote or None,
        quoting=csv.QUOTE_MINIMAL if options.quote else csv.QUOTE_NONE,
    )
    return [name.strip() for name in next(rows, [])], length, head


def _scan(
    data: Bytes, at: int, layout: _Layout, *, final: bool, max_records: int
) -> tuple[Ints, Ints, Bytes, Ints, Bytes, Ints]:
    return scan.scan_records(
        data,
        at,
        final,
        max_records,
        layout.fields,
        layout.n_columns,
        layout.marks,
        layout.nulls,
        layout.null_offsets,
    )


def _records(
    file: BinaryIO, carry: bytes, layout: _Layout, schema: Schema, options: ReadOptions
) -> Iterator[Decoded]:
    """Scan block by block; a record that a block cuts in two is carried to the next."""
    ordinal, final = 0, False
    while True:
        data, at = np.frombuffer(carry, np.uint8), 0
        while at < data.size:
            found = _scan(data, at, layout, final=final, max_records=options.piece_rows)
            if found[3].size == 1:  # not one whole record is left
                break
            yield _decode(data, found, schema, layout, ordinal)
            ordinal, at = ordinal + found[4].size, int(found[3][-1])
        carry = carry[at:]
        if len(carry) > options.max_record_bytes:
            carry, reject = _skip_record(file, carry, ordinal, options)
            ordinal += 1
            yield Decoded.nothing(schema, [reject])
            continue
        if final:
            return
        chunk = file.read(options.block_bytes)
        carry, final = carry + chunk, not chunk


def _skip_record(
    file: BinaryIO, carry: bytes, ordinal: int, options: ReadOptions
) -> tuple[bytes, tuple[int, str, bytes]]:
    """Give up the first line of a record that does not end, and go on behind it."""
    raw = carry[:KEPT_BYTES].split(b"\n", 1)[0].rstrip(b"\r")
    while (end := carry.find(b"\n")) < 0:
        carry = file.read(options.block_bytes)
        if not carry:
            break
    reason = f"the record does not end within {options.max_record_bytes} bytes"
    return carry[end + 1 :] if end >= 0 else b"", (ordinal, reason, raw)


def _decode(
    data: Bytes,
    found: tuple[Ints, Ints, Bytes, Ints, Bytes, Ints],
    schema: Schema,
    layout: _Layout,
    ordinal: int,
) -> Decoded:
    firsts, stops, kinds, starts, faults, counts = found

    def words(row: int) -> str:
        return _describe(int(faults[row]), int(counts[row]), layout.fields.size)

    block = Block(
        data,
        starts[:-1],
        starts[1:],
        firsts,
        stops,
        kinds,
        faults,
        words,
        quote=layout.marks[1],
        loose=True,
    )
    return decode_block(block, schema, np.arange(ordinal, ordinal + faults.size))


def _describe(fault: int, count: int, expected: int) -> str:
    if fault == scan.COUNT:
        return f"{count} fields where {expected} are expected"
    if fault == scan.AFTER_QUOTE:
        return f"something follows the closing quote of field {count + 1}"
    if fault == scan.OPEN_QUOTE:
        return f"the quote of field {count + 1} is never closed"
    return "not UTF-8 text"
