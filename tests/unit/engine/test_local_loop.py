"""The loop without Spark: pushed rows count once, whatever it dies of in between."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pytest

import millrace
from millrace import failpoints
from millrace.connectors.pushed import Batch, Pushed, PushLog, folder_of
from millrace.engine.local_loop import LoopBackend
from millrace.errors import PlanError
from millrace.session import Session
from millrace.state.posix_root import PosixRoot

COLUMNS = "n bigint, ts timestamp"


def opened(root: Path) -> Session:
    session = Session(PosixRoot(root, durable=False), spark=LoopBackend(), threads=False)
    session.stream("s", Pushed(), time="ts", schema=COLUMNS)
    session.query("SELECT n FROM s", name="all", keep=1_000)
    return session


def push(session: Session, *numbers: int) -> None:
    spec = session.streams["s"]
    stamps = pa.array([number * 1_000_000 for number in numbers], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"n": pa.array(numbers, pa.int64()), "ts": stamps})
    PushLog(session.engine.root, folder_of("s", spec.born)).append([Batch(rows, "push/")])


def numbers_of(session: Session, least: int) -> list[int]:
    query = session.standing("all")
    assert isinstance(query, millrace.Query)
    deadline = time.monotonic() + 30
    while (found := query.results()).num_rows < least:
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)
    values: list[int] = found["n"].to_pylist()
    return values


@pytest.mark.parametrize(
    "place", ["log.before", "log.after", "receipts.after", "commit.before", "commit.after"]
)
def test_rows_count_once_if_an_epoch_fails(tmp_path: Path, place: str) -> None:
    with opened(tmp_path) as session:
        session.start()
        push(session, 1, 2)
        numbers_of(session, 2)
        failpoints.arm(place, "fail")
        push(session, 3)
        assert numbers_of(session, 3) == [1, 2, 3]
        assert failpoints.passed(place) > 0
        failpoints.disarm()

    with opened(tmp_path) as again:
        again.start()
        push(again, 4)

        assert numbers_of(again, 4) == [1, 2, 3, 4]


def test_a_stream_of_files_is_read(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.ndjson").write_text('{"n": 1, "ts": "1970-01-01T00:00:01Z"}\n')

    with Session(tmp_path / "root", spark=LoopBackend(), threads=False) as session:
        source = millrace.Files(str(tmp_path / "in" / "*.ndjson"))
        session.stream("s", source, time="ts", schema=COLUMNS)
        session.query("SELECT n FROM s", name="all", keep=1_000)
        session.start()
        numbers_of(session, 1)
        (tmp_path / "in" / "b.ndjson").write_text('{"n": 2, "ts": "1970-01-01T00:00:02Z"}\n')

        assert numbers_of(session, 2) == [1, 2]


def test_what_only_spark_reads_is_refused(tmp_path: Path) -> None:
    with (
        Session(tmp_path / "root", spark=LoopBackend(), threads=False) as session,
        pytest.raises(PlanError, match='"rate" is not read without Spark'),
    ):
        session.execute("CREATE STREAM s (v bigint, ts timestamp) TIMESTAMP BY ts FROM rate()")
