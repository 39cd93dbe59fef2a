"""Publication: index files in levels, merges on the spot and in a thread, and who is out."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from millrace.engine import publication
from millrace.engine.decision import Decision, Identity
from millrace.engine.population import Block, IndexBlock
from millrace.engine.registry import Registry, read_catalog
from millrace.engine.standing import sources_of
from millrace.index.build import build_index
from millrace.index.run import IndexRun
from millrace.plan.nodes import select
from millrace.state import log
from millrace.state.lease import Lease
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root
from millrace.testing.registering import above, add_feed, add_stream, ask_many, ids


@pytest.fixture(autouse=True)
def small_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "SMALLEST_LEVEL", 4)


@pytest.fixture
def root() -> MemoryRoot:
    return MemoryRoot()


def opened(root: Root) -> Registry:
    registry = Registry.open(root)
    if not registry.catalog.streams:
        registry.record([add_stream(), add_feed("alerts", above(0.0), "shared")])
    return registry


def add(registry: Registry, n_queries: int = 1) -> list[int]:
    return ask_many(registry, "alerts", *[above(float(each)) for each in range(n_queries)])


def drop(registry: Registry, *qids: int) -> None:
    registry.record([{"do": "drop queries", "rows": 0}], [ids(*qids)])


def files(registry: Registry) -> list[str]:
    """The index files that tasks are told of."""
    return [each.name for each in registry.publish({}).index.get("trades", ())]


def sizes(root: Root, registry: Registry) -> list[int]:
    return [IndexRun.open(root, name).n for name in files(registry)]


def answering(root: Root, registry: Registry) -> list[int]:
    """Find who would be answered, as tasks do."""
    catalog = read_catalog(root, registry.publish({}).file)
    decision = Decision(Identity("q", 0, "d"), 0, 1, 0, catalog.file, {})
    found: list[int] = []
    for each in sources_of(root, catalog, decision, "trades"):
        qids = each.run.qids
        found += (qids if each.out is None else qids[~each.out]).tolist()
    return sorted(found)


def test_what_has_not_changed_is_not_published_again(root: MemoryRoot) -> None:
    registry = opened(root)
    add(registry)
    first, before = registry.publish({}), root.list("")

    assert registry.publish({}) is first
    assert root.list("") == before


def test_rows_since_the_last_time_become_one_small_file(root: MemoryRoot) -> None:
    registry = opened(root)
    for _ in range(3):
        add(registry)
    assert sizes(root, registry) == [3]

    add(registry, 2)

    assert sizes(root, registry) == [3, 2]
    assert answering(root, registry) == [1, 2, 3, 4, 5]


def test_four_files_of_a_size_become_one(root: MemoryRoot) -> None:
    registry = opened(root)
    seen = []
    for _ in range(8):
        add(registry)
        seen.append(sizes(root, registry))

    assert seen == [[1], [1, 1], [1, 1, 1], [4], [4, 1], [4, 1, 1], [4, 1, 1, 1], [4, 4]]
    assert answering(root, registry) == list(range(1, 9))


def test_the_number_of_files_grows_with_the_logarithm_of_queries(root: MemoryRoot) -> None:
    registry, random = opened(root), np.random.default_rng(0)
    n_queries, rewritten, written = 0, 0, len(root.list("queries/"))
    for _ in range(120):
        n_added = int(random.integers(1, 9))
        add(registry, n_added)
        n_queries += n_added
        n_files = len(files(registry))
        assert n_files <= 3 * (2 + math.log(1 + n_queries, 4))
    for entry in root.list("queries/")[written:]:
        rewritten += IndexRun.open(root, entry.name).n

    assert rewritten <= n_queries * (3 + math.log(n_queries, 4))
    assert answering(root, registry) == list(range(1, n_queries + 1))


def test_dropped_and_paused_queries_are_marked_until_a_file_is_rewritten(root: MemoryRoot) -> None:
    registry = opened(root)
    add(registry, 3)
    assert answering(root, registry) == [1, 2, 3]
    drop(registry, 2)
    registry.record([{"do": "pause", "qids": [3]}])

    assert answering(root, registry) == [1]
    assert sizes(root, registry) == [3]
    for _ in range(3):
        add(registry)
        registry.publish({})
    assert sizes(root, registry) == [5]  # who is paused stays
    registry.record([{"do": "resume", "qids": [3]}])
    assert answering(root, registry) == [1, 3, 4, 5, 6]


def test_a_file_of_which_much_was_dropped_is_rewritten(root: MemoryRoot) -> None:
    registry = opened(root)
    add(registry, 10)
    registry.publish({})

    drop(registry, 1, 2, 3)
    assert sizes(root, registry) == [10]
    drop(registry, 4)

    assert sizes(root, registry) == [6]
    assert answering(root, registry) == [5, 6, 7, 8, 9, 10]


def test_a_file_of_which_all_was_dropped_goes(root: MemoryRoot) -> None:
    registry = opened(root)
    add(registry, 5)
    registry.publish({})

    drop(registry, 1, 2, 3, 4, 5)

    assert files(registry) == []


def test_what_was_dropped_before_it_was_published_never_is(root: MemoryRoot) -> None:
    registry = opened(root)
    add(registry, 2)
    drop(registry, 1, 2)
    add(registry)
    registry.record([add_feed("other", above(0.0), "shared")])
    ask_many(registry, "other", above(7.0))
    registry.record([{"do": "drop feed", "name": "other"}])

    assert sizes(root, registry) == [1]
    assert answering(root, registry) == [3]


def test_a_stream_declared_anew_has_none_of_the_old_queries(root: MemoryRoot) -> None:
    registry = opened(root)
    add(registry, 2)
    registry.publish({})
    for change in ({"do": "drop feed", "name": "alerts"}, {"do": "drop stream", "name": "trades"}):
        registry.record([change])
    registry.publish({})

    opened(root)
    registry = opened(root)
    ask_many(registry, "alerts", select("trades", "symbol"))

    assert answering(root, registry) == [3]


class Merging:
    """A merge in a thread that waits until it is told to go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on, self.fails = threading.Event(), threading.Event(), False
        monkeypatch.setattr(publication, "ROWS_ON_THE_SPOT", 0)
        monkeypatch.setattr(publication, "build_index", self._build)

    def _build(self, *arguments: Any) -> list[memoryview]:
        if threading.current_thread().name == "millrace-index":
            self.begun.set()
            assert self.go_on.wait(10)
            if self.fails:
                raise OSError("no room")
        return build_index(*arguments)

    def finish(self, registry: Registry) -> None:
        assert self.begun.wait(10)
        self.go_on.set()
        registry.await_merge()


@pytest.fixture
def merging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Merging]:
    merging = Merging(monkeypatch)
    yield merging
    merging.go_on.set()


def four_files(root: MemoryRoot) -> Registry:
    registry = opened(root)
    for _ in range(4):
        add(registry)
        registry.publish({})
    return registry


def test_a_large_merge_holds_nobody_up(root: MemoryRoot, merging: Merging) -> None:
    registry = four_files(root)
    assert sizes(root, registry) == [1, 1, 1, 1]
    add(registry)
    assert sizes(root, registry) == [1, 1, 1, 1, 1]

    merging.finish(registry)

    assert sizes(root, registry) == [1, 1, 1, 1, 1]  # published is published
    add(registry)
    assert sizes(root, registry) == [1, 1, 4]
    assert answering(root, registry) == [1, 2, 3, 4, 5, 6]


def test_what_changed_during_a_merge_is_so_after_it(root: MemoryRoot, merging: Merging) -> None:
    registry = four_files(root)
    drop(registry, 2)
    registry.record([{"do": "pause", "qids": [3]}])
    change_low(registry, 4, 44.0)
    merging.finish(registry)

    assert answering(root, registry) == [1, 4]
    assert sorted(sizes(root, registry)) == [1, 4]
    assert registry.constants_of(registry.catalog.families_of("alerts")[0], 4) == [{"p0": 44.0}]
    registry.record([{"do": "resume", "qids": [3]}])
    assert answering(root, registry) == [1, 3, 4]


def change_low(registry: Registry, qid: int, low: float) -> None:
    family = registry.catalog.families[registry.catalog.families_of("alerts")[0]]
    table = ids(qid).append_column("p0", [low])
    registry.record([{"do": "change queries", "family": family.to_json(), "rows": 0}], [table])


def test_a_merge_that_fails_changes_nothing_and_is_tried_again(
    root: MemoryRoot, merging: Merging
) -> None:
    merging.fails = True
    registry = four_files(root)
    merging.finish(registry)
    merging.fails = False
    add(registry)

    assert sizes(root, registry) == [1, 1, 1, 1, 1]
    registry.await_merge()
    add(registry)
    assert sizes(root, registry) == [1, 5]


def test_a_feed_dropped_during_a_merge_does_not_come_back(
    root: MemoryRoot, merging: Merging
) -> None:
    registry = four_files(root)
    registry.record([{"do": "drop feed", "name": "alerts"}])
    merging.finish(registry)

    assert answering(root, registry) == []
    registry.record([add_feed("alerts", above(0.0), "shared")])
    add(registry)
    assert answering(root, registry) == [5]


def test_the_file_of_a_merge_is_not_taken_for_garbage(root: MemoryRoot, merging: Merging) -> None:
    registry = four_files(root)
    add(registry)
    registry.forget_before(registry.publish({}).sequence)
    merging.finish(registry)
    registry.record([add_stream("quotes")])
    registry.forget_before(registry.catalog.sequence)  # no epoch has used the result yet

    add(registry)

    assert answering(root, registry) == [1, 2, 3, 4, 5, 6]
    assert set(files(registry)) <= {entry.name for entry in root.list("queries/")}


@pytest.mark.parametrize("n_snapshots", [0, 1, 3])
def test_files_go_when_neither_a_start_nor_an_epoch_needs_them(
    root: MemoryRoot, monkeypatch: pytest.MonkeyPatch, n_snapshots: int
) -> None:
    monkeypatch.setattr(log, "EVERY", 5 if n_snapshots else 1_000)
    registry = opened(root)
    for number in range(12 if n_snapshots < 3 else 40):
        add(registry)
        catalog = registry.publish({})
        if number % 3 == 0:
            registry.forget_before(catalog.sequence)
            assert answering(root, Registry.open(root)) == list(range(1, number + 2))
    registry.forget_before(catalog.sequence)

    present = {entry.name for entry in root.list("queries/")}
    assert set(files(registry)) <= present
    assert len(present) <= 3 * 3 * (2 + math.log(40, 4))
    assert [entry.name for entry in root.list("catalogs/")] == [catalog.file]


def test_an_epoch_that_was_decided_finds_its_queries_whatever_came_after(root: MemoryRoot) -> None:
    """Its catalog is older than the newest, and its files have been merged since."""
    registry = opened(root)
    add(registry, 2)
    committed = registry.publish({})
    add(registry)
    decided = registry.publish({})
    for _ in range(9):
        add(registry)
        registry.publish({})
    registry.forget_before(committed.sequence)

    for engine in (registry, Registry.open(root)):
        engine.forget_before(committed.sequence)
        catalog = engine.published(decided.file, {})
        decision = Decision(Identity("q", 0, "d"), 0, 1, 0, catalog.file, {})
        found = [each.run.qids.tolist() for each in sources_of(root, catalog, decision, "trades")]
        assert sorted(qid for some in found for qid in some) == [1, 2, 3]


def test_while_somebody_reads_the_root_nothing_is_deleted(
    root: MemoryRoot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "EVERY", 2)
    registry, lease = opened(root), Lease.take(root, 0, 60.0)
    for _ in range(20):
        add(registry)
        registry.forget_before(registry.publish({}).sequence)
    kinds = ("catalogs/", "queries/", "registry/", "registry-snapshots/")
    before = [len(root.list(kind)) for kind in kinds]
    assert before[0] == 20

    lease.release(root)
    for _ in range(4):
        add(registry)
        registry.forget_before(registry.publish({}).sequence)

    assert all(len(root.list(kind)) < n_files for kind, n_files in zip(kinds, before, strict=True))


def test_what_was_published_before_a_restart_is_used_again(root: MemoryRoot) -> None:
    registry = opened(root)
    add(registry, 3)
    drop(registry, 2)
    before = registry.publish({})

    again = Registry.open(root)

    assert again.publish({}).index == before.index
    assert answering(root, again) == [1, 3]
    add(again)
    again.record([{"do": "pause", "qids": [1]}])
    assert answering(root, again) == [3, 4]


def test_a_block_is_chosen_by_level_and_by_what_is_dead() -> None:
    def block(n_rows: int, n_dead: int = 0) -> Block:
        class Run:
            n = n_rows

        dead = np.zeros(n_rows, np.bool_)
        dead[:n_dead] = True
        return IndexBlock(Run(), dead)  # type: ignore[arg-type]

    small, middle, large = ([block(n) for _ in range(4)] for n in (3, 15, 60))

    assert publication.due([]) == []
    assert publication.due([*small[:3], *middle[:3], *large[:3]]) == []
    assert publication.due([*large, *middle]) == middle
    assert publication.due([*small, *middle]) == small
    assert publication.due([*small[:3], rotten := block(10, 4), *large]) == [rotten]
    assert publication.due([block(3, 3), *small[:2]]) == []
