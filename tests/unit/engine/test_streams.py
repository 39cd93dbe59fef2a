"""Declarations of streams: there and back, and exact only where there is an order."""

from __future__ import annotations

from itertools import pairwise

import pytest

from millrace.engine.settings import Settings
from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError
from millrace.schema import Schema
from millrace.time import HOUR, SECOND

SCHEMA = Schema.of("symbol text, at bigint, ts timestamp")


def test_a_declaration_survives_json() -> None:
    spec = StreamSpec(
        "s", SCHEMA, "ts", 5, "symbol", ("at", "symbol"), ("symbol",), 6, 7, "body", True, 8
    )

    assert StreamSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("spec", "exact"),
    [
        (StreamSpec("s", SCHEMA, "ts"), False),
        (StreamSpec("s", SCHEMA, "ts", order=("at",)), True),
        (StreamSpec("s", SCHEMA, "ts", ordered=True), True),
    ],
)
def test_lateness_is_exact_where_there_is_an_order(spec: StreamSpec, *, exact: bool) -> None:
    assert spec.exact is exact


def test_a_declaration_is_printed_as_sql() -> None:
    spec = StreamSpec("s", SCHEMA, "ts", 2 * SECOND, retain=HOUR)

    assert str(spec) == (
        "STREAM s (symbol text, at bigint, ts timestamp) TIMESTAMP BY ts "
        "DELAY 2 seconds RETAIN 1 hour"
    )


@pytest.mark.parametrize("shards", [0, -1, 1025])
def test_shards_are_between_one_and_the_number_of_buckets(shards: int) -> None:
    with pytest.raises(PlanError, match=f"the number of shards is {shards}"):
        Settings(shards=shards)


@pytest.mark.parametrize("shards", [1, 2, 3, 7, 1024])
def test_shards_share_the_buckets_evenly(shards: int) -> None:
    bounds = Settings(shards=shards).shard_bounds
    sizes = {high - low for low, high in pairwise(bounds)}

    assert (bounds[0], bounds[-1], len(bounds)) == (0, 1024, shards + 1)
    assert max(sizes) - min(sizes) <= 1


def test_a_word_for_spreading_that_does_not_exist_is_refused() -> None:
    with pytest.raises(PlanError, match='spread is "sometimes"'):
        Settings(spread="sometimes")  # type: ignore[arg-type]
