"""What a million standing queries take to hold: in the driver, and in each worker.

Measured in a process of its own, so that no other case's tables are counted.

The driver is two processes, Python and its JVM; the JVM's heap is touched when it starts, so that
garbage which it has not collected yet is not taken for growth. Compared are the largest sizes of
a session without queries and of the same session with all of them.

A worker's own memory is what would be gone with it: the private pages of /proc/<pid>/smaps. Index
files are mapped, not read: their pages belong to the page cache, one copy serves all workers, and
the kernel can drop them. A page of them that only one worker has touched yet is counted as private
by the kernel; those are taken off, and told in the note. The identity worker does the same with
the rows alone, through the same daemon.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.filters_arena import Arena
from bench.filters_rivals import Input, Span, identity
from bench.filters_runs import Contestant, CountSink
from bench.filters_workloads import ALERT_COLUMNS, ALERT_TEXT, Alerts, write_input
from bench.report import Figure
from millrace.spark.backend import jvm_pid
from millrace.spark.launch import local_spark

EPOCHS = 30
ROWS = 50_000
MEGABYTE = 1 << 20
SAMPLE_SECONDS = 0.1
_HEADER = re.compile(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)")


@dataclass(slots=True)
class Peaks:
    """The largest sizes seen, in bytes."""

    python: int = 0
    jvm: int = 0
    worker: int = 0
    mapped: int = 0
    """Pages of index files that one worker alone has touched, and that are not in `worker`."""


def memory(arena: Arena) -> list[Figure]:
    """Measure in another process; return the growth by all queries."""
    n_queries = arena.n(1_000_000)
    command = [sys.executable, "-m", "bench.filters_memory", str(n_queries)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=600, check=True)
    found = {name: Peaks(**each) for name, each in json.loads(done.stdout.splitlines()[-1]).items()}
    empty, full, plain = found["empty"], found["full"], found["identity"]
    driver = (full.python + full.jvm - empty.python - empty.jvm) / MEGABYTE
    worker = (full.worker - plain.worker) / MEGABYTE
    arena.say("memory", f"driver {driver:.0f} MB, worker {worker:.1f} MB")
    parts = (full.python - empty.python) / MEGABYTE, (full.jvm - empty.jvm) / MEGABYTE
    note = f"Python {parts[0]:.0f} MB from {empty.python / MEGABYTE:.0f}, JVM {parts[1]:.0f} MB"
    sizes = full.worker / MEGABYTE, plain.worker / MEGABYTE, full.mapped / MEGABYTE
    how = (
        f"{sizes[0]:.0f} MB against {sizes[1]:.0f} of an identity worker; without {sizes[2]:.0f} MB"
        f" of mapped files that it alone had touched; with no query "
        f"{empty.worker / MEGABYTE:.0f} MB"
    )
    what = f"memory for {n_queries:,} queries"
    return [
        Figure(f"{what}: driver, above an empty session", driver, "at most", 1_024, "MB", note),
        Figure(f"{what}: a worker, above an identity worker", worker, "at most", 30, "MB", how),
    ]


def measure(n_queries: int) -> dict[str, Peaks]:
    """Run I, an empty session, and one with all queries; return the peaks of each."""
    population = Alerts(n_queries, 10_000, 5)
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as folder:
        scratch = Path(folder)
        write_input(scratch / "in", population.rows(ROWS // 2), files=4 * EPOCHS)
        given = Input(scratch / "in", ALERT_COLUMNS, ROWS)
        spark = local_spark(cores=2, memory="1g", java_options="-Xms1g -XX:+AlwaysPreTouch")
        jvm = jvm_pid(spark)
        peaks = {name: Peaks() for name in ("identity", "empty", "full")}
        with _sampled(peaks["identity"], jvm, scratch):
            identity(spark, given, Span(5, EPOCHS - 5))
        with Contestant(spark, scratch / "root", given, CountSink()) as ours:
            template = ours.session.template("alerts", ALERT_TEXT, sym="text", low="double")
            with _sampled(peaks["empty"], jvm, scratch), ours.running():
                ours.wait_epochs(EPOCHS // 2)
            with _sampled(peaks["full"], jvm, scratch), ours.running():
                template.insert(population.parameters())
                ours.wait_epochs(EPOCHS)
        spark.stop()
    return peaks


@contextmanager
def _sampled(peaks: Peaks, jvm: int, scratch: Path) -> Iterator[None]:
    """Look at the processes ten times a second."""
    stopped = threading.Event()

    def look() -> None:
        while not stopped.wait(SAMPLE_SECONDS):
            peaks.python = max(peaks.python, _resident("self"))
            peaks.jvm = max(peaks.jvm, _resident(str(jvm)))
            for worker in workers(jvm):
                own, mapped = _private(worker, str(scratch))
                if own > peaks.worker:
                    peaks.worker, peaks.mapped = own, mapped

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def workers(jvm: int) -> list[int]:
    """Return the Python workers: the children of the JVM's Python daemon."""
    daemons = [each for each in _children(jvm) if "millrace.spark.daemon" in _command(each)]
    return [worker for daemon in daemons for worker in _children(daemon)]


def _children(process: int) -> list[int]:
    found: list[int] = []
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += map(int, path.read_text().split())
        except OSError:  # it has ended
            continue
    return found


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _resident(process: str) -> int:
    text = Path(f"/proc/{process}/status").read_text()
    return int(text.partition("VmRSS:")[2].split()[0]) << 10


def _private(process: int, scratch: str) -> tuple[int, int]:
    """Return a process's own bytes, and those of files in `scratch` that only it has mapped."""
    try:
        lines = Path(f"/proc/{process}/smaps").read_text().splitlines()
    except OSError:
        return 0, 0
    own = mapped = 0
    in_scratch = False
    for line in lines:
        if header := _HEADER.fullmatch(line):
            in_scratch = header[1].startswith(scratch)
        elif line.startswith(("Private_Clean:", "Private_Dirty:")):
            size = int(line.split()[1]) << 10
            if in_scratch:
                mapped += size
            else:
                own += size
    return own, mapped


if __name__ == "__main__":
    sizes = {name: asdict(each) for name, each in measure(int(sys.argv[1])).items()}
    print(json.dumps(sizes))
