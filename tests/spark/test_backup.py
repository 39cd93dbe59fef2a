"""A root that runs on Spark is copied while it runs; the copy goes on from Spark's own offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import millrace
from millrace.reading.backup import backup, opened_target, restore
from millrace.testing.spark_rows import COLUMNS, wait_until, write_files

AwaitRows = Callable[[millrace.Session, int], None]


def started(session: millrace.Session, files: Path) -> tuple[millrace.Query, millrace.Query]:
    """Let a session answer from files: each row, and a count that remembers."""
    source = millrace.Files(str(files))
    session.stream("trades", source, schema=COLUMNS, time="ts", delay="1 minute")
    text = "SELECT count(*) AS n FROM trades [RANGE 1 day]"
    queries = (
        session.query("SELECT number FROM trades", name="each", keep=10_000),
        session.query(text, name="counted", keep=10_000),
    )
    session.start()
    return queries


@contextmanager
def coming(files: Path) -> Iterator[list[int]]:
    """Write a file of ten rows now and then; the last of the numbers is how many there are."""
    cuts, over = [0, 10], threading.Event()
    write_files(files, "parquet", cuts)

    def write() -> None:
        while not over.wait(0.3):
            cuts.append(cuts[-1] + 10)
            write_files(files, "parquet", cuts[-2:])

    writing = threading.Thread(target=write)
    writing.start()
    try:
        yield cuts
    finally:
        over.set()
        writing.join()


def test_a_copy_made_while_spark_runs_goes_on_without_loss_or_repetition(
    sessions: Any, tmp_path: Path, await_rows: AwaitRows
) -> None:
    files, copy, again = tmp_path / "in", tmp_path / "copy", tmp_path / "again"
    first = sessions.open()
    with coming(files) as cuts:
        started(first, files)
        wait_until(lambda: first.engine.manifest.epoch >= 1)
        with opened_target(copy) as target:
            epoch = backup(sessions.root, target)
        wait_until(lambda: first.engine.manifest.epoch > epoch)
    await_rows(first, cuts[-1])
    first.close()

    restore(copy, again)
    second = sessions.open(again)
    at_first = second.engine.manifest.epoch
    each, counted = started(second, files)
    await_rows(second, cuts[-1])
    write_files(files, "parquet", [cuts[-1], cuts[-1] + 100])  # time passes all that was there
    await_rows(second, cuts[-1] + 100)
    wait_until(lambda: cuts[-1] in counted.results()["n"].to_pylist())

    assert at_first == epoch
    assert (copy / "checkpoint" / "offsets" / f"{epoch}").exists()
    assert not (copy / "checkpoint" / "offsets" / f"{epoch + 1}").exists()
    assert sorted(each.results()["number"].to_pylist()) == [*range(cuts[-1] + 100)]
