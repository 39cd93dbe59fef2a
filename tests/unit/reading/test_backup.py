"""A backup, made while an engine runs, goes on as if nothing had happened since."""

from __future__ import annotations

import threading
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest

from millrace.cli.main import main
from millrace.errors import StoreError
from millrace.reading import backup as backups
from millrace.reading.backup import _gapless, backup, opened_target, restore
from millrace.testing.serving import STREAM, Served, trade

ALL = "SELECT symbol, price FROM trades WHERE price > 0"
COUNTS = "SELECT symbol, count(*) AS n FROM trades [RANGE 1 hour] GROUP BY symbol"


@pytest.mark.parametrize("name", ["copy", "copy.tar", "copy.tgz"])
def test_a_restored_root_goes_on_and_lacks_nothing(tmp_path: Path, name: str) -> None:
    """Who was acknowledged before the backup is in it; each row counts once."""
    stop, acknowledged = threading.Event(), []
    with Served(tmp_path / "root") as served:
        served.sql(STREAM)
        served.post("/v1/queries", json={"sql": ALL, "name": "all", "keep": 100_000})
        served.post("/v1/queries", json={"sql": COUNTS, "name": "counts", "keep": 100_000})

        def push_on() -> None:
            number = 0
            while not stop.is_set():
                if served.push([trade(f"{number}", 1.0, number % 3_000)]).status_code == 200:
                    acknowledged.append(f"{number}")
                number += 1

        thread = threading.Thread(target=push_on)
        thread.start()
        served.results("all", 20)
        before = list(acknowledged)
        with opened_target(tmp_path / name) as target:
            backup(tmp_path / "root", target)
        stop.set()
        thread.join()
        expected = list(acknowledged)

    restore(tmp_path / name, tmp_path / "again")
    with Served(tmp_path / "again") as again:
        again.push([trade("new", 1.0, 3_001)])
        again.until(lambda: "new" in again.get("/v1/queries/all/results?last=1").text)
        found = [row["symbol"] for row in again.get("/v1/queries/all/results").json()["rows"]]
        again.push([trade("end", 1.0, 3_100)])  # time has to pass the row before it is counted
        again.until(lambda: '"new"' in again.get("/v1/queries/counts/results").text)
        counted = again.get("/v1/queries/counts/results").json()["rows"]

    assert set(before) <= set(found)
    assert found == [*expected[: len(found) - 1], "new"]
    assert {row["symbol"] for row in counted if row["n"] == 1} == set(found)


def test_the_commands_copy_and_restore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Served(tmp_path / "root") as served:
        served.sql(STREAM)
        served.push([trade("A", 1.0)])
        served.until(lambda: served.get("/v1/stats").json()["rows"] == 1)

    copied = main(["backup", str(tmp_path / "root"), str(tmp_path / "b.tar")])
    again = main(["backup", str(tmp_path / "root"), str(tmp_path / "b.tar")])
    restored = main(["restore", str(tmp_path / "b.tar"), str(tmp_path / "again")])
    onto = main(["restore", str(tmp_path / "b.tar"), str(tmp_path / "root")])
    verified = main(["verify", str(tmp_path / "again")])

    assert (copied, again, restored, onto, verified) == (0, 1, 0, 1, 0)
    told = capsys.readouterr()
    assert "holds the root as of epoch" in told.out
    assert "exists already" in told.err
    assert "is not empty" in told.err


def test_what_is_no_root_and_no_backup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    with pytest.raises(StoreError, match="is not a root"), opened_target(tmp_path / "b") as target:
        backup(tmp_path / "empty", target)
    with pytest.raises(StoreError, match="is not the backup of a root"):
        restore(tmp_path / "empty", tmp_path / "new")

    assert not (tmp_path / "b").exists()
    assert not list(tmp_path.glob(".b*"))


def test_a_gap_among_pushed_files_is_noticed() -> None:
    names = {f"pushed/s_1/{number:012d}" for number in (3, 4, 6)}
    keys = {"pushed/s_1/keys/000000000001"}

    assert not _gapless(names | keys)
    assert _gapless({name for name in names if not name.endswith("6")} | keys)


def test_what_is_counted_while_it_is_looked_for_again_is_copied_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was held before: the commit that counts it may be later than the one that is chosen."""
    with Served(tmp_path / "root") as served:
        served.sql(STREAM)
    pushed = tmp_path / "root" / "pushed" / "trades_1"
    pushed.mkdir(parents=True)
    for number in (1, 2, 3):
        (pushed / f"{number:012d}").write_bytes(b"rows")

    link, linked = backups._link, Counter[str]()

    def counted(file: Path, place: Path) -> None:
        linked[file.name] += 1
        if linked[file.name] == 2:
            file.unlink()  # when it has been listed
        link(file, place)

    monkeypatch.setattr(backups, "_link", counted)
    with opened_target(tmp_path / "copy") as target:
        backup(tmp_path / "root", target)

    copied = tmp_path / "copy" / "pushed" / "trades_1"
    assert sorted(each.name for each in copied.iterdir()) == [f"{at:012d}" for at in (1, 2, 3)]


class Emptied:
    """A target that counts what it is given, and lets the engine delete the rest meanwhile."""

    def __init__(self, pushed: Path) -> None:
        self._pushed, self.bytes = pushed, Counter[str]()

    def put(self, name: str, data: bytes) -> None:
        self.bytes[name.partition("/")[0]] += len(data)
        for file in self._pushed.rglob("*") if name.startswith("pushed") else ():
            file.unlink()


def test_what_waits_for_the_engine_is_copied_file_by_file(tmp_path: Path) -> None:
    """Whatever becomes of it once the commit is chosen."""
    with Served(tmp_path / "root") as served:
        served.sql(STREAM)
    pushed = tmp_path / "root" / "pushed" / "trades_1"
    pushed.mkdir(parents=True)
    for number in range(1, 31):
        (pushed / f"{number:012d}").write_bytes(b"x" * 1_000_000)
    target = Emptied(pushed)

    tracemalloc.start()
    backup(tmp_path / "root", target)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert target.bytes["pushed"] == 30_000_000
    assert most < 5_000_000
    assert not list((tmp_path / "root").glob(".backup-*"))
