"""The last answers are had without reading all that are kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from millrace.engine.local import Feed, LocalRun
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
        monkeypatch.setattr(answers, "read_piece", watched)
        query.results()
        n_whole = len(read)
        read.clear()
        few = query.results(2)
        n_few = len(read)

        assert whole["x"].to_pylist() == list(range(2 * N_EPOCHS))
        assert few.equals(whole.slice(whole.num_rows - 2))
        for last in (0, 1, 3, 17, 2 * N_EPOCHS, 1_000):
            assert query.results(last).equals(whole.slice(max(whole.num_rows - last, 0)))
    assert 1 <= n_few < n_whole
