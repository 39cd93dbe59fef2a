"""Scripts as commands read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.cli.scripts import read_script
from millrace.errors import PlanError


@pytest.mark.parametrize("text", ["", " \n", "-- later\n", ";;", "/* none */ ;"])
def test_a_script_without_statements_is_nothing_to_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "app.sql").write_text(text)

    with pytest.raises(PlanError, match="nothing to run"):
        read_script(str(tmp_path / "app.sql"))


def test_a_script_with_a_statement_is_read(tmp_path: Path) -> None:
    (tmp_path / "app.sql").write_text("-- now\nSHOW QUERIES;\n")

    assert read_script(str(tmp_path / "app.sql")) == "-- now\nSHOW QUERIES;\n"
