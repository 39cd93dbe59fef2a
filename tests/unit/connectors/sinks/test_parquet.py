"""Parquet files: the same bytes after any crash, each row once, whoever takes the files away."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from millrace import failpoints
from millrace.connectors.sinks import Backlog, ParquetSink, Span
from millrace.connectors.sinks import parts as parts_module
from millrace.engine.delivery import Delivery
from millrace.errors import FencedError, PlanError
from millrace.testing.result_writer import ResultWriter
from millrace.time import ManualClock

POINTS = [point for point in failpoints.POINTS if point.startswith("deliver.")]
QUERIES = ("big", "small")
N_EPOCHS = 9


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm()


def alive() -> None:
    pass


def files(directory: Path) -> dict[str, bytes]:
    """Read every file below `directory`, hidden ones too."""
    found = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def begin(
    writer: ResultWriter,
    directory: Path,
    *,
    roll_epochs: int | None = 2,
    roll_rows: int | None = None,
) -> Delivery:
    """Start an engine as after a crash: it has the root and the directory, nothing else."""
    sink = ParquetSink(
        directory, QUERIES, roll_every=None, roll_epochs=roll_epochs, roll_rows=roll_rows
    )
    delivery = Delivery(writer.root, alive, [sink], ManualClock(), threads=False)
    delivery.committed(writer.manifest)
    return delivery


def commit_next(writer: ResultWriter, n_shards: int = 1) -> None:
    """Commit an epoch: the one query has rows in most, the other in a few."""
    epoch = writer.manifest.epoch + 1
    wanted = [("big", epoch % 8 != 6), ("small", epoch % 6 == 0)]
    writer.commit(*(query for query, has in wanted if has), n_shards=n_shards)


def deliver_all(writer: ResultWriter, directory: Path, collected: Path | None = None) -> int:
    """Commit and deliver, beginning again after each crash; return how many there were.

    With `collected`, a consumer takes every finished file away whenever it can.
    """
    n_crashes = 0
    delivery = begin(writer, directory)
    while writer.manifest.epoch < N_EPOCHS:
        commit_next(writer)
        delivery.committed(writer.manifest)
        try:
            delivery.pump()
        except failpoints.InjectedCrash:
            n_crashes += 1
            _collect(directory, collected)
            delivery = begin(writer, directory)
            delivery.pump()
        _collect(directory, collected)
        delivery.committed(writer.drop_consumed(delivery))
    delivery.pump()
    assert delivery.drain(1)
    _collect(directory, collected)
    return n_crashes


def _collect(directory: Path, collected: Path | None) -> None:
    if collected is None:
        return
    for path in directory.glob("*/part-*.parquet"):
        target = collected / path.relative_to(directory)
        target.parent.mkdir(parents=True, exist_ok=True)
        assert not target.exists(), f"{path} appeared twice"
        path.rename(target)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    directory = tmp_path_factory.mktemp("undisturbed")
    assert deliver_all(ResultWriter(), directory) == 0
    return files(directory)


def test_every_row_is_there_once(tmp_path: Path) -> None:
    writer = ResultWriter()
    deliver_all(writer, tmp_path)

    table = ds.dataset(tmp_path / "big", format="parquet").to_table()
    epochs = table["_epoch"].to_pylist()
    prices = table["price"].to_pylist()
    assert table.schema.names == ["symbol", "price", "_time", "_late", "_epoch"]
    assert epochs == sorted(epochs)
    assert len(set(prices)) == len(prices)
    assert set(epochs) == {0, 2, 4, 8}
    assert table.num_rows == 5 * len(set(epochs))


@pytest.mark.parametrize("taken_away", [False, True])
@pytest.mark.parametrize("after", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_a_crash_at_any_point_leaves_the_same_bytes(
    tmp_path: Path, undisturbed: dict[str, bytes], point: str, after: int, *, taken_away: bool
) -> None:
    directory, collected = tmp_path / "made", tmp_path / "collected"
    failpoints.arm(point, "raise", after=after)

    n_crashes = deliver_all(ResultWriter(), directory, collected if taken_away else None)

    assert n_crashes == 1
    assert files(collected if taken_away else directory) == undisturbed
    assert taken_away <= (files(directory) == {})


def crash_and_deliver(directory: Path, points: tuple[str, ...]) -> dict[str, bytes]:
    """Let as many engines as there are points crash there, and one more finish."""
    writer = ResultWriter()
    for _ in range(6):
        commit_next(writer)
    for point in points:
        failpoints.arm(point, "raise")
        with pytest.raises(failpoints.InjectedCrash):
            begin(writer, directory).pump()
        failpoints.disarm()
    assert begin(writer, directory).drain(1)
    return files(directory)


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return crash_and_deliver(tmp_path_factory.mktemp("at_once"), ())


@pytest.mark.parametrize("pair", list(itertools.product(POINTS, POINTS)), ids="+".join)
def test_a_crash_while_it_recovers_from_a_crash_leaves_the_same_bytes(
    tmp_path: Path, at_once: dict[str, bytes], pair: tuple[str, str]
) -> None:
    assert crash_and_deliver(tmp_path, pair) == at_once


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("action", ["fail", "full"])
def test_an_error_at_any_point_is_visible_and_made_good(
    tmp_path: Path, undisturbed: dict[str, bytes], point: str, action: str
) -> None:
    writer = ResultWriter()
    delivery = begin(writer, tmp_path)
    failpoints.arm(point, action, after=2)
    errors = []
    while writer.manifest.epoch < N_EPOCHS:
        commit_next(writer)
        delivery.committed(writer.manifest)
        delivery.pump()
        errors += [each.error for each in delivery.status() if each.state == "failing"]
        names = [path.name for path in tmp_path.rglob("part-*")]
        assert all(pq.read_metadata(path) for path in tmp_path.rglob("part-*")), names
        delivery.pump()
        delivery.committed(writer.drop_consumed(delivery))
    delivery.drain(1)

    assert len(errors) == 1
    assert f"injected at {point}" in errors[0]
    assert files(tmp_path) == undisturbed


def test_a_disk_that_is_full_while_a_file_is_written_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = ResultWriter()
    commit_next(writer)
    delivery = begin(writer, tmp_path, roll_epochs=1)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(pq.ParquetWriter, "write_table", full)
        delivery.pump()
    assert delivery.status()[0].state == "failing"
    assert [name for name in files(tmp_path) if "part-" in name] == []

    delivery.pump()
    assert delivery.status()[0].state == "running"
    assert sorted(files(tmp_path)) == [
        f"{query}/part-{0:012d}-{0:012d}.parquet" for query in QUERIES
    ]


@pytest.mark.parametrize("point", POINTS)
def test_of_two_engines_alive_at_once_only_one_writes(
    tmp_path: Path, undisturbed: dict[str, bytes], point: str
) -> None:
    """The first is stopped at a point, the second takes over, and the first wakes up again."""
    writer = ResultWriter()
    first = begin(writer, tmp_path)
    for _ in range(3):
        commit_next(writer)
        writer.drop_consumed(first)
    interrupted: list[Delivery] = []

    def take_over(_point: str) -> None:
        failpoints.disarm()
        interrupted.append(begin(writer, tmp_path))
        interrupted[0].pump()

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(failpoints.ACTIONS, "take over", take_over)
        failpoints.arm(point, "take over")
        first.committed(writer.manifest)
        with pytest.raises(FencedError):
            go_on(first, writer)
    (second,) = interrupted
    while writer.manifest.epoch < N_EPOCHS:
        commit_next(writer)
        second.committed(writer.manifest)
        second.pump()
        writer.drop_consumed(second)
    second.committed(writer.manifest)
    assert second.drain(1)

    seen = {name: data for name, data in files(tmp_path).items() if "/." not in name}
    assert seen == undisturbed
    begin(writer, tmp_path).pump()
    assert files(tmp_path) == undisturbed, "the next start removes what the loser left"


def go_on(delivery: Delivery, writer: ResultWriter) -> None:
    """Deliver, and settle what is open."""
    delivery.pump()
    delivery.committed(writer.drop_consumed(delivery))
    delivery.drain(1)


def test_live_threads_and_restarts_write_every_row_once(tmp_path: Path) -> None:
    writer = ResultWriter()
    for _ in range(5):
        sink = ParquetSink(tmp_path, QUERIES, roll_rows=20)
        delivery = Delivery(writer.root, alive, [sink])
        for _ in range(10):
            delivery.committed(writer.commit("big", n_shards=2))
            delivery.committed(writer.drop_consumed(delivery))
        delivery.stop()
    last = Delivery(writer.root, alive, [ParquetSink(tmp_path, QUERIES)])
    last.committed(writer.manifest)
    assert last.drain(10)
    last.stop()

    prices = ds.dataset(tmp_path / "big", format="parquet").to_table()["price"].to_pylist()
    assert len(prices) == len(set(prices)) == 5 * 50


def test_the_number_of_shards_does_not_show(tmp_path: Path) -> None:
    found = []
    for n_shards in (1, 4):
        writer = ResultWriter()
        for _ in range(4):
            commit_next(writer, n_shards)
        directory = tmp_path / str(n_shards)
        begin(writer, directory, roll_rows=12, roll_epochs=None).drain(1)
        found.append(files(directory))

    assert found[0] == found[1]
    assert len(found[0]) > 2


def test_a_large_span_is_written_in_groups_before_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts_module, "GROUP_BYTES", 1000)
    writer = ResultWriter()
    for _ in range(3):
        writer.commit("big", n_rows=100)
    delivery = begin(writer, tmp_path, roll_epochs=3)
    delivery.pump()

    (path,) = (tmp_path / "big").glob("part-*")
    assert path.name == f"part-{0:012d}-{2:012d}.parquet"
    assert pq.ParquetFile(path).num_row_groups == 3


def test_an_open_span_is_rolled_when_it_is_old_and_quiet_spans_write_nothing(
    tmp_path: Path,
) -> None:
    writer, clock = ResultWriter(), ManualClock()
    sink = ParquetSink(tmp_path, "big", roll_every="10 seconds")
    delivery = Delivery(writer.root, alive, [sink], clock, threads=False)
    delivery.committed(writer.commit("big"))
    delivery.pump()
    assert list(tmp_path.rglob("part-*")) == []
    clock.advance("10 seconds")
    delivery.pump()
    assert len(list(tmp_path.rglob("part-*"))) == 1

    for _ in range(5):
        delivery.committed(writer.commit())
    clock.advance("10 seconds")
    delivery.pump()
    clock.advance("10 seconds")
    delivery.pump()
    assert len(list(tmp_path.rglob("part-*"))) == 1
    assert delivery.status()[0].next_epoch == 6


def test_a_query_whose_columns_change_begins_another_file(tmp_path: Path) -> None:
    sink = ParquetSink(tmp_path, "big")
    sink.open(())
    sink.take("big", 0, pa.table({"price": [1]}))
    sink.take("big", 1, pa.table({"price": ["one"]}))

    sink.fulfil(sink.prepare(Span(0, 2)))

    assert sorted(files(tmp_path)) == [
        f"big/part-{0:012d}-{1:012d}-2.parquet",
        f"big/part-{0:012d}-{1:012d}.parquet",
    ]


def test_a_file_that_is_in_the_way_is_not_overwritten(tmp_path: Path) -> None:
    writer = ResultWriter()
    commit_next(writer)
    stranger = tmp_path / "big" / f"part-{0:012d}-{0:012d}.parquet"
    stranger.parent.mkdir()
    stranger.write_text("not ours")
    delivery = begin(writer, tmp_path, roll_epochs=1)
    delivery.pump()

    assert stranger.read_text() == "not ours"
    assert "exists already" in delivery.status()[0].error
    stranger.unlink()
    delivery.pump()
    assert pq.read_table(stranger).num_rows == 5


def test_files_of_another_sink_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "big" / ".parquet-two-0123456789ab.tmp"
    ours = tmp_path / "big" / ".parquet-0123456789ab.tmp"
    for path in (other, ours):
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")

    ParquetSink(tmp_path, "big").open(())

    assert (other.exists(), ours.exists()) == (True, False)


def test_limits_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="never finishes a file"):
        ParquetSink(tmp_path, roll_bytes=None, roll_every=None)
    with pytest.raises(PlanError, match="too small for its files"):
        ParquetSink(tmp_path, roll_bytes="1 MB", backlog=Backlog("drop", n_bytes=2 << 20))
