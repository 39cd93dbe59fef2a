"""Results in each form."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from millrace.cli.shell.printing import Printer
from millrace.client.result import Result

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TABLE = pa.table(
    {
        "symbol": ["ACME", None, 'B;"\nÖ🌊'],
        "price": pa.array([Decimal("1.50"), None, Decimal("-2.25")], pa.decimal128(9, 2)),
        "big": pa.array([2**60, 1, None]),
        "x": [0.1, float("nan"), None],
        "raw": [b"\x00\xff", None, b""],
        "ts": pa.array([NOON, None, NOON], pa.timestamp("us", tz="UTC")),
        "set": [["a", None], None, []],
        "ok": [True, False, None],
    }
)


def printed(form: str, table: pa.Table = TABLE, *, expanded: bool = False) -> str:
    file = io.StringIO()
    Printer(form, expanded=expanded, file=file).result(Result(table))
    return file.getvalue()


def test_json_is_one_document() -> None:
    rows = json.loads(printed("json"))

    assert rows[0] == {
        "symbol": "ACME",
        "price": "1.50",
        "big": str(2**60),
        "x": 0.1,
        "raw": "AP8=",
        "ts": "2024-05-01T12:00:00Z",
        "set": ["a", None],
        "ok": True,
    }
    assert rows[1]["x"] == "NaN"
    assert rows[2]["symbol"] == 'B;"\nÖ🌊'


def test_no_rows_are_an_empty_list() -> None:
    assert json.loads(printed("json", TABLE.slice(0, 0))) == []
    assert printed("ndjson", TABLE.slice(0, 0)) == ""


def test_ndjson_is_a_row_a_line() -> None:
    lines = printed("ndjson").splitlines()

    assert [json.loads(line) for line in lines] == json.loads(printed("json"))


def test_csv_can_be_read_back() -> None:
    header, *rows = csv.reader(io.StringIO(printed("csv")))

    assert header == TABLE.column_names
    assert rows[0][:5] == ["ACME", "1.50", str(2**60), "0.1", "AP8="]
    assert rows[1][:4] == ["", "", "1", "NaN"]
    assert rows[2][0] == 'B;"\nÖ🌊'


def test_a_table_is_for_people() -> None:
    shown = printed("table")

    assert "2024-05-01 12:00:00" in shown
    assert "NULL" in shown
    assert "{a, NULL}" in shown
    assert shown.endswith("3 rows\n")


def test_expanded_is_a_line_for_each_value() -> None:
    lines = printed("table", TABLE.select(["symbol", "big"]).slice(0, 1), expanded=True)

    assert lines == f"-[ 1 ]-\nsymbol  ACME\nbig     {2**60}\n1 row\n"


def test_of_many_rows_a_person_sees_the_first() -> None:
    file = io.StringIO()

    Printer(most=2, file=file).result(Result(pa.table({"n": range(5)})))

    assert file.getvalue() == "n\n0\n1\n5 rows, 3 not shown\n"


def test_markup_in_values_is_text() -> None:
    assert "[bold]x[/bold]" in printed("table", pa.table({"[red]a": ["[bold]x[/bold]"]}))


@pytest.mark.parametrize("form", ["table", "csv", "ndjson"])
def test_rows_that_go_on_have_one_header(form: str) -> None:
    file = io.StringIO()
    printer = Printer(form, file=file)
    result = Result(pa.table({"symbol": ["ACME"], "n": [1]}))

    printer.rows(result, header=True)
    printer.rows(result)

    assert file.getvalue().count("symbol") == (2 if form == "ndjson" else 1)
    assert len(file.getvalue().splitlines()) == (2 if form == "ndjson" else 3)
