"""Answers are the same however they are kept, and the last are had without reading all."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from millrace.engine.feeds import POLICIES
from millrace.engine.local import Feed, LocalRun
from millrace.engine.stores import answer_store
from millrace.reading import answers
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.state.run import read_piece

N_EPOCHS = 40


@pytest.mark.parametrize("merging", [False, True])
def test_the_last_answers_are_the_last_of_all(
    monkeypatch: pytest.MonkeyPatch, *, merging: bool
) -> None:
    read: list[Any] = []

    def watched(root: Any, piece: Any, **more: Any) -> Any:
        read.append(piece)
        return read_piece(root, piece, **more)

    with Session(MemoryRoot(), threads=False) as session:
        session.change_settings({"merging": merging})
        session.stream("s", Feed("x bigint, ts timestamp"), time="ts")
        query = session.query("SELECT x FROM s", name="q", keep=1_000)
        run = session.start()
        assert isinstance(run, LocalRun)
        for epoch in range(N_EPOCHS):
            times = [2 * epoch, 2 * epoch + 1]
            run.feed(s=pa.table({"x": times, "ts": pa.array(times, pa.timestamp("us", "UTC"))}))
        whole = query.results()
        store = session.engine.manifest.stores[answer_store(query.feed, "rows")]
        n_whole = sum(len(each.pieces) for each in store.runs)
        monkeypatch.setattr(answers, "read_piece", watched)
        few = query.results(2)
        n_few = len(read)

        assert whole["x"].to_pylist() == list(range(2 * N_EPOCHS))
        assert few.equals(whole.slice(whole.num_rows - 2))
        for last in (0, 1, 3, 17, 2 * N_EPOCHS, 1_000):
            assert query.results(last).equals(whole.slice(max(whole.num_rows - last, 0)))
    assert 1 <= n_few < n_whole


ASKED = [
    "SELECT x FROM s WHERE tag = 'b'",
    "SELECT tag, x FROM s WHERE y > 20 AND x IS NOT NULL",
    "SELECT 1 AS one FROM s WHERE y % 3 = 0",
    "SELECT y, y AS again FROM s",
    "SELECT 2 * x AS twice, tag FROM s WHERE x < 30",
]


@pytest.mark.parametrize("text", ASKED)
def test_answers_do_not_tell_how_they_are_kept(text: str) -> None:
    with Session(MemoryRoot(), threads=False) as session:
        session.stream(
            "s",
            Feed("x bigint, y int, tag text, ts timestamp"),
            time="ts",
            delay=1_000,
            retain="1 hour",
        )
        queries = [
            session.query(text, name=each, retain="1 hour", policy=each) for each in POLICIES
        ]
        run = session.start()
        assert isinstance(run, LocalRun)
        for epoch in range(N_EPOCHS):
            numbers = [3 * epoch, 3 * epoch + 1, 3 * epoch + 2]
            times = [
                10 * epoch + 5,
                10 * epoch + epoch % 7 - 12,
                10 * epoch + 5,
            ]  # some tie, or lag
            rows = {
                "x": [None if each % 7 == 0 else each for each in numbers],
                "y": pa.array(numbers, pa.int32()),
                "tag": ["abc"[each % 3] for each in numbers],
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
            }
            run.feed(s=pa.table(rows))
            if epoch % 13:
                continue
            for begin, end in ((None, None), ("NOW - 35 us", None), (20, 150), (150, 20), (0, 1)):
                first, *others = (each.results(begin=begin, end=end) for each in queries)
                assert all(each.equals(first) for each in others), (epoch, begin, end)
                n_last = [each.results(3, begin=begin, end=end) for each in queries]
                assert all(each.equals(first.slice(max(len(first) - 3, 0))) for each in n_last)
