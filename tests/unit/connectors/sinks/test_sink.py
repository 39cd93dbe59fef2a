"""What all sinks share: names, sizes and backlogs are checked where they enter."""

from __future__ import annotations

import re
from typing import Any

import pytest

from millrace.connectors.sinks import Backlog, CallbackSink, MemorySink
from millrace.errors import PlanError
from millrace.state.sizes import to_bytes


def test_queries_may_be_one_several_or_all() -> None:
    found = [MemorySink(each).queries for each in ("big", ["b", "a", "b"], None)]

    assert found == [("big",), ("b", "a"), None]
    with pytest.raises(PlanError, match="a sink wants no query"):
        MemorySink([])


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "a b"])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(PlanError, match=re.escape(f'name "{name}" cannot stand for a sink')):
        CallbackSink(print, name=name)


@pytest.mark.parametrize(
    ("policy", "limits"),
    [("keep", {"n_bytes": 1}), ("drop", {}), ("detach", {"n_epochs": 0}), ("burn", {})],
)
def test_a_backlog_that_does_not_fit_its_policy_is_refused(
    policy: Any,
    limits: dict[str, int],
) -> None:
    with pytest.raises(PlanError, match=f'backlog policy "{policy}"'):
        Backlog(policy, **limits)


def test_sizes_are_read_in_powers_of_1024() -> None:
    assert [to_bytes(each) for each in ("1", "2 kB", "1 GiB", 5)] == [1, 2048, 1 << 30, 5]
    with pytest.raises(PlanError, match='"lots" is not a size'):
        to_bytes("lots")
