"""`millrace run`: do a script of statements on local Spark, and keep it going."""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from millrace.cli.terminal import make_console, print_seconds

if TYPE_CHECKING:
    from millrace.session import Session

NAME = "run"
SUMMARY = "run a script of statements: streams, sinks, standing queries"
EPILOG = """\
The statements are done in their order; then epochs run until the command is interrupted, or for
as long as --seconds says. What stands in the root goes on where it was; a script that is run again
declares the same things again, which changes nothing.

  CREATE STREAM trades (symbol text, price double, ts timestamp)
    TIMESTAMP BY ts DELAY 2 seconds FROM files(path => '/data/trades/*.parquet');
  CREATE SINK answers TO parquet(path => '/data/answers');
  CREATE QUERY big AS SELECT symbol, price FROM trades WHERE price > 100;

examples:
  millrace run app.sql --root /var/lib/alerts
  millrace run app.sql --root /tmp/try --seconds 20 --then 'SELECT * FROM big'
"""

POLL_SECONDS = 0.2
REPORT_SECONDS = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "script", metavar="SCRIPT", help="a file of statements, - for standard input"
    )
    parser.add_argument("--root", required=True, type=Path, metavar="DIR",
                        help="where everything durable is kept")  # fmt: skip
    parser.add_argument("--seconds", type=float, metavar="N", help="end after so many seconds")
    parser.add_argument("--then", metavar="SQL", default="", help="do these statements at the end")
    parser.add_argument("--cores", default="*", metavar="N", help="how many tasks run at once")
    parser.add_argument("--quiet", action="store_true", help="say nothing while it runs")


def run(arguments: argparse.Namespace) -> int:
    """Run a script."""
    from millrace.cli.dry_run import dry_run
    from millrace.cli.scripts import print_outcome, read_script

    console, text = make_console(), read_script(arguments.script)
    with dry_run() as script:  # what can be refused is refused before Spark is started
        for _ in script.run(text):
            pass
    with console.status("starting Spark"):
        from millrace.spark.launch import local_spark

        spark = local_spark(cores=arguments.cores, app="millrace run")
    from millrace.session import Session
    from millrace.session.script import Script

    try:
        with Session(arguments.root, spark=spark) as session:
            script_on_spark = Script(session, _Shown(console))
            for outcome in script_on_spark.run(text):
                if not arguments.quiet:
                    print_outcome(outcome, console)
            _keep_going(session, console, arguments.seconds, quiet=arguments.quiet)
            session.engine.delivery.drain(30.0)
            for outcome in script_on_spark.run(arguments.then):
                print_outcome(outcome, console)
    finally:
        spark.stop()
    return 0


class _Shown:
    """Prints the rows that go to a sink `TO console()`."""

    def __init__(self, console: Console) -> None:
        self._console, self._lock = console, threading.Lock()

    def __call__(self, query: str, epoch: int, table: pa.Table) -> None:
        from millrace.cli.scripts import print_table

        with self._lock:
            print_table(table, self._console, f"{query}, epoch {epoch}")


def _keep_going(session: Session, console: Console, seconds: float | None, *, quiet: bool) -> None:
    """Run epochs, and say now and then how it goes."""
    if not session.streams:
        return
    run = session.start()
    began = reported = time.monotonic()
    try:
        while not run.wait(POLL_SECONDS):
            now = time.monotonic()
            if seconds is not None and now - began >= seconds:
                break
            if not quiet and now - reported >= REPORT_SECONDS:
                _report(session, console, now - reported)
                reported = now
    except KeyboardInterrupt:
        console.print(Text("stopping: the epoch in flight is finished", "dim"))
    run.stop()


def _report(session: Session, console: Console, window: float) -> None:
    if session.engine.manifest.epoch < 0:
        console.print(Text("waiting for the first epoch", "dim"))
        return
    since = (time.time() - window) * 1e6
    recent = [each for each in session.statistics() if each.started >= since]
    n_rows, n_results = sum(each.rows for each in recent), sum(each.results for each in recent)
    took = max((each.total_seconds for each in recent), default=0.0)
    stand = session.engine.registry.population.n_rows
    console.print(
        Text(
            f"epoch {session.engine.manifest.epoch:,}  {n_rows / window:,.0f} rows/s  "
            f"{n_results / window:,.0f} matches/s  {stand:,} standing queries  "
            f"longest epoch {print_seconds(took)}",
            "dim",
        )
    )
