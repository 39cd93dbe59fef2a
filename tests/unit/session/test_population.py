"""A population that comes, changes and goes, through many index files and their merges."""

from __future__ import annotations

import time
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from millrace.connectors.sinks import MemorySink
from millrace.engine import publication
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.index.build import build_index
from millrace.session import Session, Template
from millrace.state.memory_root import MemoryRoot

TEXT = "SELECT k, i FROM s WHERE k = :key AND i >= :low AND i < :high"
PARAMETERS = {"key": "text", "low": "int", "high": "int"}
KEYS = ["a", "b", "c", *(f"key {n}" for n in range(60))]
Constants = tuple[str, int, int]


class Crowd:
    """A session, and what its queries should be."""

    def __init__(self, seed: int) -> None:
        self.random, self.root = Random(seed), MemoryRoot()
        self.queries: dict[int, Constants] = {}
        self.paused: set[int] = set()
        self.open()

    def open(self) -> None:
        settings = Settings(shards=1, spread="never", backoff=0)
        self.session = Session(self.root, threads=False, settings=settings)
        self.session.stream("s", Feed("k text, i int, at timestamp"), time="at")
        self.template: Template = self.session.template("t", TEXT, PARAMETERS)
        self.rows, self.counts = MemorySink(), MemorySink(name="counts", fan_out="counts")
        for sink in (self.rows, self.counts):
            sink.durable = True
            self.session.sink(sink)
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def reopen(self) -> None:
        """End the program, and start another one on the same root."""
        self.session.close()
        self.open()

    def constants(self, n: int) -> list[Constants]:
        rows = []
        for _ in range(n):
            low = self.random.randrange(100)
            rows.append((self.random.choice(KEYS), low, low + self.random.randrange(30)))
        return rows

    def some(self, share: float) -> list[int]:
        return [qid for qid in self.queries if self.random.random() < share]

    def insert(self) -> None:
        rows = self.constants(self.random.choice([1, 3, 60, 300]))
        ids = self.template.insert(_table(rows))
        self.queries |= dict(zip(ids.to_pylist(), rows, strict=True))

    def update(self) -> None:
        ids = self.some(0.1)
        rows = self.constants(len(ids))
        if ids:
            self.template.update(_table(rows).append_column("_query", pa.array(ids, pa.int64())))
            self.queries |= dict(zip(ids, rows, strict=True))

    def delete(self) -> None:
        ids = self.some(self.random.choice([0.02, 0.5]))
        self.template.delete(ids)
        for qid in ids:
            del self.queries[qid]
            self.paused.discard(qid)

    def pause(self) -> None:
        for qid in self.some(0.003):
            self.template.query(qid).pause()
            self.paused.add(qid)

    def resume(self) -> None:
        for qid in [each for each in self.paused if self.random.random() < 0.5]:
            self.template.query(qid).resume()
            self.paused.discard(qid)

    def check(self) -> None:
        """Let rows come, and compare every answer with asking each query."""
        given = [(self.random.choice(KEYS), self.random.randrange(140)) for _ in range(20)]
        before = self.rows.n_rows("t"), self.counts.n_rows("t")
        at = pa.array([0] * len(given), pa.int64()).cast(pa.timestamp("us", "UTC"))
        keys, numbers = zip(*given, strict=True)
        self.run.feed(s=pa.table({"k": keys, "i": pa.array(numbers, pa.int32()), "at": at}))
        self.session.engine.delivery.pump()
        expected = Counter(
            (qid, k, i)
            for qid, (key, low, high) in self.queries.items()
            for k, i in given
            if qid not in self.paused and k == key and low <= i < high
        )

        found, counted = _fresh(self.rows, before[0]), _fresh(self.counts, before[1])

        assert Counter((each["_query"], each["k"], each["i"]) for each in found) == expected
        assert {each["_query"]: each["n_rows"] for each in counted} == Counter(
            qid for qid, _, _ in expected.elements()
        )


def _table(rows: list[Constants]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    types = (pa.string(), pa.int32(), pa.int32())
    arrays = [pa.array(each, kind) for each, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, names=list(PARAMETERS))


def _fresh(sink: MemorySink, n_seen: int) -> list[dict[str, object]]:
    if sink.n_rows("t") == n_seen:
        return []
    rows: list[dict[str, object]] = sink.table("t").slice(n_seen).to_pylist()
    return rows


@pytest.mark.parametrize("on_the_spot", [0, 500, 20_000])
def test_answers_are_those_of_the_queries_that_stand(
    on_the_spot: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "ROWS_ON_THE_SPOT", on_the_spot)
    monkeypatch.setattr(publication, "SMALLEST_LEVEL", 32)
    crowd = Crowd(seed=on_the_spot)

    for step in range(30):
        names = ["insert", "insert", "update", "delete", "pause", "resume"]
        for name in crowd.random.sample(names, 3):
            getattr(crowd, name)()
        if step % 13 == 12:
            crowd.reopen()
        if step % 5 == 4:
            time.sleep(0.02)  # a merge in its own thread may end
        crowd.check()
    crowd.session.close()


def test_a_query_is_found_while_its_file_is_being_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "ROWS_ON_THE_SPOT", 0)
    monkeypatch.setattr(publication, "SMALLEST_LEVEL", 2)
    built = build_index

    def slowly(*args: object) -> object:
        time.sleep(0.03)
        return built(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(publication, "build_index", slowly)
    crowd = Crowd(seed=1)

    for _ in range(10):
        crowd.insert()
        crowd.delete()
        crowd.update()
        crowd.check()
    crowd.session.close()
