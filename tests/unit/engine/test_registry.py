"""The registry: what was acknowledged survives, what was refused has changed nothing."""

from __future__ import annotations

from typing import Any

import pytest

from millrace import failpoints
from millrace.engine.catalog import Catalog
from millrace.engine.registry import CHANGES, SNAPSHOTS, Registry, read_catalog
from millrace.engine.streams import StreamSpec
from millrace.errors import FencedError, NameTakenError, StoreFullError
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Data
from millrace.testing.mortal_root import MortalRoot

SCHEMA = Schema.of("symbol text, ts timestamp")


def add(name: str) -> dict[str, Any]:
    return {"do": "add stream", "stream": StreamSpec(name, SCHEMA, "ts").to_json()}


def names(catalog: Catalog) -> list[str]:
    return list(catalog.streams)


def test_a_change_is_there_for_the_next_who_opens_the_root() -> None:
    root = MemoryRoot()
    Registry.open(root).record([add("a"), add("b")])

    assert names(Registry.open(root).catalog) == ["a", "b"]
    assert Registry.open(root).catalog.sequence == 2


def test_changes_of_one_call_are_made_all_or_none() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([add("a")])

    with pytest.raises(NameTakenError):
        registry.record([add("b"), add("a")])

    assert names(registry.catalog) == names(Registry.open(root).catalog) == ["a"]
    registry.record([add("b")])
    assert names(Registry.open(root).catalog) == ["a", "b"]


def test_many_changes_leave_few_files_and_are_all_there() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    for number in range(300):
        registry.record([add(f"s{number}")])

    assert names(Registry.open(root).catalog) == [f"s{number}" for number in range(300)]
    assert Registry.open(root).catalog == registry.catalog
    assert len(root.list(f"{SNAPSHOTS}/")) == 2
    assert len(root.list(f"{CHANGES}/")) <= 128


def test_a_snapshot_that_fails_does_not_fail_the_change() -> None:
    class Full(MortalRoot):
        def put(self, name: str, data: Data) -> None:
            raise StoreFullError("no room is left")

    files = MemoryRoot()
    registry = Registry.open(Full(files))
    for number in range(70):
        registry.record([add(f"s{number}")])

    assert not files.list(f"{SNAPSHOTS}/")
    reopened = Registry.open(files)
    assert len(reopened.catalog.streams) == 70
    reopened.record([add("one more")])
    assert files.list(f"{SNAPSHOTS}/")


def test_an_engine_that_was_replaced_cannot_change_anything() -> None:
    def replaced() -> None:
        raise FencedError("the root has been taken over")

    root = MemoryRoot()
    with pytest.raises(FencedError):
        Registry.open(root, replaced).record([add("a")])

    assert names(Registry.open(root).catalog) == []


def test_of_two_who_change_at_once_the_second_is_told() -> None:
    root = MemoryRoot()
    first, second = Registry.open(root), Registry.open(root)
    first.record([add("a")])

    with pytest.raises(FencedError):
        second.record([add("b")])

    assert names(Registry.open(root).catalog) == ["a"]


@pytest.mark.parametrize(("point", "durable"), [("register.before", []), ("register.after", ["a"])])
def test_a_change_is_durable_before_it_is_acknowledged(point: str, durable: list[str]) -> None:
    root = MemoryRoot()
    failpoints.arm(point, "raise")
    try:
        with pytest.raises(failpoints.InjectedCrash):
            Registry.open(root).record([add("a")])
    finally:
        failpoints.disarm()

    assert names(Registry.open(root).catalog) == durable


def test_tasks_read_the_catalog_that_was_published() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    catalogs = []
    for number in range(3):
        registry.record([add(f"s{number}")])
        catalogs.append(registry.publish({}))
        registry.publish({})

    assert [read_catalog(root, each.file) for each in catalogs] == catalogs
    registry.forget_before(catalogs[-1].sequence)
    assert [each.name for each in root.list("catalogs/")] == [catalogs[-1].file]
