"""Rules of this package that a type checker cannot see."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import millrace

SOURCE = Path(millrace.__file__).parent
MODULES = sorted((SOURCE / "lang").rglob("*.py"))


def test_trees_are_printed_by_the_printer_only() -> None:
    """Sqlglot's own `.sql()` drops windows in silence unless it is told our dialect."""
    calls = [
        f"{module.relative_to(SOURCE)}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sql"
        and not (isinstance(node.func.value, ast.Name) and node.func.value.id == "self")
    ]

    assert calls == []


@pytest.mark.parametrize(
    "imported", ["millrace", "millrace.engine.epoch", "millrace.operators.select"]
)
def test_sqlglot_is_not_imported_where_it_is_not_needed(imported: str) -> None:
    code = f"import sys, {imported}; sys.exit('sqlglot' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], check=False)

    assert done.returncode == 0
