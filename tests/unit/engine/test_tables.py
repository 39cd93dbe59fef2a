"""Tables in the registry: what plans read of them, whatever was published or forgotten."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from millrace import failpoints
from millrace.engine import contents
from millrace.engine.catalog import Catalog
from millrace.engine.contents import repeated
from millrace.engine.registry import Registry, read_catalog
from millrace.engine.table_changes import changes_at
from millrace.engine.tables import COPIES, TableSpec, read_changes
from millrace.errors import CorruptionError, MillraceError, StoreError
from millrace.schema import Schema
from millrace.state import log
from millrace.state.memory_root import MemoryRoot
from millrace.testing.registering import add_stream

SPEC = TableSpec("limits", Schema.of("symbol text, most double"), ("symbol",))
EVERYWHERE = "", (0, 1 << 64)
Bag = Counter[tuple[Any, ...]]

FEWER = settings(max_examples=max(settings.default.max_examples // 4, 1), stateful_step_count=40)  # type: ignore[union-attr]


def declared(spec: TableSpec = SPEC) -> dict[str, Any]:
    return {"do": "add table", "table": spec.to_json()}


def change(*rows: tuple[str, float, int]) -> tuple[list[dict[str, Any]], list[pa.RecordBatch]]:
    columns = [list(each) for each in zip(*rows, strict=True)]
    table = pa.RecordBatch.from_arrays(
        [pa.array(values, each.type) for values, each in zip(columns, SPEC.changes, strict=True)],
        schema=SPEC.changes,
    )
    return [{"do": "change table", "name": "limits", "rows": 0}], [table]


def bag(table: pa.Table) -> Bag:
    found = Bag()
    for *row, copies in zip(*(each.to_pylist() for each in table.columns), strict=True):
        found[tuple(row)] += copies
    return Bag({row: n for row, n in found.items() if n})


def read(root: MemoryRoot, catalog: Catalog, taken: int | None) -> Bag:
    spec, files = catalog.table("limits"), catalog.table_files.get("limits", ())
    return bag(read_changes(root, spec, files, taken))


class Machine(RuleBasedStateMachine):
    """A table and plans that read it, against a bag for each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.before = log.EVERY, contents.LEAST_WHOLE, contents.MOST_FILES
        log.EVERY, contents.LEAST_WHOLE, contents.MOST_FILES = 3, 4, 3
        self.root = MemoryRoot()
        self.registry = Registry.open(self.root)
        self.registry.record([declared()])
        self.rows = Bag()
        self.plans: dict[int, tuple[int | None, Bag]] = {}

    def teardown(self) -> None:
        log.EVERY, contents.LEAST_WHOLE, contents.MOST_FILES = self.before

    @rule(rows=st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([1.0, 2.0])), min_size=1))
    def insert(self, rows: list[tuple[str, float]]) -> None:
        self.registry.record(*change(*((*row, 1) for row in rows)))
        self.rows.update(rows)

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.rows:
            row = data.draw(st.sampled_from(sorted(self.rows)))
            self.registry.record(*change((*row, -1)))
            self.rows -= Bag([row])

    @rule(number=st.integers(0, 2))
    def run_a_plan(self, number: int) -> None:
        taken, seen = self.plans.get(number, (None, Bag()))
        catalog = read_catalog(self.root, self.registry.publish({}).file)
        seen = Bag(seen)
        for row, copies in read(self.root, catalog, taken).items():
            seen[row] += copies
        self.plans[number] = catalog.sequence, Bag({row: n for row, n in seen.items() if n})

        assert self.plans[number][1] == self.rows

    @rule(number=st.integers(0, 2))
    def drop_a_plan(self, number: int) -> None:
        self.plans.pop(number, None)

    @rule()
    def restart(self) -> None:
        self.registry = Registry.open(self.root)

    @rule()
    def forget(self) -> None:
        sequence = self.registry.publish({}).sequence
        taken = [each for each, _ in self.plans.values() if each is not None]
        self.registry.forget_changes({"limits": min(taken)} if taken else {})
        self.registry.forget_before(sequence)

    @invariant()
    def the_rows_are_there(self) -> None:
        assert bag(self.registry.table_rows("limits")[1]) == self.rows


Machine.TestCase.settings = FEWER
test_a_table_is_what_was_put_into_it_for_everybody = Machine.TestCase


@pytest.mark.parametrize(("point", "durable"), [("register.before", 0), ("register.after", 2)])
def test_a_change_is_durable_before_it_is_acknowledged(point: str, durable: int) -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([declared()])
    failpoints.arm(point, "raise")
    try:
        with pytest.raises(failpoints.InjectedCrash):
            registry.record(*change(("a", 1.0, 1), ("b", 2.0, 1)))
    finally:
        failpoints.disarm()

    assert repeated(Registry.open(root).table_rows("limits")[1]).num_rows == durable


@pytest.mark.parametrize("point", ["publish.before", "publish.after"])
def test_an_engine_that_dies_while_publishing_loses_no_change(point: str) -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([declared()])
    registry.record(*change(("a", 1.0, 1)))
    failpoints.arm(point, "raise")
    try:
        with pytest.raises(failpoints.InjectedCrash):
            registry.publish({})
    finally:
        failpoints.disarm()
    again = Registry.open(root)
    catalog = again.publish({})
    again.record(*change(("b", 2.0, 1)))
    later = again.publish({})

    assert read(root, catalog, None) == Bag([("a", 1.0)])
    assert read(root, later, catalog.sequence) == Bag([("b", 2.0)])
    assert read(root, later, None) == Bag([("a", 1.0), ("b", 2.0)])


def test_a_change_of_rows_that_have_changed_meanwhile_is_refused() -> None:
    registry = Registry.open(MemoryRoot())
    registry.record([declared()])
    version, _ = registry.table_rows("limits")
    registry.record(*change(("a", 1.0, 1)))
    [stale], tables = change(("a", 1.0, 1))

    with pytest.raises(MillraceError, match='table "limits" was changed meanwhile'):
        registry.record([{**stale, "version": version}], tables)

    assert bag(registry.table_rows("limits")[1]) == Bag([("a", 1.0)])


def test_a_table_that_is_declared_again_begins_empty() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([declared()])
    registry.record(*change(("a", 1.0, 1)))
    registry.publish({})
    registry.record([{"do": "drop table", "name": "limits"}, declared()])

    assert read(root, registry.publish({}), None) == Bag()
    assert bag(Registry.open(root).table_rows("limits")[1]) == Bag()


def test_a_change_costs_what_it_changes() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([declared()])
    registry.record(*change(*((f"s{at}", 1.0, 1) for at in range(50_000))))
    registry.publish({})
    before = {entry.name: entry.size for entry in root.list("")}

    for at in range(20):
        registry.record(*change((f"t{at}", 1.0, 1)))
        registry.publish({})

    fresh = {each.name: each.size for each in root.list("") if each.name not in before}
    assert max(fresh.values()) < 10_000


def test_changes_that_are_missing_are_noticed() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([declared()])
    for at in range(3):
        registry.record(*change((f"s{at}", 1.0, 1)))
        catalog = registry.publish({})
    first, *others = catalog.table_files["limits"]

    with pytest.raises(CorruptionError, match='changes 2 to 2 of table "limits" are missing'):
        read_changes(root, catalog.table("limits"), others, None)
    assert first.since == catalog.table("limits").born


def test_a_snapshot_whose_table_is_gone_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "EVERY", 1_000)
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([declared()])
    registry.record(*change(("a", 1.0, 1)))
    registry.publish({})
    monkeypatch.setattr(log, "EVERY", 1)
    registry.record([add_stream()])
    (file,) = root.list("tables/")
    root.delete(file.name)

    assert bag(Registry.open(root).table_rows("limits")[1]) == Bag([("a", 1.0)])  # from the log
    for entry in root.list("registry/"):
        root.delete(entry.name)
    with pytest.raises(StoreError, match=file.name):
        Registry.open(root)


def test_each_shard_takes_its_own_rows_and_all_of_them_together_all() -> None:
    root = MemoryRoot()
    registry = Registry.open(root)
    registry.record([declared()])
    registry.record(*change(*((f"s{at}", 1.0, 1) for at in range(100))))
    catalog = registry.publish({})
    middle = 1 << 63

    halves = [
        changes_at(root, catalog, "limits", None, 7, ("symbol", keys))
        for keys in ((0, middle), (middle, 1 << 64))
    ]
    whole = changes_at(root, catalog, "limits", None, 7, EVERYWHERE)

    assert all(0 < each.rows.num_rows < 100 for each in halves)
    symbols = [name for each in halves for name in each.rows.column("symbol").to_pylist()]
    assert sorted(symbols) == sorted(whole.rows.column("symbol").to_pylist())
    assert np.unique(whole.times).tolist() == [7]
    assert whole.rows.schema.names == ["symbol", "most"]
    assert COPIES not in whole.rows.schema.names
