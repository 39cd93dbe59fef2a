"""Results for whichever library goes on with them."""

from __future__ import annotations

import sys

import pyarrow as pa
import pytest

from millrace.client.result import Result
from millrace.errors import MachineError

TABLE = pa.table({"symbol": ["ACME", None], "price": [120.0, 8.5]})


def test_it_is_a_table_in_many_forms() -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    result = Result(TABLE, cursor="c7")

    assert result.to_arrow() is TABLE
    assert result.to_pandas().equals(pandas.DataFrame(TABLE.to_pydict()))
    assert result.to_polars().to_dicts() == TABLE.to_pylist()
    assert polars.DataFrame(result).to_dicts() == TABLE.to_pylist()
    assert pa.table(result).equals(TABLE)
    assert list(result) == result.rows() == TABLE.to_pylist()
    assert result["price"].to_pylist() == [120.0, 8.5]
    assert (len(result), result.column_names, result.cursor) == (2, ["symbol", "price"], "c7")
    assert repr(result) == "<Result of 2 rows: symbol string, price double>"


def test_without_polars_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)

    with pytest.raises(MachineError, match="polars is not installed"):
        Result(TABLE).to_polars()
