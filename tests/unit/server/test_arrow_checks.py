"""Arrow of which little is sent and much would be made."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa
import pytest

from millrace.errors import SchemaError
from millrace.server.answers_http import ARROW
from millrace.server.arrow_checks import read_arrow
from millrace.server.limits import Limits
from millrace.server.quotas import TooLargeError
from millrace.server.wire import arrow_stream
from millrace.testing.serving import STREAM, Served

LONG = "x" * 100_000
N_ROWS = 1_000


def named_often(kind: pa.DataType, value: object = LONG) -> pa.Array:
    """Return rows that all name the one value of a dictionary."""
    indices = pa.array([0] * N_ROWS, pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array([value], kind))


def viewed_often() -> pa.Array:
    """Return rows that all are views of the same bytes."""
    view = struct.pack("<i4sii", len(LONG), b"xxxx", 0, 0)
    buffers = [None, pa.py_buffer(view * N_ROWS), pa.py_buffer(LONG.encode())]
    return pa.Array.from_buffers(pa.string_view(), N_ROWS, buffers)


def lists_of(values: pa.Array) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)


BOMBS = {
    "text": named_often(pa.large_string()),
    "binary": named_often(pa.binary(), LONG.encode()),
    "fixed": named_often(pa.binary(len(LONG)), LONG.encode()),
    "dictionary of views": named_often(pa.string_view()),
    "views": viewed_often(),
    "lists of views": lists_of(viewed_often()),
    "lists of dictionaries": lists_of(named_often(pa.string())),
}


def body_of(column: pa.Array) -> bytes:
    body: bytes = arrow_stream(pa.table({"symbol": column})).to_pybytes()
    return body


@pytest.mark.parametrize("column", BOMBS.values(), ids=BOMBS.keys())
def test_rows_that_would_become_too_large_are_refused(column: pa.Array) -> None:
    body = body_of(column)

    assert len(body) < 1 << 20
    with pytest.raises(TooLargeError, match="limit 4e\\+06 bytes of rows a request, now 1e\\+08"):
        read_arrow(body, most_rows=N_ROWS, body_bytes=1_000_000)


@pytest.mark.parametrize("column", BOMBS.values(), ids=BOMBS.keys())
def test_rows_that_become_no_larger_than_they_may_are_read(column: pa.Array) -> None:
    table = read_arrow(body_of(column.slice(0, 10)), most_rows=N_ROWS, body_bytes=1_000_000)

    assert table.num_rows == 10


def test_nulls_and_numbers_by_dictionary_are_read() -> None:
    texts = pa.array(["a", None, "b"], pa.string_view())
    numbers = pa.array([1.5, None, 1.5]).dictionary_encode()
    body = arrow_stream(pa.table({"t": texts, "n": numbers})).to_pybytes()

    assert read_arrow(body, most_rows=3).to_pylist() == [
        {"t": "a", "n": 1.5}, {"t": None, "n": None}, {"t": "b", "n": 1.5}
    ]  # fmt: skip


@pytest.mark.parametrize(
    "column",
    [
        pa.RunEndEncodedArray.from_arrays(pa.array([N_ROWS], pa.int32()), pa.array([LONG])),
        pa.array([[LONG]], pa.list_view(pa.string())),
        pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array([[LONG]])),
    ],
    ids=["runs", "list views", "dictionary of lists"],
)
def test_types_that_no_column_needs_are_refused(column: pa.Array) -> None:
    with pytest.raises(SchemaError, match=r"the Arrow type .* is not taken"):
        read_arrow(body_of(column), most_rows=N_ROWS)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = Limits(body_bytes=1_000_000, push_rows=N_ROWS)
    with Served(tmp_path_factory.mktemp("arrow") / "root", limits=limits) as served:
        served.sql(STREAM)
        served.sql("CREATE TABLE limits (symbol text)")
        served.sql(
            "CREATE QUERY TEMPLATE alert (symbol text) "
            "AS SELECT price FROM trades WHERE symbol = :symbol"
        )
        yield served


@pytest.mark.parametrize("path", ["streams/trades", "tables/limits", "templates/alert"])
def test_wherever_rows_are_taken_these_are_not(small: Served, path: str) -> None:
    headers = {"content-type": ARROW}

    answer = small.post(f"/v1/{path}/rows", content=body_of(BOMBS["text"]), headers=headers)

    assert answer.status_code == 413, answer.text


@pytest.mark.parametrize("path", ["streams/trades", "tables/limits", "templates/alert"])
def test_rows_of_json_are_counted_wherever_they_are_taken(small: Served, path: str) -> None:
    answer = small.post(f"/v1/{path}/rows", json=[{"symbol": "A"}] * (N_ROWS + 1))

    assert answer.status_code == 413, answer.text
    assert answer.json()["error"]["message"] == "refused: limit 1000 rows a request, now 1001"
