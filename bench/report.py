"""What every benchmark prints: a table for people, and one line of JSON for programs."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table

Bound = Literal["at most", "at least", "reported"]


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure and what it must reach."""

    case: str
    value: float
    bound: Bound
    required: float | None
    unit: str
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether the figure reaches what is required of it."""
        if self.required is None:
            return True
        if self.bound == "at most":
            return bool(self.value <= self.required)
        return bool(self.value >= self.required)


def machine() -> str:
    """Describe the machine in a line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}"
    )


def progress(case: str, message: str) -> None:
    """Say how far a benchmark is."""
    Console(stderr=True).print(f"  {case:>16}  {message}", highlight=False)


def publish(title: str, figures: list[Figure], keep: Path | None = None) -> None:
    """Print the table and the line; keep the line with the machine's description."""
    table = Table(title=title, caption=machine())
    table.add_column("case")
    table.add_column("measured", justify="right")
    table.add_column("required", justify="right")
    table.add_column("")
    table.add_column("how", overflow="fold")
    for each in figures:
        required = "" if each.required is None else f"{each.bound} {each.required:g} {each.unit}"
        verdict = "" if each.required is None else ("[green]ok" if each.ok else "[red]missed")
        table.add_row(each.case, f"{each.value:.4g} {each.unit}", required, verdict, each.note)
    Console(width=None if Console().is_terminal else 140).print(table)
    cases = {
        each.case: {"value": round(float(each.value), 4), "required": each.required, "ok": each.ok}
        for each in figures
    }
    if keep is not None:
        keep.parent.mkdir(parents=True, exist_ok=True)
        keep.write_text(json.dumps({"machine": machine(), "cases": cases}, indent=2) + "\n")
    print(json.dumps(cases))
