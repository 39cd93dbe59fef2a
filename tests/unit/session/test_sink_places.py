"""A directory that a sink cannot have is refused when the sink is declared, and not at the end."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from millrace.connectors.sinks.parquet import ParquetSink
from millrace.engine.local import Feed, LocalRun
from millrace.errors import MillraceError, SinkError
from millrace.session import Session
from millrace.state.root import open_root

ROW = {"symbol": "A", "price": 2.0, "ts": datetime(2024, 5, 1, 12, tzinfo=UTC)}


def declared(root: Path) -> Session:
    session = Session(open_root(root), threads=False)
    session.stream("trades", Feed("symbol text, price double, ts timestamp"), time="ts")
    session.query("SELECT symbol FROM trades", name="all")
    return session


def fed(session: Session, directory: Path) -> None:
    session.sink(ParquetSink(directory, roll_epochs=1))
    run = session.start()
    assert isinstance(run, LocalRun)
    run.feed(trades=[ROW])
    session.engine.delivery.pump()


def test_files_of_another_root_are_noticed_at_once(tmp_path: Path) -> None:
    with declared(tmp_path / "one") as one:
        fed(one, tmp_path / "out")

    with declared(tmp_path / "two") as two, pytest.raises(SinkError) as refused:
        two.sink(ParquetSink(tmp_path / "out"))

    assert "is in use" in refused.value.message
    assert "another root" in refused.value.detail
    assert refused.value.hint


def test_files_of_its_own_are_not_in_the_way(tmp_path: Path) -> None:
    for _ in range(3):
        with declared(tmp_path / "one") as session:
            fed(session, tmp_path / "out")

    assert pq.read_table(tmp_path / "out").num_rows == 3


def test_a_directory_that_cannot_be_made_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with declared(tmp_path / "one") as session:
        for place in (tmp_path / "file" / "out", Path("/proc/xx")):
            with pytest.raises(SinkError, match="cannot be used") as refused:
                session.sink(ParquetSink(place))
            assert refused.value.hint
        assert session.sinks() == ()


def test_a_statement_that_names_such_a_directory_shows_its_place(tmp_path: Path) -> None:
    with declared(tmp_path / "one") as session, pytest.raises(SinkError) as refused:
        session.execute("CREATE SINK s TO parquet(path => '/proc/xx')")

    assert "  1 | CREATE SINK s TO parquet" in str(refused.value)


@pytest.mark.parametrize(
    "options", ["path => '/x', roll_rows => 'a'", "path => 5", "path => '', roll_rows => 1"]
)
def test_options_of_another_kind_are_refused_in_words(tmp_path: Path, options: str) -> None:
    with declared(tmp_path / "one") as session, pytest.raises(MillraceError) as refused:
        session.execute(f"CREATE SINK s TO parquet({options})")

    assert refused.value.hint
    assert "1 | CREATE SINK" in str(refused.value)
