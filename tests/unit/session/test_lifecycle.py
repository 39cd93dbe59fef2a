"""What outlives what: streams declared anew, closed sessions, readers that were away, threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from millrace.engine.local import Feed, LocalRun
from millrace.errors import PlanError, SourceError, StoreError
from millrace.session import Session, following
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Data


def opened(root: MemoryRoot, schema: str = "a text, i int, x double, ts timestamp") -> Session:
    session = Session(root, threads=False)
    session.stream("t", Feed(schema), time="ts")
    return session


def started(session: Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def rows(**columns: list[Any]) -> pa.Table:
    n_rows = len(next(iter(columns.values())))
    return pa.table({**columns, "ts": pa.array([0] * n_rows, pa.timestamp("us", "UTC"))})


# ---- streams -------------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [False, True])
def test_a_stream_declared_anew_begins_without_the_queries_of_the_old_one(
    *, published: bool
) -> None:
    root = MemoryRoot()
    session = opened(root)
    session.query("SELECT i FROM t WHERE a LIKE '%ACME%'", name="q")
    started(session).feed(t=rows(a=["ACME"], i=[1], x=[0.5]))
    session.standing("q").drop()
    session.drop_stream("t")
    session.stream("t", Feed("i int, a int, ts timestamp"), time="ts")
    again = session.query("SELECT i FROM t WHERE a > 1", name="q")
    if published:
        session.close()
        session = opened(root, "i int, a int, ts timestamp")
        again = session.query("SELECT i FROM t WHERE a > 1", name="q")

    run = started(session) if published else session._run
    assert isinstance(run, LocalRun)
    run.feed(t=rows(i=pa.array([1, 2], pa.int32()), a=pa.array([1, 5], pa.int32())))

    assert again.results().column("i").to_pylist() == [2]
    session.close()


# ---- sessions ------------------------------------------------------------------------------------


def test_a_closed_session_registers_nothing_and_follows_nothing() -> None:
    session = opened(MemoryRoot())
    template = session.template("al", "SELECT i FROM t WHERE x > :low", low="double")
    follower = template.follow(lambda: {"low": [1.0]}, every="10 ms")
    session.close()

    with pytest.raises(StoreError, match="the session is closed"):
        template.insert({"low": [2.0]})
    assert not follower._thread.is_alive()


class Torn(MemoryRoot):
    """Fails once after it has written."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False

    def put_if_absent(self, name: str, data: Data) -> bool:
        written = super().put_if_absent(name, data)
        if self.armed and name.startswith("registry/"):
            self.armed = False
            raise OSError("the directory could not be synced")
        return written


def test_what_is_in_the_log_although_writing_it_failed_stands() -> None:
    root = Torn()
    session = opened(root)
    root.armed = True

    query = session.query("SELECT i FROM t", name="q")

    assert session.query("SELECT i FROM t WHERE i > 5", name="r").id == query.id + 1
    session.close()
    assert sorted(opened(root).engine.registry.population.names) == ["q", "r"]


def test_updates_of_different_columns_at_the_same_time_are_both_taken() -> None:
    session = opened(MemoryRoot())
    template = session.template(
        "al", "SELECT i FROM t WHERE a = :sym AND x > :low", sym="text", low="double"
    )
    [qid] = template.insert({"sym": ["A"], "low": [0.0]}).to_pylist()

    for number in range(20):
        changes: list[dict[str, list[Any]]] = [{"low": [float(number)]}, {"sym": [f"S{number}"]}]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda each: template.update({"_query": [qid], **each}), changes))
        [row] = template.rows().to_pylist()
        assert (row["sym"], row["low"]) == (f"S{number}", float(number))
    session.close()


def test_epochs_without_spark_run_one_at_a_time() -> None:
    """A registration runs an epoch in the thread that registers."""
    session = opened(MemoryRoot())
    query = session.query("SELECT i FROM t", name="q")
    run = started(session)
    stopped = threading.Event()

    def register() -> None:
        number = 0
        while not stopped.is_set():
            session.query(f"SELECT i FROM t WHERE i > {number}")
            number += 1

    thread = threading.Thread(target=register)
    thread.start()
    for number in range(30):
        run.feed(t=rows(a=["x"], i=pa.array([number], pa.int32()), x=[0.0]))
    stopped.set()
    thread.join()

    assert query.results().column("i").to_pylist() == list(range(30))
    session.close()


# ---- readers -------------------------------------------------------------------------------------


def test_a_reader_is_told_of_answers_that_it_missed() -> None:
    session = opened(MemoryRoot())
    query = session.query("SELECT i FROM t", name="q", keep=5)
    run = started(session)
    changes = query.changes(after=-1, timeout=0.1)
    for number in range(2):
        run.feed(t=rows(a=["x"], i=pa.array([number], pa.int32()), x=[0.0]))
    assert next(changes).column("i").to_pylist() == [0, 1]
    for number in range(2, 30):
        run.feed(t=rows(a=["x"], i=pa.array([number], pa.int32()), x=[0.0]))

    with pytest.raises(StoreError, match="are no longer kept") as missed:
        next(changes)

    after = int(missed.value.hint.partition("after=")[2].partition(")")[0])
    left = [x for each in query.changes(after=after, timeout=0) for x in each["i"].to_pylist()]
    assert left == list(range(30))[-len(left) :]
    assert len(left) >= 5
    session.close()


def test_where_nothing_is_kept_no_changes_can_be_awaited() -> None:
    session = opened(MemoryRoot())
    query = session.query("SELECT i FROM t", name="q", keep=0)

    with pytest.raises(PlanError, match='no answers of "q" are kept'):
        next(query.changes(timeout=0))
    session.close()


# ---- functions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "returns", "condition", "expected"),
    [
        (pc.utf8_length, "double", "f(a) > 3", [1]),
        (lambda a: pc.utf8_upper(a).cast(pa.large_string()), "text", "f(a) = 'HELLO'", [1]),
        (lambda a: pc.utf8_length(a).cast(pa.decimal128(12, 0)), "decimal(12,2)", "f(a) > 3", [1]),
        (
            lambda a: pa.array([1_714_521_600] * len(a), pa.timestamp("s", "UTC")),
            "timestamp",
            "f(a) >= '2024-05-01'",
            [1, 2],
        ),
    ],
)
def test_what_a_function_returns_is_of_the_type_it_was_declared_with(
    function: Any, returns: str, condition: str, expected: list[int]
) -> None:
    session = opened(MemoryRoot())
    session.function("f", function, returns=returns)
    query = session.query(f"SELECT i FROM t WHERE {condition}", name="q")

    started(session).feed(t=rows(a=["hello", "ab"], i=pa.array([1, 2], pa.int32()), x=[0.0, 0.0]))

    assert query.results().column("i").to_pylist() == expected
    session.close()


def test_a_function_that_returns_another_type_is_the_trouble_of_its_query() -> None:
    session = opened(MemoryRoot())
    session.function("f", lambda a: a, returns="double")
    wrong = session.query("SELECT i FROM t WHERE f(a) > 1", name="wrong")
    right = session.query("SELECT i FROM t", name="right")

    started(session).feed(t=rows(a=["hello"], i=pa.array([1], pa.int32()), x=[0.0]))

    assert right.results().num_rows == 1
    assert "was declared with double" in str(wrong.failure)
    session.close()


def test_a_function_with_the_name_of_one_of_ours_is_called() -> None:
    session = opened(MemoryRoot())
    session.function(
        "contains",
        lambda text, part: pc.greater_equal(
            pa.array([str(a).lower().find(str(b)) for a, b in zip(text, part, strict=True)]), 0
        ),
        returns="boolean",
    )
    query = session.query("SELECT i FROM t WHERE contains(a, 'hello')", name="q")

    started(session).feed(
        t=rows(a=["hello", "HELLO"], i=pa.array([1, 2], pa.int32()), x=[0.0, 0.0])
    )

    assert query.results().column("i").to_pylist() == [1, 2]
    session.close()


# ---- following -----------------------------------------------------------------------------------


def test_a_table_that_is_being_written_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "TRIES", 1)
    path = tmp_path / "rows.csv"
    path.write_text("low\n1\n2\n")
    read = following._read_file

    def meanwhile(name: str) -> pa.Table:
        table = read(name)
        path.write_text("low\n1\n")
        return table

    session = opened(MemoryRoot())
    template = session.template("al", "SELECT i FROM t WHERE x > :low", low="double")
    monkeypatch.setattr(following, "SETTLE_NS", 10**9)
    with pytest.raises(SourceError, match="is being written"):
        template.follow(str(path))
    monkeypatch.setattr(following, "SETTLE_NS", 0)
    monkeypatch.setattr(following, "_read_file", meanwhile)
    with pytest.raises(SourceError, match="was written while it was read"):
        template.follow(str(path))
    assert len(template) == 0
    session.close()
