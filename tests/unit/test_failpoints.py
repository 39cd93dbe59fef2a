"""Failpoints: every name is used somewhere, and acts when and as often as it should."""

from __future__ import annotations

import errno
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace import failpoints
from millrace.failpoints import ACTIONS, POINTS, VARIABLE, InjectedCrash

SOURCES = Path(__file__).parents[2] / "src" / "millrace"


@pytest.fixture(autouse=True)
def nothing_armed() -> Iterator[None]:
    yield
    failpoints.disarm()


def test_the_points_are_exactly_those_that_the_code_passes() -> None:
    found = {
        name
        for module in SOURCES.rglob("*.py")
        if "testing" not in module.parts
        for name in re.findall(r'failpoints\.reach\(\s*"([^"]+)"', module.read_text())
    }

    assert found == set(POINTS)
    assert len(set(POINTS)) == len(POINTS)


def test_an_armed_point_acts_at_the_passing_that_was_asked_for_and_once() -> None:
    failpoints.arm("commit.before", "raise", after=3)
    for _ in range(2):
        failpoints.reach("commit.before")
        failpoints.reach("commit.after")
    with pytest.raises(InjectedCrash, match=r"commit\.before"):
        failpoints.reach("commit.before")
    failpoints.reach("commit.before")

    assert failpoints.passed("commit.before") == 4
    assert failpoints.passed("commit.after") == 0


def test_no_ordinary_handler_swallows_a_crash() -> None:
    assert not issubclass(InjectedCrash, Exception)


@pytest.mark.parametrize(("action", "code"), [("fail", errno.EIO), ("full", errno.ENOSPC)])
def test_errors_of_the_disk(action: str, code: int) -> None:
    failpoints.arm("log.before", action)
    with pytest.raises(OSError, match="injected at log") as found:
        failpoints.reach("log.before")

    assert found.value.errno == code


def test_a_point_shared_by_processes_acts_for_the_first_alone(tmp_path: Path) -> None:
    for expected in (True, False):
        failpoints.arm("log.before", "raise", once=tmp_path / "once")
        try:
            failpoints.reach("log.before")
            acted = False
        except InjectedCrash:
            acted = True
        assert acted is expected


def test_the_environment_arms_other_processes(tmp_path: Path) -> None:
    program = (
        "from millrace import failpoints\n"
        "failpoints.reach('log.before')\n"
        "print('once')\n"
        "failpoints.reach('log.before')\n"
        "print('twice')\n"
    )
    once = tmp_path / "once"
    armed = f"commit.before=raise,log.before=kill@2#{once}"
    runs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={VARIABLE: armed, "PYTHONPATH": str(SOURCES.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        for _ in range(2)
    ]

    assert [(run.returncode, run.stdout) for run in runs] == [(-9, ""), (0, "once\ntwice\n")]
    assert set(ACTIONS) >= {"raise", "fail", "full", "kill", "segfault", "hang"}


def test_a_name_that_does_not_exist_is_a_mistake_of_the_test() -> None:
    with pytest.raises(AssertionError, match="no such failpoint"):
        failpoints.arm("commit.somewhere", "raise")
    with pytest.raises(AssertionError, match="no such action"):
        failpoints.arm("commit.before", "explode")
