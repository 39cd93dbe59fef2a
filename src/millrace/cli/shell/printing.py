"""Results on paper: tables for people, and CSV, JSON and NDJSON for programs.

In the forms for programs only data goes to the output; what was done is told on standard error.
JSON spells values as the server does (`client/json_rows`).
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TextIO

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.cli.terminal import counted, make_console
from millrace.client.json_rows import json_value
from millrace.client.result import Result
from millrace.time import print_instant, to_instant

FORMATS = ("table", "json", "csv", "ndjson")
MOST_ROWS = 1_000
"""So many rows of a table are shown to a person; programs get all."""
NULL = "NULL"


@dataclass(slots=True)
class Printer:
    """Prints results in one form, to one place."""

    form: str = "table"
    expanded: bool = False
    most: int = MOST_ROWS
    file: TextIO | None = None

    @property
    def output(self) -> TextIO:
        """Where data goes."""
        return self.file or sys.stdout

    def result(self, result: Result) -> None:
        """Print the rows of a result."""
        if self.form == "table":
            self._table(result)
        elif self.form == "csv":
            self._csv(result, header=True)
        elif self.form == "json":
            self.output.write("[" + ",\n ".join(map(as_json, result)) + "]\n")
        else:
            self.rows(result)
        self.output.flush()

    def rows(self, result: Result, *, header: bool = False) -> None:
        """Print rows that are some of many, one a line; a header only where it is asked for."""
        if self.form == "csv":
            self._csv(result, header=header)
        elif self.form == "table":
            self._lines(result, header=header)
        else:
            self.output.writelines(f"{as_json(row)}\n" for row in result)
        self.output.flush()

    def properties(self, found: dict[str, str | None]) -> None:
        """Print what is known of one thing."""
        if self.form != "table":
            self.result(Result(pa.table({name: [value] for name, value in found.items()})))
            return
        console, width = self._console(), max(map(len, found), default=0)
        for name, value in found.items():
            line = Text.assemble((name.ljust(width), "bold"), "  ", value or "")
            console.print(line, soft_wrap=True)

    def said(self, message: str) -> None:
        """Print what a statement did."""
        to = self._console() if self.form == "table" else make_console(stderr=True)
        to.print(Text(message), soft_wrap=True)

    def _console(self) -> Console:
        if self.file is None:
            return make_console()
        return Console(file=self.file, width=200, highlight=False)

    def _table(self, result: Result) -> None:
        console, table = self._console(), result.to_arrow()
        shown = table.slice(0, self.most)
        if self.expanded:
            _expanded(shown, console)
        elif table.num_columns:
            console.print(_grid(shown))
        rest = table.num_rows - shown.num_rows
        words = counted(table.num_rows, "row") + (f", {rest:,} not shown" if rest else "")
        console.print(Text(words, "dim"))

    def _csv(self, result: Result, *, header: bool) -> None:
        writer = csv.writer(self.output, lineterminator="\n")
        if header:
            writer.writerow(result.column_names)
        for row in result:
            writer.writerow(["" if value is None else _plain(value) for value in row.values()])

    def _lines(self, result: Result, *, header: bool) -> None:
        """Print rows of a table that has no end: columns are as wide as their names ask for."""
        widths = [max(len(name), _WIDTHS.get(str(kind), 12)) for name, kind in
                  zip(result.column_names, result.schema.types, strict=True)]  # fmt: skip
        rows: Iterable[list[str]] = ([cell(value) for value in row.values()] for row in result)
        right = [_is_number(each) for each in result.schema.types]
        for line in [*([result.column_names] if header else []), *rows]:
            cells = [
                each.rjust(width) if to_right else each.ljust(width)
                for each, width, to_right in zip(line, widths, right, strict=True)
            ]
            self.output.write("  ".join(cells).rstrip() + "\n")


_WIDTHS = {"timestamp[us, tz=UTC]": 27, "double": 10, "bool": 5, "int32": 8}


def as_json(row: dict[str, Any]) -> str:
    """Spell a row as one line of JSON."""
    return json.dumps({name: json_value(value) for name, value in row.items()}, ensure_ascii=False)


def cell(value: object) -> str:
    r"""Spell a value for a person.

    >>> cell(None), cell(0.1), cell(b"\x01"), cell(["a", None])
    ('NULL', '0.1', "X'01'", '{a, NULL}')
    """
    match value:
        case None:
            return NULL
        case float():
            return f"{value:.15g}"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return print_instant(to_instant(value)).replace("T", " ").removesuffix("Z")
        case list():
            return "{" + ", ".join(map(cell, value)) + "}"
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _plain(value: object) -> object:
    spelt = json_value(value)
    return json.dumps(spelt, ensure_ascii=False) if isinstance(spelt, list) else spelt


def _is_number(kind: pa.DataType) -> bool:
    tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    return any(test(kind) for test in tests)


def _grid(table: pa.Table) -> Table:
    shown = Table(header_style="bold", box=None, pad_edge=False)
    for field in table.schema:
        justify = "right" if _is_number(field.type) else "left"
        shown.add_column(Text(field.name), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in _pyrows(table):
        shown.add_row(*(_painted(value) for value in row.values()))
    return shown


def _expanded(table: pa.Table, console: Console) -> None:
    width = max((len(name) for name in table.column_names), default=0)
    for number, row in enumerate(_pyrows(table), 1):
        console.print(Text(f"-[ {number} ]-", "dim"))
        for name, value in row.items():
            console.print(Text.assemble((name.ljust(width), "bold"), "  ", _painted(value)))


def _painted(value: object) -> Text:
    return Text(cell(value), "dim" if value is None else "")


def _pyrows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows
