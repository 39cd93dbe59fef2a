"""A minute of half load with queries that come and go; `make soak` does so for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import soak

WARMING = 0.5
"""By how much a process may still grow in the minute's last third, which is all warm-up."""


@pytest.mark.slow
def test_a_minute_of_half_load_loses_nothing(tmp_path: Path) -> None:
    found = soak(tmp_path / "root", 1.0)

    assert found.errors == []
    assert found.ended == 0
    assert found.counted == found.pushed
    assert found.registered > 20
    assert found.told.expected > 1_000
    assert found.told.total == 0
    assert found.counted_told[0] == found.counted_told[1] == found.told.expected
    assert found.waiting.expected > 100
    assert found.waiting.total == 0
    assert max(found.growth.values()) < WARMING
