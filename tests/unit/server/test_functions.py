"""Functions of a server come from the operator's file, and are the same in all its processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import PlanError
from millrace.server.functions import read_functions
from millrace.server.options import ServerOptions
from millrace.testing.serving import STREAM, Served, trade

FILE = """
import pyarrow.compute as pc

def loud(names):
    return pc.binary_join_element_wise(pc.utf8_upper(names), "!", "")

FUNCTIONS = {"loud": (loud, "text")}
"""


def test_queries_call_them_whenever_answers_are_computed(tmp_path: Path) -> None:
    file = tmp_path / "functions.py"
    file.write_text(FILE)

    with Served(tmp_path / "root", functions=file) as served:
        served.sql(STREAM)
        for name, options in {"told": "keep = 10", "lazy": "retain = '1 hour'"}.items():
            served.sql(
                f"CREATE QUERY {name} WITH ({options}) AS "
                "SELECT loud(symbol) AS name FROM trades WHERE loud(symbol) <> 'B!'"
            )
        served.push([trade("a", 1.0), trade("b", 2.0)])

        for name in ("told", "lazy"):
            assert [row["name"] for row in served.results(name, 1)] == ["A!"]
        [asked] = served.sql("SELECT loud(symbol) AS name FROM trades ORDER BY 1")
        assert asked["rows"] == [{"name": "A!"}, {"name": "B!"}]


@pytest.mark.parametrize("text", ["", "FUNCTIONS = 1", "FUNCTIONS = {'f': (1, 'text')}"])
def test_a_file_that_names_none_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "functions.py"
    file.write_text(text)

    with pytest.raises(PlanError, match="names no functions"):
        read_functions(file)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    options = ServerOptions(tmp_path, demo=True, functions=tmp_path / "functions.py")

    with pytest.raises(PlanError, match="does not exist"):
        options.check()
