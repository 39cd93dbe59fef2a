"""What every command prints with: consoles, errors, and numbers for people."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.text import Text

from millrace.errors import MillraceError

PIPE_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The signs of a view, for terminals that know Unicode and for those that do not."""

    bars: str
    spinner: str
    line: str
    dot: str
    done: str
    failed: str
    gap: str
    overflow: Literal["ellipsis", "crop"]


UNICODE = Glyphs("▁▂▃▄▅▆▇█", "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "━", "●", "✔", "✖", "✗", "ellipsis")
ASCII = Glyphs("_.-:=+*#", "|/-\\", "-", "*", "+", "x", "x", "crop")


def make_console(*, stderr: bool = False) -> Console:
    """Make a console; into a pipe it writes plain lines that are not broken at 80 columns.

    Rich itself leaves colours out where NO_COLOR is set or the output is no terminal.
    """
    console = Console(stderr=stderr, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = PIPE_WIDTH
    return console


def glyphs_for(console: Console) -> Glyphs:
    """Choose the signs that the console's encoding can carry."""
    return UNICODE if console.encoding.lower().startswith("utf") else ASCII


def print_error(error: MillraceError, console: Console | None = None) -> None:
    """Print an error in its three parts, without a traceback."""
    console = console or make_console(stderr=True)
    console.print(Text.assemble(("error: ", "bold red"), (error.message, "bold")), soft_wrap=True)
    for line in error.excerpt.splitlines():
        console.print(Text(line), soft_wrap=True)
    for label, text in (("detail", error.detail), ("hint", error.hint)):
        if text:
            console.print(Text.assemble((f"  {label}: ", "dim"), text), soft_wrap=True)


def interrupted() -> int:
    """Say that the user ended the command; return the status that shells expect."""
    print("\ninterrupted", file=sys.stderr)
    return 130


def print_seconds(seconds: float) -> str:
    """Print a duration so that its size is seen at a glance.

    Examples
    --------
    >>> print_seconds(0.0421), print_seconds(1.26), print_seconds(90), print_seconds(7_300)
    ('42 ms', '1.3 s', '90 s', '2.0 h')
    """
    if seconds < 1:
        return f"{1_000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7_200 else f"{seconds / 3_600:.1f} h"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Print a number with its noun.

    Examples
    --------
    >>> counted(1, "query", "queries"), counted(2_000, "row")
    ('1 query', '2,000 rows')
    """
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
