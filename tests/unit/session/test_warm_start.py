"""Plans that see history: they answer as if they had been registered so long before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

import millrace
from millrace import failpoints
from millrace.engine import facts
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.engine.warming import lagging
from millrace.failpoints import InjectedCrash
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.testing.mortal_root import MortalRoot

DRAWN = settings.default.max_examples  # type: ignore[union-attr]
SCHEMA = Schema.of("k int, v int, ts timestamp")
START = datetime(2024, 5, 1, tzinfo=UTC)
ORIGIN = int(START.timestamp()) * 1_000_000
SECOND = 1_000_000
DELAY, RETAIN = 2, 30
TEXTS = (
    "SELECT k, count(*) AS n, sum(v) AS total FROM t [RANGE 7 SECONDS] GROUP BY k",
    "SELECT ISTREAM(t.k, t.v, u.v AS w) FROM t [RANGE 5 SECONDS], u [RANGE 5 SECONDS] "
    "WHERE t.k = u.k",
    "SELECT k, v FROM t [ROWS 3]",
    "SELECT k, max(v) AS top FROM t [PARTITION BY k ROWS 2] GROUP BY k",
    "SELECT DISTINCT k FROM t [RANGE 4 SECONDS]",
    "SELECT t.k, names.name FROM t [RANGE 6 SECONDS] JOIN names ON t.v = names.v",
    "SELECT k, v FROM t [RANGE 6 SECONDS] WHERE v > (SELECT avg(v) FROM u [RANGE 6 SECONDS])",
    "SELECT a.k, sum(b.v) AS total FROM t [RANGE 6 SECONDS] AS a, u [RANGE 6 SECONDS] AS b "
    "WHERE a.v = b.v GROUP BY a.k",
)
SPREAD = (3, "always")
Given = tuple[str, int, int, int]
"""A stream, a time, and two values."""


def table(given_rows: list[Given], stream: str) -> pa.Table:
    mine = [each for each in given_rows if each[0] == stream]
    times = [START + timedelta(seconds=each[1]) for each in mine]
    return pa.table(
        {
            "k": pa.array([each[2] for each in mine], pa.int32()),
            "v": pa.array([each[3] for each in mine], pa.int32()),
            "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        }
    )


@dataclass
class World:
    how: Settings
    root: Any = field(default_factory=MemoryRoot)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.session = millrace.Session(self.root, threads=False, settings=self.how)
        for name in ("t", "u"):
            self.session.stream(
                name, Feed(SCHEMA), time="ts", delay=f"{DELAY} seconds", retain=f"{RETAIN} seconds"
            )
        self.session.table("names", {"v": [0, 1, 2], "name": ["zero", "one", "two"]})
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def feed(self, some: list[Given]) -> None:
        self.run.feed(t=table(some, "t"), u=table(some, "u"))

    def frontier(self, text: str) -> int:
        return min(self.marks(text))

    def newest(self, text: str) -> int:
        """Return the watermark of the stream that is ahead of the others."""
        return max(self.marks(text))

    def marks(self, text: str) -> list[int]:
        engine = self.session.engine
        marks = facts.watermarks(engine.manifest, engine.registry.catalog)
        return [mark for name, mark in marks.items() if f" {name} [" in text]

    def settle(self) -> None:
        engine = self.session.engine
        for _ in range(300):
            if not lagging(engine.manifest, engine.registry.catalog):
                return
            self.run.feed()
        raise AssertionError("the plan does not catch up")

    def answers(self, name: str) -> list[dict[str, Any]]:
        found = self.session.standing(name)
        assert isinstance(found, millrace.Query)
        rows: list[dict[str, Any]] = found.results().to_pylist()
        return rows


def micros(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def told(rows: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    ours = ("_epoch", "_backfill", "_late")
    return Counter(tuple(value for name, value in row.items() if name not in ours) for row in rows)


def expected(text: str, epochs: list[list[Given]], since: int, end: int) -> list[dict[str, Any]]:
    """Ask a query that is there from the beginning of the history that the other one sees."""
    world = World(Settings(shards=1, spread="never"))
    world.session.query(text, name="q", keep=100_000)
    clocks, punctual = {"t": -(1 << 60), "u": -(1 << 60)}, []
    for some in epochs:  # a stream that declares no order is judged by the epochs before
        punctual += [each for each in some if each[1] >= clocks[each[0]] - DELAY]
        for name, at, _, _ in some:
            clocks[name] = max(clocks[name], at)
    seen = [each for each in punctual if ORIGIN + each[1] * SECOND >= since]
    # An element of each stream long before, so that it begins at once; it is not looked at.
    first = (since - ORIGIN) // SECOND - 1_000
    world.feed([("t", first, -7, -7), ("u", first, -7, -7)])
    world.feed(seen)
    rows = [
        row
        for row in world.answers("q")
        if -7 not in row.values() and since <= micros(row["_time"]) < end
    ]
    world.session.close()
    return rows


ROWS = st.tuples(
    st.sampled_from(["t", "u"]), st.integers(-1, 3), st.integers(0, 1), st.integers(0, 2)
)
EPOCHS = st.lists(st.lists(ROWS, max_size=6), min_size=3, max_size=8)


@settings(max_examples=max(DRAWN // 2, 1), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.sampled_from(TEXTS),
    EPOCHS,
    st.integers(1, 7),
    st.integers(1, RETAIN),
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([(1, "never"), SPREAD]),
    st.sets(st.integers(1, 8), max_size=2),
)
@example(TEXTS[6], [[("t", 0, 1, 2)], [("t", 0, 0, 2), ("u", 1, 1, 0)], []], 3, 8, 1000, SPREAD,
         set())  # fmt: skip  # the first shard has one of the streams alone
def test_registered_late_with_history_is_as_registered_so_long_before(
    text: str,
    epochs: list[list[Given]],
    birth: int,
    history: int,
    most: int,
    shards: tuple[int, Any],
    restarts: set[int],
) -> None:
    epochs = [
        [(name, 3 * n + at, k, v) for name, at, k, v in some] for n, some in enumerate(epochs, 2)
    ]
    epochs.insert(0, [("t", 0, 0, 0), ("u", 0, 0, 0)])  # all streams have begun
    how = Settings(backfill_rows=most, shards=shards[0], spread=shards[1], merge_at_start=True)
    world, since, mark = World(how), 0, 0

    for number, some in enumerate(epochs):
        if number in restarts:
            world.session.close()
            world.open()
        if number == min(birth, len(epochs) - 1):
            mark = world.frontier(text)
            since = max(mark - history * SECOND, world.newest(text) - RETAIN * SECOND)
            world.session.query(text, name="late", history=history * SECOND, keep=100_000)
        world.feed(some)
    world.settle()

    found, end = world.answers("late"), world.frontier(text)
    assert told(found) == told(expected(text, epochs, since, end))
    assert all(row["_backfill"] == (micros(row["_time"]) < mark) for row in found)
    world.session.close()


@pytest.mark.parametrize(
    "point", ["log.after", "step.computed", "step.written", "commit.before", "commit.after"]
)
@pytest.mark.parametrize("text", TEXTS[:3])
def test_a_crash_in_any_place_changes_nothing(point: str, text: str) -> None:
    how = Settings(backfill_rows=4, shards=2, spread="always", merge_at_start=True, backoff=0)
    epochs: list[list[Given]] = [
        [(name, 2 * n + at, at % 2, n % 3) for at in range(3) for name in ("t", "u")]
        for n in range(10)
    ]

    def lived(crash: int | None) -> list[dict[str, Any]]:
        files = MemoryRoot()
        world = World(how, MortalRoot(files))
        for number, some in enumerate(epochs):
            if number == 5:
                world.session.query(text, name="late", history="12 seconds", keep=100_000)
            if number == crash:
                before = world.session.engine.manifest.epoch
                failpoints.arm(point, "raise")
                with pytest.raises(InjectedCrash):
                    world.feed(some)
                failpoints.disarm()
                world.root.die()
                world.root = MortalRoot(files)
                world.open()
                if world.session.engine.manifest.epoch > before:
                    continue
            world.feed(some)
        world.settle()
        return world.answers("late")

    undisturbed = lived(None)

    assert undisturbed
    assert lived(5) == undisturbed
    assert lived(7) == undisturbed


def test_progress_is_shown() -> None:
    world = World(Settings(shards=1, spread="never", backfill_rows=4))
    world.feed([(name, n, 0, n) for n in range(21) for name in ("t", "u")])
    query = world.session.query(TEXTS[0], name="q", history="10 seconds")

    shown = world.session.execute("SHOW QUERIES")[0].table
    assert shown is not None
    assert shown.to_pylist()[0]["state"] == "backfilling 40%"
    assert "10 seconds before" in query.explain()


def test_several_plans_catch_up_side_by_side() -> None:
    """The first takes all the rows that an epoch reads of history; the others go on too."""
    rows = [(name, n, n % 2, n) for n in range(21) for name in ("t", "u")]
    later = [[("t", n, 0, n), ("u", n, 1, n)] for n in range(21, 25)]

    def lived(most: int) -> list[Counter[tuple[Any, ...]]]:
        world = World(Settings(shards=1, spread="never", backfill_rows=most))
        world.feed(rows)
        for number, text in enumerate(TEXTS[:3]):
            world.session.query(text, name=f"q{number}", history="15 seconds", keep=100_000)
        for some in later:
            world.feed(some)
        world.session.close()
        world.open()
        world.settle()
        return [told(world.answers(f"q{number}")) for number in range(3)]

    assert lived(4) == lived(100_000)
