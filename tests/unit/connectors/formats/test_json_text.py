"""JSON objects against Python's own reader: every line by itself, whatever its neighbours."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.connectors.formats.decoded import Decoded
from millrace.connectors.formats.json_text import decode_json_column
from millrace.errors import SchemaError
from millrace.schema import Schema
from millrace.testing.oracle.json_lines import read_line
from millrace.testing.oracle.values import UnfitError

SCHEMA = Schema.of(
    "flag boolean, tiny tinyint, n bigint, single float, price double, exact decimal(8,3), "
    "symbol text, blob binary, day date, ts timestamp"
)
NUMBERS = st.sampled_from(
    "0 -0 1 -1 127 128 -129 1.5 1e3 1E-2 0.1 123456789012345678901234567890 "  # noqa: SIM905
    "9223372036854775807 9223372036854775808 -9223372036854775808 1e308 1e309 1e-400 3.5e38 "
    "12345.678 12345.6789 123456.1 1.2300000 5e-3 1e2 0.30000000000000004 9007199254740993 01 1. "
    ".5 +1 - 1e NaN".split()
)
TEXTS = st.sampled_from(
    [
        '"ACME"',
        '""',
        '"é😀"',
        r'"a\"b\\c\/\b\f\n\r\t"',
        r'"\u00e9\ud83d\ude00"',
        r'"\ud83d"',
        r'"\udc00\ud83d"',
        r'"\u12"',
        r'"\x"',
        '"open',
        '"a\x01b"',
        '"aGk="',
        '"aGk"',
        '"12.5"',
        '" 1.5 "',
        '"2024-05-01"',
        '"2024-02-30"',
        '"2024-05-01T12:00:00Z"',
        '"2024-05-01 12:00:00.123456789+02:00"',
        r'"2024-05-01T12:00:00\u002b0530"',
        '"2024-05-01T12:00"',
        '"2024-05-01T24:00:00Z"',
        '"1900-02-29"',
        '"0001-01-01T00:00:00+14:00"',
        '"2024-05-01T12:00:00."',
        '"2024-05-01T12:00:60Z"',
    ]
)
OTHERS = st.sampled_from(
    ["null", "true", "false", "nul", "[]", "{}", '[1, {"a": [2]}]', '{"a": {"b": []}}', "[1,]", ""]
)
VALUES = NUMBERS | TEXTS | OTHERS
KEYS = st.sampled_from([*SCHEMA.names, "unknown", r"pr\u0069ce", r"\ud800", "é", ""])
SPACES = st.sampled_from(["", " ", "\t"])


@st.composite
def a_line(draw: st.DrawFn) -> bytes:
    """An object, mostly whole."""
    fields = draw(st.lists(st.tuples(KEYS, VALUES), max_size=4))
    colon, comma = draw(SPACES) + ":" + draw(SPACES), draw(SPACES) + "," + draw(SPACES)
    text = "{" + comma.join(f'"{key}"{colon}{value}' for key, value in fields) + "}"
    tail = draw(st.sampled_from(["", "", "", " ", "\r", "{}", "x"]))
    return (text + tail).encode()


@st.composite
def a_broken_line(draw: st.DrawFn) -> bytes:
    """An object with a byte changed, put in or taken out."""
    line = draw(a_line())
    at = draw(st.integers(0, len(line)))
    middle = draw(st.binary(max_size=1) | st.sampled_from([b'"', b"{", b"\\", b",", b"\xff"]))
    return line[:at] + middle + line[at + draw(st.integers(0, 1)) :]


LINES = st.lists(a_line() | a_broken_line() | st.binary(max_size=20), max_size=8)


def physical_rows(decoded: Decoded) -> list[dict[str, object]]:
    """The rows, with times as numbers and floats as comparable text."""
    columns = {}
    for name, array in zip(decoded.rows.schema.names, decoded.rows.columns, strict=True):
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.int64())  # noqa: PLW2901
        elif pa.types.is_date(array.type):
            array = array.cast(pa.int32())  # noqa: PLW2901
        columns[name] = [repr(v) if isinstance(v, float) else v for v in array.to_pylist()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def expected_rows(lines: list[bytes]) -> tuple[list[dict[str, object]], list[int], list[int]]:
    """What the oracle says: rows, their ordinals, and the ordinals of rejects."""
    rows, kept, rejected = [], [], []
    for ordinal, line in enumerate(lines):
        try:
            row = read_line(line, SCHEMA)
        except UnfitError:
            rejected.append(ordinal)
            continue
        if row is None:
            rejected.append(ordinal)  # a blank message is a reject; a blank line is not
        else:
            rows.append({k: repr(v) if isinstance(v, float) else v for k, v in row.items()})
            kept.append(ordinal)
    return rows, kept, rejected


@given(LINES)
@example([b'{"n":1} {"n":2}', b'{"n":', b"3}"])  # three objects in three lines, for a stream reader
@example([b'{"n":1,"n":null}'])
def test_agrees_with_python_on_any_line(lines: list[bytes]) -> None:
    decoded = decode_json_column(pa.array(lines, pa.binary()), SCHEMA)

    rows, kept, rejected = expected_rows(lines)
    assert decoded.ordinals.tolist() == kept
    assert physical_rows(decoded) == rows
    assert decoded.rejects["ordinal"].to_pylist() == rejected
    raws = [lines[ordinal].rstrip(b"\r\n") for ordinal in rejected]
    assert decoded.rejects["raw"].to_pylist() == raws


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_doubles_are_read_exactly(values: list[float]) -> None:
    lines = [json.dumps({"a": value}) for value in values]

    decoded = decode_json_column(pa.array(lines, pa.string()), Schema.of("a double"))

    assert [repr(v) for v in decoded.rows.column(0).to_pylist()] == [repr(v) for v in values]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{garbage", "not JSON: a field name in quotes is missing (byte 1)"),
        ("[1]", "not JSON: no object starts here (byte 0)"),
        ('{"a": 1} x', "not JSON: something follows the object (byte 9)"),
        ('{"price": "abc"}', 'column price: "abc" is not a double'),
        ('{"tiny": 300}', "column tiny: 300 is outside the range of tinyint"),
        ('{"symbol": {"a": 1}}', 'column symbol: {"a": 1} is not text'),
        ('{"symbol": 12}', "column symbol: 12 is not text"),
        ('{"exact": 1.2345}', "column exact: 1.2345 does not fit decimal(8,3)"),
        ('{"n": 1.5}', "column n: 1.5 is not a bigint"),
        ('{"n": 1, "n": 2}', "column n: the field comes twice"),
        ('{"ts": "noon"}', 'column ts: "noon" is not a timestamp (ISO 8601)'),
        (r'{"symbol": "\ud800"}', r'column symbol: "\ud800" holds half of a surrogate pair'),
        (b'{"symbol": "\xff"}', "not UTF-8 text"),
        (None, "the value is NULL"),
        (" ", "the value is blank"),
        ('{"x":' + "[" * 600, "nested more than 512 levels deep (byte 516)"),
    ],
)
def test_reasons_are_in_our_words(line: str | bytes | None, reason: str) -> None:
    value = line.encode() if isinstance(line, str) else line

    decoded = decode_json_column(pa.array([value], pa.binary()), SCHEMA)

    assert decoded.rejects["reason"].to_pylist() == [reason]
    assert decoded.rows.num_rows == 0


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_any_kind_of_text_column_is_read(kind: pa.DataType) -> None:
    array = pa.array(["x", '{"n": 1}', "{}", "y"]).cast(kind)

    decoded = decode_json_column(pa.chunked_array([array.slice(1, 2), array.slice(0, 0)]), SCHEMA)

    assert decoded.rows.column("n").to_pylist() == [1, None]
    assert decoded.ordinals.dtype == np.int64


def test_a_column_of_numbers_is_no_json() -> None:
    with pytest.raises(SchemaError, match="does not hold JSON text"):
        decode_json_column(pa.array([1]), SCHEMA)


def test_a_long_column_is_decoded_in_pieces_and_joined() -> None:
    values = ['{"n": 1}', "{bad"] * 40_000

    decoded = decode_json_column(pa.array(values), SCHEMA)

    assert decoded.ordinals.tolist() == list(range(0, 80_000, 2))
    assert decoded.rejects["ordinal"].to_pylist() == list(range(1, 80_000, 2))


def test_no_column_is_no_rows() -> None:
    assert decode_json_column(pa.array([], pa.string()), SCHEMA).rows.num_rows == 0
