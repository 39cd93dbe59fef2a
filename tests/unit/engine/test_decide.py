"""Deciding: idleness, spreading, horizons and timers."""

from __future__ import annotations

from typing import Any

import pytest

from millrace.engine.catalog import Catalog
from millrace.engine.decide import SPREAD_BYTES, decide, horizons, next_due
from millrace.engine.decision import Decision, Identity
from millrace.engine.settings import Settings, Spread
from millrace.engine.streams import StreamSpec
from millrace.schema import Schema
from millrace.state.manifest import Manifest
from millrace.time import DAY

SPEC = StreamSpec("s", Schema.of("ts timestamp"), "ts", 5, retain=100, idle=10, born=1)
CATALOG = Catalog(1, streams={"s": SPEC})


def manifest(**facts: Any) -> Manifest:
    known = {
        "born": {"s": 1}, "clocks": {"s": {"a": 50, "b": 40}}, "watermarks": {"s": 35},
        "seen": {"s": {"a": 1_000, "b": 1_005}},
    }  # fmt: skip
    return Manifest(3, facts={**known, **facts})


def decided(before: Manifest, *, clock: int = 1_010, spread: Spread = "auto") -> Decision:
    return decide(
        before, CATALOG, Identity("q", 4, "d"), Settings(shards=3, spread=spread),
        term=2, clock=clock,
    )  # fmt: skip


def test_a_decision_holds_what_the_epoch_depends_on() -> None:
    made = decided(manifest())

    assert (made.clocks, made.watermarks) == ({"s": {"a": 50, "b": 40}}, {"s": 35})
    assert made.shards == (0, 341, 682, 1024)
    assert (made.term, made.clock, made.catalog) == (2, 1_010, CATALOG.file)


@pytest.mark.parametrize(
    ("clock", "idle"),
    [(1_009, {}), (1_010, {"s": ["a"]}), (1_015, {"s": ["a", "b"]}), (900, {})],
)
def test_a_partition_is_idle_when_its_time_without_rows_is_over(
    clock: int, idle: dict[str, list[str]]
) -> None:
    assert decided(manifest(), clock=clock).idle == idle


@pytest.mark.parametrize(("idle", "due"), [([], 1_010), (["a"], 1_015), (["a", "b"], None)])
def test_a_timer_is_due_when_the_next_partition_turns_idle(
    idle: list[str], due: int | None
) -> None:
    assert next_due(manifest(idle={"s": idle}), CATALOG) == due


@pytest.mark.parametrize(
    ("sent", "spread", "expected"),
    [
        (SPREAD_BYTES + 1, "auto", True),
        (SPREAD_BYTES, "auto", False),
        (SPREAD_BYTES + 1, "never", False),
        (0, "always", True),
    ],
)
def test_an_epoch_is_spread_after_a_large_one(sent: int, spread: Spread, *, expected: bool) -> None:
    before = manifest(statistics={"bytes_sent": sent})

    assert decided(before, spread=spread).spread is expected


def test_rows_expire_behind_the_watermark_and_letters_behind_the_clock() -> None:
    assert horizons(manifest(), CATALOG, DAY, 1_000) == {
        "dead letters": 1_000 - DAY, "rows/s.1": 35 - 100, "late/s.1": 1_000 - DAY,
    }  # fmt: skip
    assert horizons(Manifest(), CATALOG, DAY, 1_000) == {
        "dead letters": 1_000 - DAY, "late/s.1": 1_000 - DAY,
    }  # fmt: skip


def test_a_stream_declared_anew_is_decided_without_a_past() -> None:
    made = decided(manifest(born={"s": 0}))

    assert (made.clocks, made.watermarks, made.idle) == ({}, {}, {})
    assert next_due(manifest(born={"s": 0}), CATALOG) is None
