"""JSON objects that stand one after the other in bytes: lines of a file, values of a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace.connectors.formats.block import Block, decode_block
from millrace.connectors.formats.decoded import Decoded, join
from millrace.errors import SchemaError
from millrace.kernels import json_scan as scan
from millrace.kernels.arrays import Bools, Bytes, Ints, Ints32
from millrace.operators.keys import text_buffers
from millrace.schema import Schema, cast_array, castable

_PIECE_ROWS = 65_536  # its cells stay in the cache of the processor
_MISSING_VALUE, _BLANK_VALUE = 255, 254

_WORDS = {
    scan.NO_OBJECT: "not JSON: no object starts here",
    scan.NO_KEY: "not JSON: a field name in quotes is missing",
    scan.NO_COLON: 'not JSON: a ":" is missing',
    scan.NO_VALUE: "not JSON: no value stands here",
    scan.NO_COMMA: "not JSON: a comma or a closing bracket is missing",
    scan.OPEN_TEXT: "not JSON: a string is not closed",
    scan.BAD_ESCAPE: "not JSON: a backslash with nothing that may follow it",
    scan.CONTROL: "not JSON: a control character in a string",
    scan.TOO_DEEP: f"nested more than {scan.MAX_DEPTH} levels deep",
    scan.TRAILING: "not JSON: something follows the object",
}


def decode_objects(
    data: Bytes,
    lines: tuple[Ints, Ints],
    schema: Schema,
    ordinals: Ints,
    *,
    nulls: Bools | None = None,
) -> Decoded:
    """Decode the objects `data[lines[0][i]:lines[1][i]]`; a row of `nulls` has no text at all.

    With `nulls`, every row is a message, so that a blank one is a reject and not skipped.
    """
    names = [name.encode() for name in schema.names]
    packed = np.frombuffer(b"".join(names), np.uint8)
    offsets: Ints32 = np.cumsum([0, *map(len, names)]).astype(np.int32)
    firsts, stops, kinds, faults, places = scan.scan_objects(data, *lines, packed, offsets)
    if nulls is not None:
        faults[faults == scan.BLANK] = _BLANK_VALUE
        faults[nulls] = _MISSING_VALUE

    def words(row: int) -> str:
        return _describe(int(faults[row]), int(places[row]), schema)

    return decode_block(Block(data, *lines, firsts, stops, kinds, faults, words), schema, ordinals)


def _describe(fault: int, place: int, schema: Schema) -> str:
    if fault == _MISSING_VALUE:
        return "the value is NULL"
    if fault == _BLANK_VALUE:
        return "the value is blank"
    if fault == scan.TWICE:
        return f"column {schema.names[place]}: the field comes twice"
    if fault == scan.NOT_UTF8:
        return "not UTF-8 text"
    return f"{_WORDS[fault]} (byte {place})"


def decode_json_column(array: pa.Array | pa.ChunkedArray, schema: Schema) -> Decoded:
    """Decode a column of text or bytes of which each value is one JSON object.

    A value that is NULL or blank is a reject. Ordinals are positions in the column.

    Examples
    --------
    >>> decoded = decode_json_column(pa.array(['{"a": 1}', "{", None]), Schema.of("a int"))
    >>> decoded.rows.to_pylist(), decoded.ordinals.tolist()
    ([{'a': 1}], [0])
    >>> decoded.rejects["reason"].to_pylist()
    ['not JSON: a field name in quotes is missing (byte 1)', 'the value is NULL']
    """
    if not castable(array.type, pa.string()):
        raise SchemaError(
            f"a column of the type {array.type} does not hold JSON text",
            hint="Decode a column of text or binary.",
        )
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if not pa.types.is_binary(array.type):
        array = cast_array(array, pa.string())
    offsets, data = text_buffers(array)
    lines = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    nulls = array.is_null().to_numpy(zero_copy_only=False)
    ordinals = np.arange(len(array))
    pieces = []
    for at in range(0, max(len(array), 1), _PIECE_ROWS):
        piece = slice(at, at + _PIECE_ROWS)
        spans = lines[0][piece], lines[1][piece]
        pieces.append(decode_objects(data, spans, schema, ordinals[piece], nulls=nulls[piece]))
    return join(pieces)
