"""Queries that see history: each row once, before and after, whatever happens in between.

A query that was registered early and sees everything is the oracle for those that come later: of
what it answered, a query with a history answers what came since its birth, and before that the
punctual rows of its history.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import millrace
from millrace import failpoints
from millrace.connectors.sinks.memory import MemorySink
from millrace.engine import facts
from millrace.engine.backfill import cohorts
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.errors import PlanError
from millrace.failpoints import InjectedCrash
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.testing.mortal_root import MortalRoot
from millrace.time import ManualClock

SCHEMA = Schema.of("v int, ts timestamp")
START = datetime(2024, 5, 1, tzinfo=UTC)
SECOND = 1_000_000
DELAY, RETAIN = 3, 20
TEXT = "SELECT v FROM t WHERE v % 2 = 0"
KEPT: tuple[dict[str, str], ...] = (
    {},
    {"retain": "1 hour", "policy": "lazy"},
    {"retain": "1 hour", "policy": "eager"},
)
Row = dict[str, Any]


def rows(given_rows: list[tuple[int, int]]) -> pa.Table:
    times = [START + timedelta(seconds=at) for at, _ in given_rows]
    values = pa.array([value for _, value in given_rows], pa.int32())
    return pa.table({"v": values, "ts": pa.array(times, pa.timestamp("us", tz="UTC"))})


@dataclass
class World:
    """A session on a root that may be closed, or abandoned, and opened again."""

    how: Settings
    root: Any = field(default_factory=MemoryRoot)
    birth: int | None = None
    mark: int | None = None

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.session = millrace.Session(self.root, threads=False, settings=self.how)
        self.session.stream(
            "t", Feed(SCHEMA), time="ts", delay=f"{DELAY} seconds", retain=f"{RETAIN} seconds"
        )
        self.session.query(TEXT, name="early", keep=10_000)
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def register(self, history: int, kept: dict[str, str]) -> None:
        engine = self.session.engine
        self.birth = engine.manifest.epoch + 1
        self.mark = facts.watermarks(engine.manifest, engine.registry.catalog).get("t")
        self.session.query(TEXT, name="late", history=history * SECOND, **kept)  # type: ignore[arg-type]

    def answers(self, name: str) -> list[Row]:
        found = self.session.standing(name)
        assert isinstance(found, millrace.Query)
        answered: list[Row] = found.results().to_pylist()
        return answered

    def settle(self) -> None:
        """Let time pass until nobody is behind."""
        engine = self.session.engine
        for _ in range(200):
            if not any(cohorts(engine.manifest, engine.registry.catalog).values()):
                return
            self.run.feed()
        raise AssertionError("the backfill does not end")


def told(row: Row) -> tuple[Any, ...]:
    return row["v"], row["_time"], row["_late"]


def check(world: World, history: int) -> None:
    early, late = world.answers("early"), world.answers("late")
    since = None if world.mark is None else world.mark - history * SECOND
    expected = [
        row
        for row in early
        if row["_epoch"] >= (world.birth or 0)
        or (
            since is not None
            and not row["_late"]
            and (row["_time"] - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            >= since
        )
    ]
    assert Counter(map(told, late)) == Counter(map(told, expected))
    flagged = [row["_epoch"] for row in late if row["_backfill"]]
    live = [row["_epoch"] for row in late if not row["_backfill"] and not row["_late"]]
    assert not flagged or not live or max(flagged) <= min(live)
    assert all(not row["_late"] for row in late if row["_backfill"])


EPOCHS = st.lists(
    st.lists(st.tuples(st.integers(-6, 4), st.integers(0, 5)), max_size=6), min_size=1, max_size=8
)


def advancing(epochs: list[list[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    """Let time go on from epoch to epoch, so that some rows are late and most are not."""
    return [[(4 * n + at, value) for at, value in some] for n, some in enumerate(epochs, 3)]


@given(
    EPOCHS,
    st.integers(0, 8),
    st.integers(1, RETAIN),
    st.sampled_from([1, 2, 3, 5, 1000]),
    st.sampled_from(KEPT),
    st.sampled_from([(1, "never"), (3, "always"), (2, "auto")]),
    st.sets(st.integers(0, 8), max_size=3),
)
@example([[(0, 0), (0, 2), (0, 4)], [], [(0, 0)]], 1, 5, 1, {}, (1, "never"), set())
def test_registered_late_with_history_is_as_registered_early(
    epochs: list[list[tuple[int, int]]],
    birth: int,
    history: int,
    most: int,
    kept: dict[str, str],
    shards: tuple[int, Any],
    restarts: set[int],
) -> None:
    how = Settings(backfill_rows=most, shards=shards[0], spread=shards[1], merge_at_start=True)
    world = World(how)
    epochs = advancing(epochs)

    for number, some in enumerate(epochs):
        if number in restarts:
            world.session.close()
            world.open()
        if number == min(birth, len(epochs) - 1):
            world.register(history, kept)
        world.run.feed(t=rows(some))
    world.settle()

    check(world, history)
    world.session.close()


POINTS = ("log.after", "route.before", "step.before", "step.computed", "step.written",
          "receipts.after", "commit.before", "commit.after", "epoch.after")  # fmt: skip


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("epoch", [2, 3, 4])
def test_a_crash_in_any_place_changes_nothing(point: str, epoch: int) -> None:
    how = Settings(backfill_rows=3, shards=2, spread="always", merge_at_start=True, backoff=0)
    given_rows = [[(2 * n + at, at) for at in range(4)] for n in range(12)]

    def lived(*, crash: bool) -> dict[str, list[Row]]:
        files = MemoryRoot()
        world = World(how, MortalRoot(files))
        for number, some in enumerate(given_rows):
            if number == 2:
                world.register(15, {})
            if crash and number == epoch:
                before = world.session.engine.manifest.epoch
                failpoints.arm(point, "raise")
                with pytest.raises(InjectedCrash):
                    world.run.feed(t=rows(some))
                failpoints.disarm()
                world.root.die()
                world.root = MortalRoot(files)
                world.open()
                if world.session.engine.manifest.epoch > before:
                    continue
            world.run.feed(t=rows(some))
        world.settle()
        check(world, 15)
        return {name: world.answers(name) for name in ("early", "late")}

    assert lived(crash=True) == lived(crash=False)


# ---- what is said, and what is refused -----------------------------------------------------------


def opened(**how: Any) -> World:
    return World(Settings(shards=1, spread="never", **how))


def test_one_pass_over_history_is_for_all_queries_that_come_together() -> None:
    world = opened(backfill_rows=4)
    world.run.feed(t=rows([(n, n) for n in range(20)]))

    ids = world.session.queries(
        [f"SELECT v FROM t WHERE v >= {n}" for n in range(50)],
        into="many", keep=10_000, history=10 * SECOND,
    )  # fmt: skip

    engine = world.session.engine
    [cohort] = cohorts(engine.manifest, engine.registry.catalog)["t"]
    assert cohort.queries == ((ids[0], ids[-1] + 1),)
    world.settle()
    found = world.session.engine.registry.catalog.feed("many")
    assert found.history == 10 * SECOND


def test_memory_bounds_how_much_of_history_an_epoch_reads() -> None:
    def lived(memory: int) -> tuple[int, list[int]]:
        world = opened()
        world.run.feed(t=rows([(n, n) for n in range(20)]))
        before = world.session.engine.manifest.epoch
        world.session.engine.settings = replace(world.session.engine.settings, memory=memory)
        world.session.query("SELECT v FROM t", name="late", history=10 * SECOND)
        world.settle()
        return world.session.engine.manifest.epoch - before, [
            row["v"] for row in world.answers("late")
        ]

    quick, all_at_once = lived(1 << 30)
    slow, by_and_by = lived(100)

    assert slow > quick + 2
    assert by_and_by == all_at_once


def test_progress_is_shown() -> None:
    world = opened(backfill_rows=4)
    world.run.feed(t=rows([(n, n) for n in range(21)]))
    query = world.session.query("SELECT v FROM t", name="q", history="10 seconds")

    shown = world.session.execute("SHOW QUERIES")[0].table
    assert shown is not None
    [row] = [each for each in shown.to_pylist() if each["name"] == "q"]
    assert row["state"] == "backfilling 40%"
    assert "10 seconds before the birth" in query.explain()
    assert "40% done" in query.explain()
    world.settle()
    assert "done" not in query.explain()


def test_rows_of_a_template_have_its_history() -> None:
    world = opened()
    template = world.session.template(
        "al", "SELECT v FROM t WHERE v = :x", x="int", keep=100, history="10 seconds"
    )
    world.run.feed(t=rows([(n, n % 5) for n in range(20)]))

    world.session.execute("INSERT INTO al VALUES (3)")
    world.run.feed()

    assert template.results().column("v").to_pylist() == [3, 3, 3]
    assert template.results().column("_backfill").to_pylist() == [True, True, True]


def test_sinks_get_what_is_about_history_once_and_first() -> None:
    world = opened(backfill_rows=3)
    world.run.feed(t=rows([(n, n) for n in range(12)]))
    sink = MemorySink(["q"], name="s")
    world.session.sink(sink)
    world.session.query("SELECT v FROM t", name="q", history="10 seconds")

    world.run.feed(t=rows([(12, 12)]))
    world.settle()
    world.run.feed(t=rows([(13, 13)]))
    world.session.engine.delivery.pump()

    found = sink.table("q").to_pylist()
    assert [row["v"] for row in found] == [*range(14)]
    assert [row["_backfill"] for row in found] == [True] * 13 + [False]


def test_history_does_not_expire_while_it_is_read() -> None:
    world = opened(backfill_rows=1, merge_at_start=True)
    for n in range(10):
        world.run.feed(t=rows([(2 * n, 2 * n)]))
    world.register(RETAIN, {})

    for n in range(10, 40):
        world.run.feed(t=rows([(2 * n, 2 * n)]))
    world.settle()

    check(world, RETAIN)


REFUSED = {
    ("21 seconds", "partial = false"): "does not retain that much history",
    ("1 hour", "keep = 5"): "does not retain that much history",
    ("5 seconds", "retain = '5 seconds', policy = 'none'"): 'not kept by policy "none"',
}


@pytest.mark.parametrize(("history", "more"), REFUSED)
def test_what_cannot_be_had_is_refused(history: str, more: str) -> None:
    world = opened()

    with pytest.raises(PlanError, match=REFUSED[history, more]) as refused:
        world.session.execute(
            f"CREATE QUERY q WITH (history = '{history}', {more}) AS SELECT v FROM t"
        )

    assert "^^^" in str(refused.value)


def test_a_partial_history_is_what_is_retained() -> None:
    world = opened()
    world.run.feed(t=rows([(n, n) for n in range(60)]))

    world.session.execute(
        "CREATE QUERY q WITH (history = '1 hour', partial = true) AS SELECT v FROM t"
    )
    world.run.feed()

    values = [row["v"] for row in world.answers("q")]
    assert values == [*range(60 - 1 - DELAY - RETAIN, 60)]


def test_a_query_ends_when_its_time_is_over() -> None:
    clock = ManualClock(start=0)
    with millrace.Session(MemoryRoot(), threads=False, clock=clock) as session:
        session.stream("t", Feed(SCHEMA), time="ts")
        session.execute("CREATE QUERY q WITH (ttl = '1 minute') AS SELECT v FROM t")
        run = session.start()
        assert isinstance(run, LocalRun)
        run.feed()
        assert "q" in session.engine.registry.catalog.feeds

        clock.advance(61 * SECOND)
        run.feed()

        assert "q" not in session.engine.registry.catalog.feeds
