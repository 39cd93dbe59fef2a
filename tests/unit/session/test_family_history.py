"""Templates of plans that see history: each query answers as one of its own with that history."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, settings
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

SCHEMA = Schema.of("k int, v int, ts timestamp")
START = datetime(2024, 5, 1, tzinfo=UTC)
RETAIN, HISTORY = 30, 12
END = 500
TEXTS = (
    "SELECT k, count(*) AS n, sum(v) AS total FROM t [RANGE 7 SECONDS] GROUP BY k "
    "HAVING count(*) > :x",
    "SELECT k, v FROM t [RANGE :x SECONDS]",
    "SELECT ISTREAM(t.k, t.v, u.v AS w) FROM t [RANGE 5 SECONDS], u [RANGE 5 SECONDS] "
    "WHERE t.k = u.k AND t.v >= :x",
    "SELECT k, v FROM t [ROWS 3] WHERE v > :x",
    "SELECT k, max(v) AS top FROM t [PARTITION BY k ROWS 2] GROUP BY k HAVING max(v) >= :x",
    "SELECT DISTINCT k FROM t [RANGE 4 SECONDS] WHERE v >= :x",
    "SELECT t.k, names.name FROM t [RANGE 6 SECONDS] JOIN names ON t.v = names.v WHERE t.k = :x",
    "SELECT count(*) AS n, sum(v) AS total FROM t [RANGE 6 SECONDS] WHERE k = :x",
    "SELECT names.name, t.k FROM names LEFT JOIN t [RANGE 6 SECONDS] ON t.v = names.v AND t.k = :x",
    "SELECT t.k, (SELECT count(*) FROM names WHERE v > 0) AS n FROM t [RANGE 6 SECONDS] "
    "WHERE t.v > :x",
)
VALUES = (0, 1, 2)
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
CRASHES = [("log.after", 6), ("step.written", 9), ("commit.before", 6), ("commit.after", 9)]
Given = tuple[str, int, int, int]
"""A stream, a time, and two values."""
Told = Counter[tuple[Any, ...]]


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
class Trial:
    """A template with a history, and, unless `compared` is False, each query also by itself."""

    text: str
    how: Settings
    root: Any = field(default_factory=MemoryRoot)
    compared: bool = True
    ids: list[int] = field(default_factory=list)
    ended: dict[int, Told] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.session = millrace.Session(self.root, threads=False, settings=self.how)
        for name in ("t", "u"):
            self.session.stream(
                name, Feed(SCHEMA), time="ts", delay="2 seconds", retain=f"{RETAIN} seconds"
            )
        self.session.table("names", {"v": [0, 1, 2], "name": ["zero", "one", "two"]})
        self.template = self.session.template(
            "many", self.text, x="int", keep=100_000, history=f"{HISTORY} seconds"
        )
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def feed(self, some: list[Given]) -> None:
        self.run.feed(t=table(some, "t"), u=table(some, "u"))

    def insert(self, *values: int) -> None:
        """Insert queries; if they are compared, register each by itself in the same epoch."""
        found = self.template.insert({"x": list(values)}).to_pylist()
        self.ids += found
        for value, qid in zip(values, found, strict=True) if self.compared else ():
            text = self.text.replace(":x", str(value))
            self.session.query(text, name=f"alone{qid}", keep=100_000, history=f"{HISTORY} seconds")

    def drop(self, qid: int) -> None:
        self.ended[qid] = told(self.alone(qid))
        self.template.delete([qid])
        self.session.standing(f"alone{qid}").drop()

    def alone(self, qid: int) -> pa.Table:
        query = self.session.standing(f"alone{qid}")
        assert isinstance(query, millrace.Query)
        assert query.failure is None, query.failure
        return query.results()

    def explained(self) -> str:
        return self.session.execute("EXPLAIN QUERY many")[0].message

    def of_family(self, qid: int) -> pa.Table:
        answers = self.template.results()
        return answers.filter(pc.equal(answers.column("_query"), qid))

    def settle(self) -> None:
        engine = self.session.engine
        for _ in range(500):
            if not lagging(engine.manifest, engine.registry.catalog):
                return
            self.run.feed()
        raise AssertionError("the family does not catch up")

    def change_table(self) -> None:
        """Change a table if nobody is in the past, where it may be seen at different instants."""
        self.settle()
        engine = self.session.engine
        if not facts.besides(engine.manifest, engine.registry.catalog):
            self.session.standing_table("names").insert({"v": [1], "name": ["uno"]})

    def finish(self, begin: int) -> None:
        """Let everybody catch up, those too that waited for others, and go on for a while."""
        for at in range(begin, begin + 24, 3):
            self.settle()
            self.feed([(name, at + k + v, k, v) for name in "tu" for k in (0, 1) for v in VALUES])
        for at in (END, END + 10):
            self.feed([(name, at, 9, 9) for name in "tu"])
            self.settle()
        engine = self.session.engine
        assert not facts.besides(engine.manifest, engine.registry.catalog)

    def check(self) -> None:
        for qid in self.ids:
            found = told(self.of_family(qid))
            if qid in self.ended:  # beside each other they may be at different instants
                assert self.ended[qid] <= found or found <= self.ended[qid]
            else:
                assert found == told(self.alone(qid)), qid


def told(answers: pa.Table) -> Told:
    names = [each for each in answers.column_names if each not in ("_epoch", "_query", "_late")]
    rows = answers.select(sorted(names)).to_pylist()
    last = START + timedelta(seconds=END)
    return Counter(tuple(row.values()) for row in rows if row["_time"] < last)


ROWS = st.tuples(
    st.sampled_from(["t", "u"]), st.integers(-1, 3), st.integers(0, 1), st.integers(0, 2)
)
EPOCHS = st.lists(st.lists(ROWS, max_size=6), min_size=4, max_size=9)
BIRTHS = st.lists(
    st.tuples(st.integers(1, 8), st.sampled_from(VALUES), st.none() | st.integers(2, 12)),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=max(DRAWN // 3, 1), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.sampled_from(TEXTS),
    EPOCHS,
    BIRTHS,
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([(1, "never"), (3, "always")]),
    st.sets(st.integers(1, 8), max_size=2),
    st.none() | st.integers(1, 8),
)
def test_each_query_answers_as_it_would_alone(
    text: str,
    epochs: list[list[Given]],
    births: list[tuple[int, int, int | None]],
    most: int,
    shards: tuple[int, Any],
    restarts: set[int],
    change: int | None,
) -> None:
    epochs = [
        [(name, 3 * n + at, k, v) for name, at, k, v in some] for n, some in enumerate(epochs, 2)
    ]
    epochs.insert(0, [("t", 0, 0, 0), ("u", 0, 0, 0)])  # all streams have begun
    how = Settings(backfill_rows=most, shards=shards[0], spread=shards[1], merge_at_start=True)
    trial = Trial(text, how)

    ends: list[tuple[int, int]] = []
    for number, some in enumerate(epochs):
        if number in restarts:
            trial.session.close()
            trial.open()
        for end, qid in ends:
            if end == number:
                trial.drop(qid)
        for birth, value, life in births:
            if birth == number:
                trial.insert(value)
                ends.append((number + (life or 100), trial.ids[-1]))
        if number == change:
            trial.change_table()
        trial.feed(some)
    trial.finish(3 * len(epochs) + 6)

    trial.check()
    trial.session.close()


def lived(text: str, point: str = "", crash: int | None = None) -> list[Told]:
    """Run a family whose queries come one after another, with a crash in one of the epochs."""
    how = Settings(backfill_rows=4, shards=2, spread="always", merge_at_start=True, backoff=0)
    files = MemoryRoot()
    trial = Trial(text, how, MortalRoot(files), compared=crash is None)
    for number in range(12):
        some = [(name, 2 * number + at, at % 2, number % 3) for at in range(3) for name in "tu"]
        if number in (5, 6, 8):
            trial.insert(number % 2, 1)
        if number == crash:
            before = trial.session.engine.manifest.epoch
            failpoints.arm(point, "raise")
            with pytest.raises(InjectedCrash):
                trial.feed(some)
            failpoints.disarm()
            trial.root.die()
            trial.root = MortalRoot(files)
            trial.open()
            if trial.session.engine.manifest.epoch > before:
                continue
        trial.feed(some)
    trial.finish(30)
    if trial.compared:
        trial.check()
    return [told(trial.of_family(qid)) for qid in trial.ids]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "crashes"), [(TEXTS[0], CRASHES[::2]), (TEXTS[6], CRASHES[1::2])])
def test_a_crash_in_any_place_changes_nothing(text: str, crashes: list[tuple[str, int]]) -> None:
    undisturbed = lived(text)

    assert all(undisturbed)
    for point, epoch in crashes:
        assert lived(text, point, epoch) == undisturbed, point


def test_new_queries_run_beside_the_others_and_then_with_them() -> None:
    trial = Trial(TEXTS[0], Settings(backfill_rows=4, shards=1, spread="never"))
    trial.feed([(name, at, at % 2, at % 3) for at in range(20) for name in "tu"])
    trial.insert(1)
    trial.settle()
    trial.feed([("t", 24, 0, 1), ("u", 24, 0, 1)])
    trial.insert(0)
    trial.feed([("t", 25, 1, 1), ("u", 25, 1, 1)])
    engine = trial.session.engine

    assert facts.besides(engine.manifest, engine.registry.catalog).keys() == {"many"}
    assert "backfilling" in trial.explained()
    trial.finish(30)
    assert "backfilling" not in trial.explained()
    trial.check()
    beside = [name for name in engine.manifest.stores if "/beside/" in name]
    assert beside
    assert not any(engine.manifest.stores[name].runs for name in beside)


def test_queries_that_are_resumed_see_no_history_again() -> None:
    trial = Trial(TEXTS[0], Settings(shards=1, spread="never"))
    trial.feed([(name, at, 0, 1) for at in range(20) for name in "tu"])
    trial.insert(0)
    trial.finish(30)
    told_before = told(trial.of_family(trial.ids[0]))
    engine, catalog = trial.session.engine, trial.session.engine.registry.catalog
    engine.manifest.facts["births"].pop(str(catalog.feeds["many"].number))  # as if suspended
    engine.manifest.facts["frontiers"].pop(str(catalog.feeds["many"].number))
    trial.feed([("t", END + 50, 0, 1), ("u", END + 50, 0, 1)])
    trial.settle()

    assert told(trial.of_family(trial.ids[0])) == told_before
