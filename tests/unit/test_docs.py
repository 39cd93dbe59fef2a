"""What the documents say is true: samples run, links lead somewhere, names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import millrace
from millrace import failpoints
from millrace.cli.dry_run import dry_run
from millrace.lang.highlighting import FUNCTIONS
from millrace.lang.refusals import AGGREGATES
from millrace.plan.signatures import SIGNATURES

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
PAGES += sorted(each for name in ("docs", "examples") for each in (ROOT / name).rglob("*.md"))


def samples(page: Path) -> list[str]:
    """Return the Python samples of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_sample_without_spark_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    [sample] = [each for each in samples(ROOT / "README.md") if "millrace.Feed" in each]

    exec(compile(sample, "README.md", "exec"), {})

    assert capsys.readouterr().out.strip() == "['ACME']"


def test_the_sample_in_sql_can_be_run_and_run_again() -> None:
    sample, _ = re.findall(r"```sql\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)

    with dry_run() as script:
        told = [[outcome.message for outcome in script.run(sample)] for _ in range(2)]

    assert "2 queries inserted" in told[0]
    assert "0 queries inserted, 2 were there already" in told[1]


def test_the_samples_of_cql_can_be_explained() -> None:
    _, sample = re.findall(r"```sql\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    columns = (
        "(symbol TEXT, {} DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts FROM files(path => '/x/*.csv')"
    )

    with dry_run() as script:
        list(script.run(f"CREATE STREAM trades {columns.format('price')};"))
        list(script.run(f"CREATE STREAM quotes {columns.format('bid')};"))
        asked = [each for each in sample.split(";") if each.strip()]
        told = [outcome for each in asked for outcome in script.run(f"EXPLAIN {each}")]

    assert len(told) == 4
    assert all("appear when the watermark passes" in each.message for each in told)


def test_the_sample_of_templates_can_be_typed(tmp_path: Path) -> None:
    [sample] = [each for each in samples(ROOT / "README.md") if "session.template" in each]
    sample = sample.replace("/data/", f"{tmp_path}/")

    with millrace.Session(tmp_path / "root", threads=False) as session:
        columns = "symbol text, price double, ts timestamp"
        session.stream("trades", millrace.Feed(columns), time="ts")
        names = {"session": session, "millrace": millrace}
        exec(compile(sample, "README.md", "exec"), names)
        alert, watch = session.standing("alert"), session.standing("watch")
        assert isinstance(alert, millrace.Template)
        assert isinstance(watch, millrace.Template)

        assert alert.rows().to_pylist() == [{"_query": 1, "sym": "ACME", "low": 99.5}]
        assert watch.rows()["syms"].to_pylist() == [["ACME", "BOLT"], ["CRUX"]]


def test_every_function_is_listed_and_every_one_that_is_listed_is_known() -> None:
    page = (ROOT / "docs" / "functions.md").read_text()
    listed = set(re.findall(r"([a-z]\w*)\(", page))

    known = set(SIGNATURES) | AGGREGATES & FUNCTIONS | {"date_part", "regexp_like"}
    assert known <= listed
    assert listed <= FUNCTIONS | {"session"}


def test_every_name_that_samples_use_is_public() -> None:
    used = {
        name
        for page in PAGES
        for sample in samples(page)
        for name in re.findall(r"\bmillrace\.([A-Za-z]\w+)\b(?!\.)", sample)
    }

    assert used <= {*millrace.__all__, "spark"}


def test_every_public_name_can_be_loaded_and_says_what_it_is() -> None:
    for name in millrace.__all__:
        assert getattr(millrace, name).__doc__, name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())

    assert [each for each in links if not (page.parent / each).exists()] == []


def test_every_failpoint_is_passed_somewhere() -> None:
    source = "".join(each.read_text() for each in (ROOT / "src").rglob("*.py"))
    unused = [point for point in failpoints.POINTS if f'reach("{point}")' not in source]

    assert unused == []
