"""Arrow from clients: read with limits, and validated in full before anything believes it.

A stream is read message by message. Compressed bodies are refused: a small body could become a
large one, and how large is not known before memory is taken for it.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from millrace.errors import SchemaError
from millrace.server.quotas import TooLargeError

_FAULTS = (pa.ArrowException, OSError, ValueError, IndexError, struct.error, KeyError)
_RECORD_BATCH, _DICTIONARY = 3, 2


def read_arrow(body: bytes, *, most_rows: int) -> pa.Table:
    """Read an Arrow stream that a client sent."""
    try:
        _require_plain(body)
        batches, n_rows = [], 0
        with pa.ipc.open_stream(body) as stream:
            schema = stream.schema
            for batch in stream:
                n_rows += batch.num_rows
                _require_few(n_rows, most_rows)
                batches.append(batch)
        table = pa.Table.from_batches(batches, schema)
        table.validate(full=True)
    except TooLargeError:
        raise
    except _FAULTS as cause:
        raise SchemaError(
            "the body is not an Arrow stream", detail=f"Arrow says: {str(cause)[:300]}."
        ) from cause
    return table


def _require_few(n_rows: int, most: int) -> None:
    if n_rows > most:
        raise TooLargeError("rows a request", most, n_rows, hint="Send them in parts.")


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
