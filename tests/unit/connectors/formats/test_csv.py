"""CSV files: what Python's writer writes is read back, and bad records cost only themselves."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.connectors.formats.csv import read_csv
from millrace.connectors.formats.options import ReadOptions
from millrace.errors import PlanError
from millrace.schema import Schema
from millrace.testing.oracle.values import UnfitError, read_value

SCHEMA = Schema.of("s text, n int, price double, flag boolean, amount decimal(6,2), ts timestamp")
Seen = tuple[list[tuple[int, dict[str, object]]], list[tuple[int, str, bytes]]]
TEXTS = st.text(st.sampled_from('ab",;\n\r é|'), max_size=6).filter(lambda text: "\r" not in text)
CELLS = st.sampled_from(
    "|1| 2 |+3|-4.50|1e3|x|true|F|nan|-inf|99999999999|1.234|2024-05-01T12:00:00Z|2024-05-01|"  # noqa: SIM905
    "NULL|.5|5.|1e400|0x1|12345.67".split("|")
)
ROW = st.tuples(TEXTS, CELLS, CELLS, CELLS, CELLS, CELLS)


def read(data: bytes, options: ReadOptions, schema: Schema = SCHEMA) -> Seen:
    rows: list[tuple[int, dict[str, object]]] = []
    rejects: list[tuple[int, str, bytes]] = []
    for piece in read_csv(io.BytesIO(data), "a.csv", schema, options):
        rows += zip(piece.ordinals.tolist(), piece.rows.to_pylist(), strict=True)
        rejects += [tuple(each.values()) for each in piece.rejects.to_pylist()]
    return rows, rejects


def written(rows: list[tuple[str, ...]], options: ReadOptions, ending: str = "\n") -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=options.delimiter, lineterminator=ending).writerows(rows)
    return out.getvalue().encode()


def expected(row: tuple[str, ...]) -> dict[str, object] | None:
    """The row that text cells mean, or None if one does not fit."""
    found: dict[str, object] = {}
    try:
        for column, text in zip(SCHEMA, row, strict=True):
            value = read_value("text", text, column.type, loose=True) if text else None
            found[column.name] = value
    except UnfitError:
        return None
    return found


def comparable(row: dict[str, object]) -> dict[str, str]:
    shown = {}
    for name, value in row.items():
        instant = name == "ts" and hasattr(value, "timestamp")
        shown[name] = repr(round(value.timestamp() * 1e6) if instant else value)  # type: ignore[attr-defined]
    return shown


@given(st.lists(ROW), st.sampled_from(",;|\t"), st.sampled_from(["\n", "\r\n"]), st.booleans())
def test_what_python_writes_is_read_back(
    rows: list[tuple[str, ...]],
    delimiter: str,
    ending: str,
    header: bool,  # noqa: FBT001
) -> None:
    options = ReadOptions(delimiter=delimiter, header=header)
    head = [SCHEMA.names] if header else []

    found, rejects = read(written([*head, *rows], options, ending), options)

    meant = [expected(row) for row in rows]
    good = [(at, comparable(row)) for at, row in enumerate(meant) if row is not None]
    assert [(at, comparable(row)) for at, row in found] == good
    assert [at for at, _, _ in rejects] == [at for at, row in enumerate(meant) if row is None]
    for at, _, raw in rejects:
        assert raw == written([rows[at]], options, ending).rstrip(b"\r\n")


@given(st.text(st.sampled_from('a1,"\n\r'), max_size=60), st.integers(1, 20))
@example('"a\n1,1\n', 3)
@example('a,"1"x\n1,1\n', 2)
def test_blocks_do_not_matter_even_for_garbage(text: str, block: int) -> None:
    schema = Schema.of("a text, b int")
    whole = read(text.encode(), ReadOptions(header=False), schema)

    small = ReadOptions(header=False, block_bytes=block, piece_rows=2)

    assert read(text.encode(), small, schema) == whole


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ("x", "1 fields where 2 are expected"),
        ("x,1,2", "3 fields where 2 are expected"),
        ("x,y", 'column b: "y" is not an int'),
        ('"x"y,1', "something follows the closing quote of field 1"),
        ("x,99999999999", 'column b: "99999999999" is outside the range of int'),
        (b"\xff,1", "not UTF-8 text"),
    ],
)
def test_a_bad_record_is_a_reject_with_its_text(record: str | bytes, reason: str) -> None:
    raw = record if isinstance(record, bytes) else record.encode()
    data = b"a,b\nx,1\n" + raw + b"\ny,2\n"

    rows, rejects = read(data, ReadOptions(), Schema.of("a text, b int"))

    assert rows == [(0, {"a": "x", "b": 1}), (2, {"a": "y", "b": 2})]
    assert rejects == [(1, reason, raw)]


def test_an_open_quote_costs_one_line() -> None:
    rows, rejects = read(b'a,b\n"x,1\ny,2\n', ReadOptions(), Schema.of("a text, b int"))

    assert rows == [(1, {"a": "y", "b": 2})]
    assert rejects == [(0, "the quote of field 1 is never closed", b'"x,1')]


def test_a_record_without_end_costs_one_line() -> None:
    data = b'"x,1\n' + b"y,2\n" * 20 + b'"'
    options = ReadOptions(header=False, block_bytes=8, max_record_bytes=40)

    rows, rejects = read(data, options, Schema.of("a text, b int"))

    assert [at for at, _ in rows] == list(range(1, 21))
    assert [reason for _, reason, _ in rejects] == [
        "the record does not end within 40 bytes",
        "the quote of field 1 is never closed",
    ]


def test_a_header_maps_names_in_any_order() -> None:
    data = b'\xef\xbb\xbfb, extra ,"a"\n1,z,x\n\n2,z,"NA"\n3,z,NA\n'
    options = ReadOptions(null_strings=("", "NA"))

    rows, _ = read(data, options, Schema.of("a text, b int"))

    assert rows == [(0, {"a": "x", "b": 1}), (2, {"a": "NA", "b": 2}), (3, {"a": None, "b": 3})]


def test_a_header_that_lacks_a_column_rejects_the_file_once() -> None:
    rows, rejects = read(b"a,c\nx,1\ny,2\n", ReadOptions(), Schema.of("a text, b int"))

    assert rows == []
    assert rejects == [(0, "the header lacks the column b; it has a, c", b"a.csv")]


@pytest.mark.parametrize("data", [b"", b"\n", b"a,b\n", b"a,b"])
def test_a_file_without_rows_gives_none(data: bytes) -> None:
    rows, _ = read(data, ReadOptions(), Schema.of("a text, b int"))

    assert rows == []


def test_marks_must_be_single_characters() -> None:
    with pytest.raises(PlanError, match="delimiter ';;' is not one ASCII character"):
        ReadOptions(delimiter=";;")
    with pytest.raises(PlanError, match="both the delimiter and the quote"):
        ReadOptions(delimiter='"')
    with pytest.raises(PlanError, match="at least 1"):
        ReadOptions(piece_rows=0)
