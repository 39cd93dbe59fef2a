"""What import-linter cannot see: the size and the names of modules."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
MODULES = sorted((ROOT / "src").rglob("*.py"))


def rules() -> dict[str, Any]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    table: dict[str, Any] = pyproject["tool"]["millrace"]["architecture"]
    return table


def n_lines(module: Path) -> int:
    return len(module.read_text(encoding="utf-8").splitlines())


def test_a_module_is_short_or_has_a_reason() -> None:
    limit, longer = rules()["max_module_lines"], rules()["longer_modules"]

    too_long = {
        name: n_lines(module)
        for module in MODULES
        if (name := str(module.relative_to(ROOT))) not in longer and n_lines(module) > limit
    }

    assert too_long == {}


def test_every_exemption_is_still_needed() -> None:
    limit, longer = rules()["max_module_lines"], rules()["longer_modules"]

    needless = [
        name for name in longer if not (ROOT / name).exists() or n_lines(ROOT / name) <= limit
    ]

    assert needless == []


def test_a_module_is_named_after_an_idea() -> None:
    forbidden = set(rules()["forbidden_module_names"])

    vague = [
        str(module.relative_to(ROOT))
        for module in MODULES
        if forbidden & {*module.stem.split("_"), *(part.name for part in module.parents)}
    ]

    assert vague == []


@pytest.mark.parametrize(
    "module",
    ["cli.main", "server.supervisor", "spark.control", "spark.file_source", "spark.push_source"],
)
def test_a_process_that_runs_no_engine_does_not_load_one(module: str) -> None:
    """Spark starts three for each kind of source, one after another, before the first epoch."""
    if module.startswith("spark."):
        pytest.importorskip("pyspark")
    code = f"import sys, millrace.{module}; print('numba' in sys.modules)"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout == "False\n"
