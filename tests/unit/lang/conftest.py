"""The streams and functions that the tests of the language speak of."""

from __future__ import annotations

import pyarrow as pa
import pytest

from millrace.schema import Schema


@pytest.fixture(scope="session")
def streams() -> dict[str, Schema]:
    return {
        "trades": Schema.of(
            "symbol text, price double, size int, amount decimal(10, 2), ts timestamp, "
            "day date, ok boolean, raw binary"
        ),
        "Quotes": Schema.of("symbol text, bid double, ask double, weight float, number bigint"),
    }


@pytest.fixture(scope="session")
def functions() -> dict[str, pa.DataType]:
    return {"score": pa.float64()}
