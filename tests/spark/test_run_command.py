"""`millrace run` as a user sees it: what is on the terminal, and the exit status."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from millrace.testing.spark_rows import wait_until

pytestmark = pytest.mark.spark

STREAM = """
CREATE STREAM t (x int, ts timestamp) TIMESTAMP BY ts FROM files(path => '{data}/*.ndjson');
CREATE QUERY big AS SELECT x FROM t WHERE x > 1;
"""
ROW = '{{"x": {x}, "ts": "2024-05-01T12:00:0{x}Z"}}\n'


def command(directory: Path, *options: str, sink: str = "") -> subprocess.Popen[str]:
    """Start `millrace run` in a process group of its own, as a terminal does."""
    data, app = directory / "data", directory / "app.sql"
    data.mkdir()
    rows = "".join(ROW.format(x=x) for x in range(4))
    (data / "a.ndjson").write_text(f"{rows}nonsense\n")
    app.write_text(STREAM.format(data=data) + sink)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "millrace.cli.main", "run", str(app), "--cores", "2"),
            *("--root", str(directory / "root"), *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_run_tells_of_dead_letters_and_failing_sinks_and_ctrl_c_ends_it_in_good_order(
    tmp_path: Path,
) -> None:
    answers, epochs = tmp_path / "answers", tmp_path / "root" / "epochs"
    sink = f"CREATE SINK answers TO parquet(path => '{answers}');"

    run = command(tmp_path, "--then", "SELECT * FROM big", sink=sink)
    wait_until(lambda: epochs.exists() and any(epochs.iterdir()))
    shutil.rmtree(answers, ignore_errors=True)
    answers.write_text("in its place")  # while the first epoch runs
    assert run.stdout is not None
    lines = [next(run.stdout)]
    while not (lines[-1].startswith("epoch ") and 'sink "answers" is failing' in lines[-1]):
        lines.append(next(run.stdout))
    os.killpg(run.pid, signal.SIGINT)
    said, errors = run.communicate(timeout=200)

    lines = said.splitlines()
    assert run.returncode == 1
    assert "stopping: the epoch in flight is finished" in said
    assert (
        f"1 dead letter set aside: see `millrace inspect {tmp_path}/root --dead-letters`" in lines
    )
    assert lines[-1] == "2 rows"
    warnings = errors.splitlines()
    assert len(warnings) == 2
    assert warnings[0].startswith("warning: sink failing sink=answers error=")
    assert warnings[1].startswith(
        'warning: sink "answers" is failing, 2 rows wait for it; it is tried'
    )


def test_ctrl_c_while_spark_starts_ends_with_one_word(tmp_path: Path) -> None:
    run = command(tmp_path)
    log = tmp_path / "root" / "logs" / "spark.log"
    wait_until(log.exists)
    time.sleep(1.0)

    os.killpg(run.pid, signal.SIGINT)

    said, errors = run.communicate(timeout=60)
    assert (run.returncode, said, errors) == (130, "", "\ninterrupted\n")
