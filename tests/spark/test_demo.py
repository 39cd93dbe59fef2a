"""The demonstration as a stranger runs it, in a pipe: it kills, recovers, and proves it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_it_kills_its_driver_recovers_and_finds_every_row_once(tmp_path: Path) -> None:
    place, picture = tmp_path / "demo", tmp_path / "demo.svg"
    options = ["--seconds", "8", "--rate", "1000", "--root", str(place), "--save-svg", str(picture)]

    done = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "demo", *options],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "SIGKILL: driver process" in done.stdout
    assert "recovered in" in done.stdout
    assert "The driver was killed; no row was lost and none came twice." in done.stdout
    assert "\x1b" not in done.stdout
    assert picture.read_text().startswith("<svg")
    verified = subprocess.run(
        [sys.executable, "-m", "millrace.cli.main", "verify", str(place / "engine")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
