"""A checkpoint that does not fit the root is refused, with the cure; what was lost is repaired."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import millrace
from millrace.errors import IdentityError, StoreFullError
from millrace.state.posix_root import PosixRoot
from millrace.testing.spark_rows import COLUMNS, wait_until, write_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AwaitRows = Callable[[millrace.Session, int], None]
KEPT = ("checkpoint", "commits", "epochs", "registry", "sources", "cursors")


def declare(session: millrace.Session, directory: Path) -> millrace.MemorySink:
    sink = millrace.MemorySink()
    files = millrace.Files(str(directory / "*.parquet"))
    session.stream("trades", files, schema=COLUMNS, time="ts")
    session.query(millrace.select("trades", "number"), name="all")
    session.sink(sink)
    return sink


@pytest.fixture(scope="module")
def worked(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a root of some epochs, and its input."""
    directory = tmp_path_factory.mktemp("worked")
    write_files(directory / "in", "parquet", [0, 10, 20, 30])
    settings = millrace.Settings(rows=1)
    with millrace.Session(directory / "root", spark=spark, settings=settings) as session:
        declare(session, directory / "in")
        session.start()
        wait_until(lambda: session.engine.manifest.epoch >= 2)
    return directory


@pytest.fixture
def root(worked: Path, tmp_path: Path) -> Path:
    """A copy of that root."""
    return Path(shutil.copytree(worked / "root", tmp_path / "root"))


def content(root: Path) -> dict[str, bytes]:
    """Return the files that a refused start must not change."""
    files = [each for name in KEPT for each in (root / name).rglob("*") if each.is_file()]
    return {str(each): each.read_bytes() for each in files}


def lose_it(root: Path) -> None:
    shutil.rmtree(root / "checkpoint")


def take_another_query(root: Path) -> None:
    (root / "checkpoint" / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))


def replace_the_offsets(root: Path) -> None:
    last = max((root / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda each: int(each.name))
    last.write_text(last.read_text().replace('{"splits": 3}', '{"splits": 2}'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lose_it, "Spark's checkpoint is missing from the root"),
        (take_another_query, "belongs to another streaming query"),
        (replace_the_offsets, "its input was not what Spark offers now"),
    ],
)
def test_a_checkpoint_of_another_history_is_refused_with_the_cure(
    damage: Callable[[Path], None], message: str, root: Path, worked: Path, sessions: Any
) -> None:
    damage(root)
    before = content(root)
    session = sessions.open(root)
    declare(session, worked / "in")

    with pytest.raises(IdentityError, match=message) as refused:
        session.start()

    assert "start over with an empty root" in refused.value.hint
    assert content(root) == before


@pytest.mark.parametrize("loss", ["deleted", "empty"])
def test_offsets_that_a_power_cut_took_are_put_back_from_our_own_log(
    loss: str,
    sessions: Any,
    tmp_path: Path,
    await_rows: AwaitRows,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_files(tmp_path / "in", "parquet", [0, 10])
    original, refused = PosixRoot.put_if_absent, []

    def full(self: PosixRoot, name: str, data: Any) -> bool:
        if name.startswith("commits/"):
            refused.append(name)
            raise StoreFullError(f'no room for "{name}"')
        return original(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(PosixRoot, "put_if_absent", full)
        session = sessions.open()
        declare(session, tmp_path / "in")
        session.start()
        wait_until(lambda: bool(refused))
        session.close(drain=0)
    lost = sessions.root / "checkpoint" / "offsets" / "0"
    known = lost.read_bytes()
    lost.unlink() if loss == "deleted" else lost.write_bytes(b"")
    write_files(tmp_path / "in", "parquet", [10, 20])  # epoch 0 must not take this one too

    session = sessions.open()
    sink = declare(session, tmp_path / "in")
    session.start()
    await_rows(session, 20)
    assert sink.wait_rows(20)

    assert lost.read_bytes() == known
    epochs = {row["number"]: row["_epoch"] for row in sink.table("all").to_pylist()}
    assert {number for number, epoch in epochs.items() if epoch == 0} == set(range(10))
    assert len(epochs) == 20
