"""`millrace run`: do a script of statements, on local Spark or without it, and keep it going."""

from __future__ import annotations

import argparse
import math
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from millrace.cli.interruption import STATUS as INTERRUPTED
from millrace.cli.interruption import Interruption
from millrace.cli.progress import Counts, sink_troubles, status_line, summary, troubles
from millrace.cli.run_logs import SparkLog, run_logs
from millrace.cli.terminal import make_console, print_seconds

if TYPE_CHECKING:
    from millrace.engine.backend import Run
    from millrace.session import Session

NAME = "run"
SUMMARY = "run a script of statements: streams, sinks, standing queries"
EPILOG = """\
The statements are done in their order; then epochs run until the command is interrupted, or for
as long as --seconds says. What stands in the root goes on where it was; a script that is run again
declares the same things again, which changes nothing. Both the script and --then are checked, and
the directories of sources and sinks are looked at, before Spark is started.

Ctrl-C finishes the epoch in flight; a second one ends the command at once, which loses nothing.
What Spark writes is in ROOT/logs. The exit status is 1 if no epoch was completed, or if a sink
does not take its answers.

  CREATE STREAM trades (symbol text, price double, ts timestamp)
    TIMESTAMP BY ts DELAY 2 seconds FROM files(path => '/data/trades/*.parquet');
  CREATE SINK answers TO parquet(path => '/data/answers');
  CREATE QUERY big AS SELECT symbol, price FROM trades WHERE price > 100;

examples:
  millrace run app.sql --root /var/lib/alerts
  millrace run app.sql --root /tmp/try --seconds 20 --then 'SELECT * FROM big'
  millrace run app.sql --root /tmp/try --seconds 20 --then 'EXPLAIN ANALYZE QUERY big'
  millrace run examples/papers/fjords_sensors.sql --root /tmp/try --local --seconds 2
"""

POLL_SECONDS = 0.2
REPORT_SECONDS = 2.0
DRAIN_SECONDS = 30.0
START_SECONDS = 120.0
"""After so long, --seconds counts even if the stream is not up."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "script", metavar="SCRIPT", help="a file of statements, - for standard input"
    )
    parser.add_argument("--root", required=True, type=Path, metavar="DIR",
                        help="where everything durable is kept")  # fmt: skip
    parser.add_argument("--seconds", type=float, metavar="N",
                        help="end so many seconds after the stream is up; the start of Spark, and "
                        "what it takes until the first epoch can run, does not count, for up to "
                        "two minutes")  # fmt: skip
    parser.add_argument("--then", metavar="SQL", default="", help="do these statements at the end")
    parser.add_argument("--local", action="store_true", help="run epochs without Spark, in this "
                        "process; sources are files()")  # fmt: skip
    parser.add_argument("--cores", default="*", metavar="N", help="how many tasks run at once")
    parser.add_argument("--quiet", action="store_true", help="say nothing while it runs")


def run(arguments: argparse.Namespace) -> int:
    """Run a script."""
    from millrace.cli.dry_run import rehearse_script
    from millrace.cli.scripts import read_script

    text = read_script(arguments.script)
    # What can be refused is refused before Spark is started.
    rehearse_script(text, arguments.then, arguments.root)
    with (
        Interruption() as interruption,
        run_logs(arguments.root, make_console(stderr=True)) as log,
    ):
        return _run_on_backend(arguments, text, interruption, log)


def _run_on_backend(
    arguments: argparse.Namespace, text: str, interruption: Interruption, log: SparkLog
) -> int:
    from millrace.cli.scripts import print_outcome
    from millrace.engine.local_loop import LoopBackend
    from millrace.session import Session
    from millrace.session.script import Script

    console = make_console()
    with ExitStack() as stack:
        local = arguments.local
        backend = LoopBackend() if local else _spark(arguments, console, log, stack)
        interruption.arm()
        session = Session(arguments.root, spark=backend)
        stack.callback(session.close, drain=0.0)
        script = Script(session, _Shown(console))
        for outcome in script.run(text):
            if not arguments.quiet:
                print_outcome(outcome, console)
        watch = Watch(session, console, interruption, log, quiet=arguments.quiet)
        status = watch.keep_going(arguments.seconds) if session.streams else 0
        for outcome in script.run(arguments.then):
            print_outcome(outcome, console)
    return status


def _spark(
    arguments: argparse.Namespace, console: Console, log: SparkLog, stack: ExitStack
) -> object:
    with console.status("starting Spark"):
        from millrace.spark.launch import local_spark, stop_spark

        spark = local_spark(cores=arguments.cores, app="millrace run", log=log.path)
    stack.callback(stop_spark, spark)
    return spark


class _Shown:
    """Prints the rows that go to a sink `TO console()`."""

    def __init__(self, console: Console) -> None:
        self._console, self._lock = console, threading.Lock()

    def __call__(self, query: str, epoch: int, table: pa.Table) -> None:
        from millrace.cli.scripts import print_table

        with self._lock:
            print_table(table, self._console, f"{query}, epoch {epoch}")


class Watch:
    """Looks after a run: says how it goes, ends it in time, and sums it up."""

    def __init__(
        self,
        session: Session,
        console: Console,
        interruption: Interruption,
        log: SparkLog,
        *,
        quiet: bool,
    ) -> None:
        self._session, self._console, self._interruption = session, console, interruption
        self._log, self._quiet = log, quiet
        self._warnings = make_console(stderr=True)
        self._log_named = False
        self._last = Counts.of(session)

    def keep_going(self, seconds: float | None) -> int:
        """Run epochs until the time is over or the user has seen enough; return the status."""
        before = Counts.of(self._session)
        self._interruption.gentle = True
        run = self._session.start()
        up, took = self._watched(run, seconds, before)
        self._interruption.gentle = False
        if self._interruption.asked:
            words = "stopping: the epoch in flight is finished; Ctrl-C again ends at once"
            self._console.print(Text(words, "dim"))
        why = list(troubles(self._session, run))
        run.stop()
        self._session.engine.delivery.drain(DRAIN_SECONDS)
        counts = Counts.of(self._session).since(before)
        if not counts.epochs:
            self._warn(_no_epoch(run, why, up=up, seconds=seconds, took=took))
            return INTERRUPTED if self._interruption.asked else 1
        return self._summed_up(counts)

    def _watched(self, run: Run, seconds: float | None, before: Counts) -> tuple[bool, float]:
        """Wait for the end; say whether the stream was up, and since when in seconds."""
        began = reported = time.monotonic()
        up_at = math.inf
        while not run.wait(POLL_SECONDS) and not self._interruption.asked:
            now = time.monotonic()
            if up_at == math.inf and (run.up or now - began > START_SECONDS):
                up_at = now
            if seconds is not None and now - up_at >= seconds:
                break
            if now - reported >= REPORT_SECONDS:
                self._report(run, now - reported, before)
                reported = now
        since = up_at if up_at < math.inf else began
        return run.up, time.monotonic() - since

    def _report(self, run: Run, window: float, before: Counts) -> None:
        if not self._quiet:
            line = status_line(self._session, run, before, self._last, window)
            self._last = Counts.of(self._session)
            self._console.print(Text(line, "dim"), soft_wrap=True)
        news = self._log.news()
        told = self._session.engine.trouble or run.failure is not None  # in words of our own
        if news and not told and not self._log_named:
            self._log_named = True
            self._warn(f"Spark wrote of an error, see {self._log.path}: {news[:160]}")

    def _summed_up(self, counts: Counts) -> int:
        for line in () if self._quiet and not counts.aside else summary(counts, self._root()):
            self._console.print(Text(line), soft_wrap=True)
        failing = list(sink_troubles(self._session))
        for words, error in failing:
            self._warn(f"{words}; it is tried again at the next run: {error}")
        return 1 if failing else 0

    def _root(self) -> str:
        return self._session.engine.root.uri.removeprefix("file://")

    def _warn(self, line: str) -> None:
        self._warnings.print(Text.assemble(("warning: ", "yellow"), line), soft_wrap=True)


def _no_epoch(
    run: Run, troubles: list[str], *, up: bool, seconds: float | None, took: float
) -> str:
    """Say that a run did nothing, and why that may be."""
    if run.failure is not None:
        why = str(run.failure).split("\n", 1)[0]
    elif troubles:
        why = "; ".join(troubles)
    elif not up:
        why = f"Spark had not called the first one after {print_seconds(took)}"
    elif seconds is not None:
        why = f"the first one takes longer than --seconds {seconds:g}, counted from when the "
        why += "stream is up; give it more"
    else:
        why = "the run was stopped before the first one was done"
    return f"no epoch was completed; {why}"
