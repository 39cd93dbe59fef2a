"""Answers that are kept: until all sinks have them, and the newest of each feed for readers."""

from __future__ import annotations

import math
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet
import pytest

from millrace.connectors.sinks import MemorySink, ParquetSink
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision, Identity
from millrace.engine.keeping import FEWEST_RUNS, Kept, kept_merges, old_runs, passed_runs
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.engine.streams import StreamSpec
from millrace.plan.nodes import select
from millrace.schema import Schema
from millrace.session import Session
from millrace.session.query import Query
from millrace.state.manifest import Manifest, StoreSpec, StoreState
from millrace.state.memory_root import MemoryRoot
from millrace.state.merge import MergeInput, MergeStep
from millrace.state.names import COMMITS
from millrace.state.piece import Piece
from millrace.testing.registering import add_feed

SCHEMA = Schema.of("x bigint, ts timestamp")
STORE = "results/q.1"


def catalog(keep: int) -> Catalog:
    stream = StreamSpec("s", SCHEMA, "ts", 5, retain=100, idle=10)
    made = Catalog().apply({"do": "add stream", "stream": stream.to_json()})
    return made.apply(add_feed("q", select("s", "x"), schema=SCHEMA, keep=keep))


def manifest(n_epochs: int = 3, n_shards: int = 3) -> Manifest:
    """Return what is there after epochs of which each shard wrote a run of one row."""
    state = StoreState(StoreSpec(SCHEMA.to_arrow(), queue=True))
    for epoch in range(n_epochs):
        for _ in range(n_shards):
            piece = Piece(f"commits/{epoch}", "r", 0, 1, (1, 5), (1, 6), 5, 5, 50)
            state = state.with_run([piece], epoch)
    return Manifest(n_epochs - 1, stores={STORE: state})


def decision(*merges: MergeStep) -> Decision:
    return Decision(Identity("spark", 3, "d"), 0, 1, 1_000, "c", {}, merges=merges)


@pytest.mark.parametrize(("needed", "n_gone"), [(None, 9), (0, 0), (1, 3), (9, 9)])
def test_answers_go_when_every_sink_has_passed_them(needed: int | None, n_gone: int) -> None:
    gone = old_runs(manifest(), catalog(0), lambda _feed, _form: needed, decision())

    assert gone == ({STORE: tuple(range(n_gone))} if n_gone else {})


@pytest.mark.parametrize(
    ("keep", "left"), [(0, []), (1, [2]), (3, [2]), (4, [1, 2]), (7, [0, 1, 2]), (99, [0, 1, 2])]
)
def test_the_newest_answers_are_kept_for_readers(keep: int, left: list[int]) -> None:
    before = manifest()

    gone = old_runs(before, catalog(keep), lambda _feed, _form: None, decision())

    kept = [run for run in before.stores[STORE].runs if run.id not in gone.get(STORE, ())]
    assert sorted({run.epoch for run in kept}) == left
    assert sum(run.rows for run in kept) >= min(keep, 9)


def test_what_sinks_await_is_neither_old_nor_settled() -> None:
    found = passed_runs(manifest(), catalog(5), lambda _feed, _form: 2)

    runs = manifest().stores[STORE].runs
    assert found == {STORE: Kept(old=runs[:3], settled=runs[3:6], keep=5)}


def test_a_run_that_the_epoch_merges_is_not_dropped() -> None:
    before = manifest()
    some = before.stores[STORE].runs[1:3]
    step = MergeStep(STORE, 9, 1, tuple(MergeInput(run.id, run.pieces) for run in some))

    gone = old_runs(before, catalog(0), lambda _feed, _form: None, decision(step))

    assert gone == {STORE: (0, 3, 4, 5, 6, 7, 8)}


def test_of_a_query_that_was_declared_anew_the_old_answers_are_not_kept() -> None:
    dropped = catalog(0).apply({"do": "drop feed", "name": "q"})
    anew = dropped.apply(add_feed("q", select("s", "x"), schema=SCHEMA, keep=99))

    gone = old_runs(manifest(), anew, lambda _feed, _form: None, decision())

    assert gone == {STORE: tuple(range(9))}


@pytest.mark.parametrize("keep", [100, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("roll", [None, 1, 40])
def test_many_small_epochs_are_kept_in_few_files(
    keep: int, roll: int | None, tmp_path: Path
) -> None:
    """400 epochs of none to three answers: each answer is there once, under its own epoch.

    A sink, if there is one, settles every `roll` epochs what it has got.
    """
    random, root = Random(f"{keep} {roll}"), MemoryRoot()
    answers: list[tuple[int, int]] = []
    for start in range(4):  # and then started again
        session = Session(root, threads=False, settings=Settings(spread="never"))
        session.stream("s", Feed("x bigint, ts timestamp"), time="ts")
        query = session.query("SELECT x FROM s", name="q", keep=keep)
        if roll is not None:
            session.sink(ParquetSink(tmp_path, roll_epochs=roll, roll_every=None))
        run = session.start()
        assert isinstance(run, LocalRun)
        for epoch in range(100 * start, 100 * (start + 1)):
            some = [random.randrange(1_000) for _ in range(random.randrange(4))]
            times = pa.array([epoch * 1_000_000] * len(some), pa.timestamp("us", tz="UTC"))
            run.feed(s=pa.table({"x": pa.array(some, pa.int64()), "ts": times}))
            answers += [(session.engine.manifest.epoch, x) for x in sorted(some)]
            session.engine.delivery.pump()
            if epoch % 37 == 36:
                check(query, answers, keep)
                check_few(session.engine.manifest, keep, n_awaited=roll or 0)
        another = MemorySink("q", name="new")
        session.sink(another)
        session.engine.delivery.pump()
        given = list(zip(*told(another.table("q")), strict=True)) if another.n_rows("q") else []
        assert given == answers[len(answers) - len(given) :], "a new sink gets the newest"
        session.close()
    if roll is not None:
        delivered = pyarrow.parquet.read_table(tmp_path / "q")
        assert delivered.sort_by("_epoch").column("x").to_pylist() == [x for _, x in answers]


def told(table: pa.Table) -> tuple[list[int], list[int]]:
    return table.column("_epoch").to_pylist(), table.column("x").to_pylist()


def check(query: Query, answers: list[tuple[int, int]], keep: int) -> None:
    """Compare what is kept with the newest of all answers."""
    found = list(zip(*told(query.results()), strict=True))
    assert found == answers[len(answers) - len(found) :]
    assert len(found) >= min(keep, len(answers))
    if answers:
        after = found[len(found) // 2][0]
        changes = list(query.changes(after=after, timeout=0))
        since = [x for each in changes for x in each.column("x").to_pylist()]
        assert since == [x for epoch, x in answers if epoch > after]


def check_few(manifest: Manifest, keep: int, n_awaited: int) -> None:
    """Check the bounds that `keeping` promises."""
    state = manifest.stores["results/q.1"]
    n_levels = 1 + int(math.log(max(keep, 2), FEWEST_RUNS))
    assert state.rows <= keep * 1.25 + 3 + 3 * n_awaited
    assert len(state.runs) <= FEWEST_RUNS * (n_levels + 1) + n_awaited
    held = {piece.file for run in state.runs for piece in run.pieces}
    assert len([each for each in held if each.startswith(COMMITS)]) <= 64 + FEWEST_RUNS + n_awaited


def test_at_most_so_many_merges_are_done_in_an_epoch_and_all_queues_get_their_turn() -> None:
    state, made = manifest(40, 1).stores[STORE], catalog(0)
    for at in range(200):
        made = made.apply(add_feed(f"q{at}", select("s", "x"), schema=SCHEMA, keep=1_000))
    numbers = {feed.name: feed.number for feed in made.feeds.values()}
    stores = {f"results/{name}.{numbers[name]}": state for name in numbers}
    before = Manifest(39, stores=stores)

    turns = []
    while steps := kept_merges(before, made, lambda _feed, _form: None):
        assert len(steps) <= 64
        turns += [each.store for each in steps]
        left = {name: each for name, each in before.stores.items() if name not in turns}
        before = Manifest(39, stores=left)

    assert sorted(turns) == sorted(name for name in stores if name != f"results/q.{numbers['q']}")
