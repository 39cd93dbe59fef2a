"""The command line as a whole: help, wrong calls, errors in words, exit statuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import millrace
from millrace.cli.main import COMMANDS, main

NAMES = [command.NAME for command in COMMANDS]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert all(f"\n    {command.NAME} " in shown for command in COMMANDS)
    assert "exit status" in shown


@pytest.mark.parametrize("name", NAMES)
def test_help_of_a_command_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])

    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert f"usage: millrace {name}" in shown
    assert f"examples:\n  millrace {name}" in shown


def test_hidden_flags_stay_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["demo", "--help"])

    assert "svg" not in capsys.readouterr().out


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"millrace {millrace.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ([], "COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["inspect"], "ROOT"),
        (["verify", "a", "b"], "unrecognized arguments: b"),
        (["demo", "--seconds", "-3"], "-3 is not greater than 0"),
        (["demo", "--rate", "nan"], "nan is not greater than 0"),
        (["demo", "--rate", "many"], "many"),
    ],
)
def test_a_wrong_call_is_answered_with_2_and_a_hint(
    arguments: list[str], fact: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(arguments)

    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert fact in said.err
    assert "  hint: See `millrace" in said.err


def test_an_error_is_printed_in_its_parts_and_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = main(["inspect", str(tmp_path)])

    assert status == 1
    assert capsys.readouterr().err == (
        f'error: directory "{tmp_path}" is not a root\n'
        "  detail: No engine has ever opened it.\n"
        "  hint: Give the directory that was given to millrace.Session.\n"
    )


def test_a_demo_refuses_a_directory_with_something_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("precious")

    status = main(["demo", "--root", str(tmp_path)])

    assert status == 1
    assert f'directory "{tmp_path}" is not empty' in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_it_runs_as_a_module_and_its_reader_may_leave() -> None:
    command = f"{sys.executable} -m millrace.cli.main --help | head -n 1"

    done = subprocess.run(["sh", "-c", command], check=True, capture_output=True, text=True)

    assert done.stdout == "usage: millrace [-h] [--version] COMMAND ...\n"
    assert done.stderr == ""
