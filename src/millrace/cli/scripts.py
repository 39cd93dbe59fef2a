"""What the commands for scripts share: reading the file, and printing outcomes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.errors import PlanError, SourceError
from millrace.lang.lexical import statements, tokenize

if TYPE_CHECKING:
    from millrace.session.script import Outcome

MOST_ROWS = 50


def read_text(path: str) -> str:
    """Return the text of a file; "-" is standard input."""
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as cause:
        raise SourceError(f'script "{path}" cannot be read', detail=f"{cause.strerror}.") from cause
    except UnicodeDecodeError as cause:
        raise SourceError(
            f'script "{path}" is not UTF-8', detail=f"Byte {cause.start} cannot be read."
        ) from cause


def read_script(path: str) -> str:
    """Return the text of a script, which has a statement; "-" is standard input."""
    text = read_text(path)
    if not any(tokenize(text, span) for span in statements(text)):
        raise PlanError("nothing to run", detail=f'Script "{path}" has no statement.')
    return text


def print_outcome(outcome: Outcome, console: Console) -> None:
    """Print what a statement did."""
    if outcome.table is not None:
        print_table(outcome.table, console)
    elif "\n" in outcome.message:
        console.print(Text(outcome.message), soft_wrap=True)
    else:
        line = f"line {outcome.statement.written.line}"
        console.print(
            Text.assemble(("ok  ", "bold green"), outcome.message, (f"  ({line})", "dim"))
        )


def print_table(
    table: pa.Table, console: Console, title: str = "", *, most: int = MOST_ROWS
) -> None:
    """Print the first rows of a table."""
    shown = Table(title=title or None, title_justify="left", header_style="bold", box=None)
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        shown.add_column(field.name, justify="right" if number else "left", overflow="fold")
    for row in table.slice(0, most).to_pylist():
        shown.add_row(*(_cell(each) for each in row.values()))
    console.print(shown)
    rest = table.num_rows - most
    words = (
        f"{table.num_rows:,} rows" if rest <= 0 else f"{table.num_rows:,} rows, {rest:,} not shown"
    )
    console.print(Text(words, "dim"))


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    return f"{value:g}" if isinstance(value, float) else str(value)
