"""JSON to Arrow: the opposite of how values are spelt."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.client.json_rows import json_value, table_of_lists, table_of_rows
from millrace.errors import SourceError

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "boolean": (pa.bool_(), st.booleans()),
    "tinyint": (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    "bigint": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "qid": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "double": (pa.float64(), st.floats(allow_nan=False)),
    "float": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "decimal": (pa.decimal128(38, 10), st.decimals(-(10**20), 10**20, places=10)),
    "text": (pa.string(), st.text()),
    "binary": (pa.binary(), st.binary()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (
        pa.timestamp("us", tz="UTC"),
        st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2)),  # noqa: DTZ001
    ),
    "set": (pa.list_(pa.string()), st.lists(st.none() | st.text())),
}
SCHEMA = pa.schema({name: kind for name, (kind, _) in VALUES.items()})
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, (_, values) in VALUES.items()})
)


@given(ROWS)
def test_values_survive_the_journey(rows: list[dict[str, object]]) -> None:
    table = pa.Table.from_pylist(rows, SCHEMA)
    spelt = [{name: json_value(value) for name, value in row.items()} for row in table.to_pylist()]

    found = table_of_rows(json.loads(json.dumps(spelt, allow_nan=False)), SCHEMA)

    assert found.equals(table)


def test_what_json_has_no_form_for() -> None:
    [row] = table_of_lists(
        [["NaN", "-Infinity", "1.50", "9007199254740993", "AP8=", "2024-02-29",
          "2024-02-29T12:00:00.000001Z", "292000 us"]],
        [("a", "double"), ("b", "double"), ("c", "decimal(5,2)"), {"name": "d", "type": "bigint"},
         ("e", "binary"), ("f", "date"), ("g", "timestamp"), ("h", "timestamp")],
    ).to_pylist()  # fmt: skip

    assert row["a"] != row["a"]
    assert [*row.values()][1:] == [
        float("-inf"),
        Decimal("1.50"),
        2**53 + 1,
        b"\0\xff",
        date(2024, 2, 29),
        datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC),
        datetime(1970, 1, 1, 0, 0, 0, 292_000, tzinfo=UTC),
    ]


@pytest.mark.parametrize(("kind", "value"), [("int", "x"), ("date", "noon"), ("tinyint", 300)])
def test_a_value_of_another_type_is_refused_in_words(kind: str, value: object) -> None:
    with pytest.raises(SourceError, match='a value of column "a" that is not'):
        table_of_lists([[value]], [("a", kind)])
