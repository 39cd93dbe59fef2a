"""`millrace run` without Spark: what is refused before it starts, what it says, and Ctrl-C."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

import millrace
from millrace.cli.interruption import Interruption
from millrace.cli.main import main
from millrace.cli.progress import Counts, sink_troubles, status_line, summary
from millrace.cli.run import Watch
from millrace.cli.run_logs import SparkLog, run_logs
from millrace.cli.terminal import make_console
from millrace.engine.local import LocalRun

STREAM = """
CREATE STREAM t (price double, ts timestamp) TIMESTAMP BY ts FROM files(path => '{path}');
CREATE QUERY big AS SELECT price FROM t WHERE price > 1;
"""


def script(tmp_path: Path, source: Path) -> str:
    path = tmp_path / "app.sql"
    path.write_text(STREAM.format(path=source))
    return str(path)


def test_a_directory_that_does_not_exist_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app, root = script(tmp_path, tmp_path / "nowhere" / "*.parquet"), tmp_path / "root"

    status = main(["run", app, "--root", str(root), "--seconds", "4"])

    assert status == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        f'error: directory "{tmp_path / "nowhere"}" cannot be listed',
        "  detail: The system says: No such file or directory.",
        "  hint: Create the directory before the stream that reads it.",
    ]
    assert not root.exists()


def test_a_sink_that_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app, root = script(tmp_path, tmp_path), tmp_path / "root"
    (tmp_path / "file").write_text("")
    with Path(app).open("a") as more:
        more.write(f"CREATE SINK answers TO parquet(path => '{tmp_path}/file/answers');")

    status = main(["run", app, "--root", str(root), "--seconds", "4"])

    assert status == 1
    assert capsys.readouterr().err.splitlines() == [
        f'error: directory "{tmp_path}/file/answers" of sink "answers" cannot be used',
        "  detail: Not a directory.",
        "  hint: Give a directory that can be made and written on this machine.",
    ]
    assert not root.exists()


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ("SELEC * FROM big", "SELEC"),
        ("SELECT nothing FROM big", "nothing"),
        ("SELECT * FROM bigg", '"bigg" does not exist'),
    ],
)
def test_the_statements_at_the_end_are_checked_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], then: str, words: str
) -> None:
    app, root = script(tmp_path, tmp_path), tmp_path / "root"

    status = main(["run", app, "--root", str(root), "--then", then])

    assert status == 1
    assert words in capsys.readouterr().err
    assert not root.exists()


def test_a_root_that_cannot_be_made_is_an_error_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")

    status = main(["run", script(tmp_path, tmp_path), "--root", str(tmp_path / "file" / "root")])

    assert status == 1
    assert "cannot be written to" in capsys.readouterr().err


def test_the_status_line_and_the_summary_tell_what_was_set_aside_and_which_sink_fails(
    tmp_path: Path, trades: Callable[..., pa.Table]
) -> None:
    def refuse(*_: object) -> None:
        raise ConnectionError("the other side is away")

    with millrace.Session(tmp_path / "root") as session:
        session.stream(
            "trades", millrace.Feed("symbol text, price double, ts timestamp"),
            time="ts", partition="symbol", order="ts",
        )  # fmt: skip
        session.query("SELECT symbol FROM trades", name="all")
        session.sink(millrace.CallbackSink(refuse, name="pager"))
        before, run = Counts.of(session), session.start()
        assert status_line(session, run, before, before, 2.0) == "waiting for the first epoch"
        assert isinstance(run, LocalRun)
        run.feed(trades=trades(60, 1.0, None, 2.0))
        run.feed(trades=trades(0, 3.0))
        session.engine.delivery.drain(10.0)

        line = status_line(session, run, before, before, 2.0)
        failing = list(sink_troubles(session))
        said = list(summary(Counts.of(session).since(before), "/r"))

    assert "epoch 1  2 rows/s" in line
    assert "1 dead letter, 1 late row" in line
    assert line.endswith('  sink "pager" is failing, 3 rows wait for it')
    assert failing == [
        ('sink "pager" is failing, 3 rows wait for it', "ConnectionError: the other side is away")
    ]
    assert said == [
        "2 epochs, 4 rows, 3 matches",
        "1 dead letter set aside: see `millrace inspect /r --dead-letters`",
        "1 late row set aside: see `millrace inspect /r --late`",
    ]


def test_a_run_without_an_epoch_says_so_and_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with millrace.Session(tmp_path / "root") as session:
        session.stream("t", millrace.Feed("ts timestamp"), time="ts")
        log = SparkLog(tmp_path / "spark.log")

        status = Watch(session, make_console(), Interruption(), log, quiet=True).keep_going(0.3)

    said = capsys.readouterr()
    assert (status, said.out) == (1, "")
    assert said.err == (
        "warning: no epoch was completed; the first one takes longer than --seconds 0.3, counted "
        "from when the stream is up; give it more\n"
    )


def test_warnings_are_lines_on_the_terminal_and_whole_in_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with run_logs(tmp_path, Console(stderr=True, width=200)):
        logging.getLogger("millrace.some").warning("it broke\nat line 7")
        logging.getLogger("py4j.clientserver").error("a stack\nof Java")

    assert capsys.readouterr().err == "warning: it broke\n"
    written = (tmp_path / "logs" / "millrace.log").read_text()
    assert "at line 7" in written
    assert "of Java" in written


def test_the_log_of_spark_is_news_only_if_it_speaks_of_an_error(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    path.write_text("spark ERROR Old: of another run\n")
    log = SparkLog(path)
    with path.open("a") as file:
        file.write("WARNING: Using incubator modules: jdk.incubator.vector\n")
    assert log.news() == ""

    with path.open("a") as file:
        file.write("hm\nspark ERROR Executor: Exception in task 0\n\tat java\n")

    assert log.news() == "spark ERROR Executor: Exception in task 0"
    assert log.news() == ""


WAITING = """
import time
from millrace.cli.interruption import Interruption
with Interruption() as interruption:
    interruption.gentle = {gentle}
    print("ready", flush=True)
    while True:
        time.sleep(0.01)
        if interruption.asked and interruption.gentle:
            print("stopping", flush=True)
            interruption.gentle = False
"""


@pytest.mark.parametrize("gentle", [False, True])
def test_ctrl_c_ends_at_once_or_first_in_good_order(gentle: bool) -> None:  # noqa: FBT001
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING.format(gentle=gentle)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    if gentle:
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "stopping\n"
        time.sleep(0.05)

    child.send_signal(signal.SIGINT)

    said, errors = child.communicate(timeout=30)
    assert (child.returncode, said, errors) == (130, "", "\ninterrupted\n")
