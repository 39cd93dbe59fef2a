"""The examples run as their README says, and print what stands beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.cli.main import main

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "examples" / "papers"
SCRIPTS = sorted(PAPERS.glob("*.sql"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.stem)
def test_an_example_prints_what_it_says(
    script: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    named = str(script.relative_to(ROOT))

    status = main(["run", named, "--local", "--root", str(tmp_path), "--seconds", "0.5", "--quiet"])

    said = capsys.readouterr()
    assert said.err == ""
    assert status == 0
    assert lines(said.out) == lines(script.with_suffix(".txt").read_text())


def lines(text: str) -> list[str]:
    """Return lines without the blanks that fill a table."""
    return [each.rstrip() for each in text.splitlines()]


def test_every_example_is_in_the_readme_and_has_its_data() -> None:
    readme = (PAPERS / "README.md").read_text()

    assert len(SCRIPTS) >= 8
    for script in SCRIPTS:
        assert f"({script.name})" in readme
        sources = sorted(script.with_suffix("").glob("*.csv"))
        assert sources
        for each in sources:
            assert str(each.relative_to(ROOT)) in script.read_text()
