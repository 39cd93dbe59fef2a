"""The logs of a run: what Spark's processes write, and what millrace itself has to say at length.

    <root>/logs/spark.log       standard error of the JVM and of its Python processes
    <root>/logs/millrace.log    every message of ours, with tracebacks

The terminal gets our warnings, a line each, and one line if Spark wrote something that is not
the noise of its start. What it writes when it is told to stop stays in the file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from millrace.errors import StoreError

LARGEST_LOG = 16 << 20
_TELLING = ("ERROR", "Exception", "Error:", "Traceback", "Fatal", "SIGSEGV")
_FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class SparkLog:
    """The file that Spark writes to, from where it stands now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read_to = path.stat().st_size if path.exists() else 0

    def news(self) -> str:
        """Return the first line since the last call that speaks of an error; empty if none does."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                text = file.read()
        except FileNotFoundError:
            return ""
        self._read_to += len(text)
        lines = text.decode(errors="replace").splitlines()
        return next((line.strip() for line in lines if any(word in line for word in _TELLING)), "")


@contextmanager
def run_logs(root: Path, console: Console) -> Iterator[SparkLog]:
    """Write logs into a root while a run lasts, and warnings to a console."""
    directory = root / "logs"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in ("spark.log", "millrace.log"):
            _roll(directory / name)
        file = logging.FileHandler(directory / "millrace.log", encoding="utf-8")
    except OSError as cause:
        raise StoreError(
            f'directory "{root}" cannot be written to', detail=f"The system says: {cause.strerror}."
        ) from cause
    file.setFormatter(logging.Formatter(_FORM))
    shown, everything, ours = _Lines(console), logging.getLogger(), logging.getLogger("millrace")
    before = ours.level
    ours.setLevel(logging.INFO)
    everything.addHandler(file)
    ours.addHandler(shown)
    try:
        yield SparkLog(directory / "spark.log")
    finally:
        ours.removeHandler(shown)
        everything.removeHandler(file)
        ours.setLevel(before)
        file.close()


class _Lines(logging.Handler):
    """Prints the first line of each warning; the rest is in the file."""

    def __init__(self, console: Console) -> None:
        super().__init__(logging.WARNING)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage().split("\n", 1)[0]
        self._console.print(Text.assemble(("warning: ", "yellow"), line), soft_wrap=True)


def _roll(path: Path) -> None:
    if path.exists() and path.stat().st_size > LARGEST_LOG:
        path.replace(path.with_suffix(".log.old"))
