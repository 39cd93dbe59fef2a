"""Schemas: text, JSON and Arrow in and out, and foreign Arrow data made to fit."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.errors import SchemaError
from millrace.schema import TIMESTAMP, Column, Schema, conform, type_name, type_named

ALL = (
    "a boolean, b tinyint, c smallint, d int, e bigint, f float, g double, "
    "h decimal(10,2), i text, j binary, k date, l timestamp"
)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1).filter(
    lambda name: not name.startswith("_")
)


def a_schema() -> st.SearchStrategy[Schema]:
    types = st.sampled_from([column.type for column in Schema.of(ALL)])
    lists = st.lists(st.tuples(NAMES, types), min_size=1, max_size=5)
    return lists.filter(lambda each: len({name.casefold() for name, _ in each}) == len(each)).map(
        lambda each: Schema(tuple(Column(name, kind) for name, kind in each))
    )


@given(a_schema())
def test_a_schema_survives_text_json_and_arrow(schema: Schema) -> None:
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_arrow(schema.to_arrow()) == schema
    assert Schema.of(str(schema)) == schema


def test_every_type_has_one_arrow_form() -> None:
    schema = Schema.of(ALL)

    assert str(schema) == ALL
    assert schema.type_of("l") == TIMESTAMP
    assert [type_named(type_name(each.type)) for each in schema] == [each.type for each in schema]
    assert type_named(" VARCHAR ") == pa.string()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a money", 'type "money" does not exist'),
        ("a decimal(39, 2)", r'type "decimal\(39, 2\)" does not exist'),
        ("a int, A text", 'column "A" is declared twice'),
        ("_a int", 'column name "_a" is reserved'),
        ("a", '"a" is not a column declaration'),
        ("a int,, b int", "is not a column declaration"),
        ("", "a schema has no columns"),
    ],
)
def test_a_wrong_declaration_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        Schema.of(text)


def test_an_unknown_type_lists_those_that_exist() -> None:
    with pytest.raises(SchemaError) as caught:
        type_named("money")

    assert "boolean, tinyint" in caught.value.detail


def test_foreign_types_become_the_nearest_of_ours() -> None:
    foreign = pa.schema(
        [
            ("a", pa.large_string()),
            ("b", pa.dictionary(pa.int8(), pa.string())),
            ("c", pa.timestamp("ns", tz="Asia/Tokyo")),
            ("d", pa.string_view()),
            ("e", pa.uint32()),
            ("f", pa.date64()),
            ("g", pa.decimal256(20, 3)),
            ("h", pa.uint64()),
        ]
    )

    expected = (
        "a text, b text, c timestamp, d text, e bigint, f date, g decimal(20,3), h decimal(20,0)"
    )
    assert Schema.from_arrow(foreign) == Schema.of(expected)


def test_a_nested_column_has_no_type() -> None:
    with pytest.raises(SchemaError, match='column "a" has the Arrow type list'):
        Schema.from_arrow(pa.schema([("a", pa.list_(pa.int64()))]))


def test_conform_returns_what_fits_already_itself() -> None:
    batch = pa.record_batch({"a": pa.array([1], pa.int32())})

    assert conform(batch, Schema.of("a int")) is batch


def test_conform_casts_reorders_and_drops() -> None:
    table = pa.table(
        {
            "extra": [1, 2],
            "when": pa.array([1_500, -1_500], pa.timestamp("ns")),
            "name": pa.chunked_array([["x"], ["y"]]).cast(pa.large_string()).dictionary_encode(),
            "price": pa.array([1, 2], pa.uint8()),
            "none": pa.nulls(2),
        }
    )

    batch = conform(table, Schema.of("name text, price decimal(5,2), when timestamp, none date"))

    assert batch.column("name").to_pylist() == ["x", "y"]
    assert batch.column("price").to_pylist() == [Decimal("1.00"), Decimal("2.00")]
    assert batch.column("when").cast(pa.int64()).to_pylist() == [1, -1]
    assert batch.column("none").null_count == 2


def test_a_time_with_a_zone_keeps_its_instant() -> None:
    times = pa.array([0], pa.timestamp("s", tz="Asia/Tokyo"))

    batch = conform(pa.record_batch({"a": times}), Schema.of("a timestamp"))

    assert batch.column(0).cast(pa.int64()).to_pylist() == [0]


@pytest.mark.parametrize(
    ("array", "kind", "message"),
    [
        (pa.array([2**40]), "int", 'column "a" holds a value that is not a int'),
        (pa.array([b"\xff"]), "text", "holds a value"),
        (pa.array(["1"]), "int", 'column "a" is string and not int'),
        (pa.array([1.5]), "int", 'column "a" is double and not int'),
        (pa.array([2**62], pa.timestamp("s")), "timestamp", "holds a value"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(array: pa.Array, kind: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        conform(pa.record_batch({"a": array}), Schema.of(f"a {kind}"))


def test_a_missing_column_is_refused_with_those_that_exist() -> None:
    with pytest.raises(SchemaError, match='column "b" is missing') as caught:
        conform(pa.record_batch({"a": [1]}), Schema.of("b int"))

    assert "columns a" in caught.value.detail
    with pytest.raises(SchemaError, match='column "x" does not exist'):
        Schema.of("a int").type_of("x")
