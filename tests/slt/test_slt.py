"""Every `.slt` file, in every way to run it.

`BLESS=1 pytest tests/slt` writes what was found into the files, unless the oracle disagrees.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.testing.slt import Statement, read_script
from millrace.testing.slt_inprocess import InProcessDriver
from millrace.testing.slt_report import bless
from millrace.testing.slt_runner import Runner
from millrace.testing.slt_ways import DEFAULT, PLANS, WAYS, Way

HERE = Path(__file__).parent
FILES = sorted(HERE.rglob("*.slt"))
CASES = [(way, path) for way in WAYS for path in FILES if way.takes(path)]


@pytest.mark.parametrize(
    ("way", "path"),
    [
        pytest.param(
            way,
            path,
            id=f"{way.name}:{path.relative_to(HERE)}",
            marks=[] if way.quick(path) else [pytest.mark.slow],
        )
        for way, path in CASES
    ],
)
def test_a_file_says_what_happens(way: Way, path: Path) -> None:
    script = read_script(path)
    driver = InProcessDriver(way)
    with way.applied():
        report = Runner(script, way, driver).run()
    driver.close()

    assert not report.problems, "\n".join(report.problems)
    if os.environ.get("BLESS") and way == DEFAULT:
        path.write_text(bless(script, report), encoding="utf-8")
    else:
        assert not report.open_to_doubt, "\n".join(report.open_to_doubt)


@pytest.mark.parametrize("way", WAYS, ids=[way.name for way in WAYS])
def test_every_way_runs_enough_files(way: Way) -> None:
    n_files = sum(way.takes(path) for path in FILES)

    assert n_files == len(FILES) if way == DEFAULT else n_files >= 15


def test_there_are_enough_cases_of_queries_that_are_more_than_selections() -> None:
    """A case is a query with all that it answers, or with the message that refuses it."""
    steps = [
        step
        for directory in PLANS
        for path in (HERE / directory).rglob("*.slt")
        for step in read_script(path).steps
        if isinstance(step, Statement) and step.word == "query"
    ]

    assert sum(step.error is None for step in steps) >= 400
    assert sum(step.error is not None for step in steps) >= 40
