"""A minute of half load with queries that come and go; `make soak` does so for an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.soak import soak


@pytest.mark.slow
def test_a_minute_of_half_load_loses_nothing(tmp_path: Path) -> None:
    """In so short a time memory has not settled; that it does is for the hour to show."""
    found = soak(tmp_path / "root", 1.0)

    assert found.errors == []
    assert found.counted == found.pushed
    assert found.registered > 20
    assert max(found.growth.values()) < 0.5
