"""`millrace doctor`: facts in lines, problems with their cure."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.cli import doctor
from millrace.cli.main import main


def test_each_check_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["doctor"])

    lines = capsys.readouterr().out.splitlines()
    facts = [line for line in lines if " ok " in line or " problem " in line]
    assert len(facts) == len(doctor.CHECKS)
    assert "Python" in facts[0]


def test_a_cache_that_cannot_be_written_is_a_problem_with_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "cache"))

    status = main(["doctor"])

    said = capsys.readouterr().out
    assert status == 1
    assert "cannot be written: each process compiles again" in said
    assert "cure: Set NUMBA_CACHE_DIR" in said
    assert "1 problem" in said


def test_a_java_home_without_java_is_passed_over_or_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")

    fact = doctor.java()

    assert fact.fine is ("bundled" in fact.found)


def test_no_room_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_ROOM", 1 << 60)

    assert "Make room" in doctor.room().cure
