"""What is written about the client is true: examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import millrace

SOURCE = Path(millrace.__file__).parent
MODULES = [
    ".".join(("millrace", *path.relative_to(SOURCE).with_suffix("").parts))
    for folder in ("client", "cli/shell")
    for path in sorted((SOURCE / folder).glob("*.py"))
    if path.stem != "__init__"
]


@pytest.mark.parametrize("name", [*MODULES, "millrace.lang.highlighting"])
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
