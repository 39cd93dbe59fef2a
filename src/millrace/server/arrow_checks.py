"""Arrow from clients: read with limits, and validated in full before anything believes it.

A stream is read message by message. Compressed bodies are refused: a small body could become a
large one, and how large is not known before memory is taken for it. Dictionaries and views say a
long value once and name it often; how large their rows become is added up before they are written
out.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds
from numpy.typing import NDArray

from millrace.errors import SchemaError
from millrace.server.limits import Limits
from millrace.server.quotas import TooLargeError

GROWTH = 4
"""How many times as large as the largest body its rows may become."""

_BODY_BYTES = Limits().body_bytes
_FAULTS = (pa.ArrowException, OSError, ValueError, IndexError, struct.error, KeyError)
_RECORD_BATCH, _DICTIONARY = 3, 2


def read_arrow(body: bytes, *, most_rows: int, body_bytes: int = _BODY_BYTES) -> pa.Table:
    """Read an Arrow stream that a client sent; `body_bytes` is how large any body may be."""
    try:
        _require_plain(body)
        batches, n_rows = [], 0
        with pa.ipc.open_stream(body) as stream:
            schema = stream.schema
            for field in schema:
                _require_plain_type(field.type)
            for batch in stream:
                n_rows += batch.num_rows
                require_few(n_rows, most_rows)
                batches.append(batch)
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
        _require_small(table, GROWTH * body_bytes)
    except (TooLargeError, SchemaError):
        raise
    except _FAULTS as cause:
        raise SchemaError(
            "the body is not an Arrow stream", detail=f"Arrow says: {str(cause)[:300]}."
        ) from cause
    return table


def require_few(n_rows: int, most: int) -> None:
    """Refuse more rows than one request may bring."""
    if n_rows > most:
        raise TooLargeError("rows a request", most, n_rows, hint="Send them in parts.")


def _require_plain_type(kind: pa.DataType) -> None:
    """Refuse types by which little is said of many rows, and which no column of ours needs."""
    runs = kinds.is_run_end_encoded(kind)
    views = kinds.is_list_view(kind) or kinds.is_large_list_view(kind)
    deep = kinds.is_dictionary(kind) and (
        kinds.is_nested(kind.value_type) or kinds.is_dictionary(kind.value_type)
    )
    if runs or views or deep:
        raise SchemaError(f"the Arrow type {kind} is not taken", hint="Send plain columns.")
    for at in range(kind.num_fields):
        _require_plain_type(kind.field(at).type)


def _require_small(table: pa.Table, most: int) -> None:
    """Refuse dictionaries and views whose rows, written out, are too large."""
    size = sum(_written_out(chunk) for column in table.columns for chunk in column.chunks)
    if size > most:
        raise TooLargeError("bytes of rows a request", most, size, hint="Send them in parts.")


def _written_out(array: pa.Array) -> int:
    """Return how many bytes the values take that are named rather than written."""
    kind = array.type
    if kinds.is_dictionary(kind):
        return int(_lengths(array.dictionary)[array.indices.drop_null().to_numpy()].sum())
    if kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind):
        return _written_out(array.flatten())
    return int(_lengths(array).sum()) if _is_view(kind) else 0


def _lengths(values: pa.Array) -> NDArray[np.int64]:
    """Return the bytes of each value, 0 for NULL."""
    kind = values.type
    if _is_view(kind):
        # Arrow has no kernel for it; a view is 16 bytes, of which the first four are its length.
        words = np.frombuffer(values.buffers()[1] or b"", np.int32)[4 * values.offset :: 4]
        there = values.is_valid().to_numpy(zero_copy_only=False)
        return np.where(there, words[: len(values)], 0).astype(np.int64)
    if not _is_bytes(kind):
        width = kind.byte_width if kinds.is_fixed_size_binary(kind) else 16
        return np.full(len(values), width, np.int64)
    lengths = pc.fill_null(pc.binary_length(values), 0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _is_view(kind: pa.DataType) -> bool:
    return bool(kinds.is_string_view(kind) or kinds.is_binary_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    tests = (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
    return any(test(kind) for test in tests)


def _require_plain(body: bytes) -> None:
    """Refuse a stream with compressed record batches, by a look at the metadata of each."""
    reader = pa.BufferReader(body)
    while True:
        try:
            message = pa.ipc.read_message(reader)
        except EOFError:
            return
        if message.type in ("record batch", "dictionary") and _compressed(message):
            raise SchemaError("the Arrow stream is compressed", hint="Send it uncompressed.")


def _compressed(message: pa.Message) -> bool:
    """Look for the field `compression` of a record batch in a message's flat buffer."""
    data = message.metadata.to_pybytes()
    root = struct.unpack_from("<I", data, 0)[0]
    kind = _field(data, root, 1)
    header = _field(data, root, 2)
    if kind is None or header is None:
        return False
    table = header + struct.unpack_from("<I", data, header)[0]
    if data[kind] == _DICTIONARY:
        inner = _field(data, table, 1)
        if inner is None:
            return False
        table = inner + struct.unpack_from("<I", data, inner)[0]
    return _field(data, table, 3) is not None


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return where a field of a table is, None if it is left out."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    at = 4 + 2 * number
    if at >= size:
        return None
    offset = struct.unpack_from("<H", data, vtable + at)[0]
    return table + offset if offset else None
