r"""Commands of the shell itself: a backslash, a word, and what it is about.

\?              what there is
\d trades       what "trades" is
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from rich.text import Text

from millrace.cli.scripts import read_script
from millrace.cli.shell.shell import Shell
from millrace.cli.terminal import counted, make_console
from millrace.client.json_rows import json_value
from millrace.client.result import Result
from millrace.errors import PlanError, SourceError, UnknownNameError

WATCH_SECONDS = 2.0


class QuitShell(Exception):  # noqa: N818  it is a wish and not an error
    """The user wants to leave."""


class EditText(Exception):  # noqa: N818  it is a wish and not an error
    """The user has edited a statement, and wants it in the prompt."""


class Command(NamedTuple):
    """What a word does."""

    usage: str
    summary: str
    do: Callable[[Shell, str], None]


def command(shell: Shell, line: str) -> None:
    """Do the command of a line that begins with a backslash."""
    word, _, argument = line.strip().rstrip(";")[1:].partition(" ")
    found = COMMANDS.get(word)
    if found is None:
        raise PlanError(f'command "\\{word}" does not exist', hint="\\? lists those that do.")
    found.do(shell, argument.strip())


def _help(_: Shell, __: str) -> None:
    console = make_console()
    width = max(len(each.usage) for each in COMMANDS.values())
    for each in COMMANDS.values():
        console.print(Text.assemble((f"  {each.usage.ljust(width)}", "bold"), "  ", each.summary))
    console.print(Text("\n  A statement ends with ; and may have several lines.", "dim"))
    console.print(Text("  SUBSCRIBE query [FROM 'cursor']; prints answers as they come.", "dim"))


def _describe(shell: Shell, name: str) -> None:
    if name:
        _describe_one(shell, _plain(name))
        return
    client = shell.client
    rows = [
        {"kind": kind, "name": each["name"], "columns": _columns(each)}
        for kind, listed in (
            ("stream", client.streams()),
            ("table", client.tables()),
            ("template", client.templates()),
        )
        for each in listed
    ]
    _show(shell, rows, ["kind", "name", "columns"])
    total = int(client.query_page(limit=1)["total"])
    shell.note(f"{counted(total, 'query', 'queries')}; \\dq lists them")


def _describe_one(shell: Shell, name: str) -> None:
    for kind, listed in (
        ("stream", shell.client.streams),
        ("table", shell.client.tables),
        ("template", shell.client.templates),
    ):
        for each in listed():
            if each["name"] == name:
                _properties(shell, {"kind": kind, **each})
                return
    try:
        found = shell.client.standing(name).info()
    except UnknownNameError as error:
        raise UnknownNameError(f'nothing is named "{name}"', hint=error.hint) from error
    _properties(shell, {"kind": "query", **found})


def _queries(shell: Shell, search: str) -> None:
    page = shell.client.query_page(search or None, limit=shell.printer.most)
    columns = ["name", "id", "state", "text"]
    _show(shell, [{key: each.get(key) for key in columns} for each in page["queries"]], columns)
    if int(page["total"]) > len(page["queries"]):
        shell.note(f"of {page['total']:,}; \\dq TEXT searches")


def _watch(shell: Shell, seconds: str) -> None:
    try:
        every = float(seconds or WATCH_SECONDS)
    except ValueError as cause:
        raise PlanError(f'"{seconds}" is not a number of seconds') from cause
    shell.watch(max(every, 0.1))


def _timing(shell: Shell, _: str) -> None:
    shell.timing = not shell.timing
    shell.note(f"times are {'told' if shell.timing else 'not told any more'}")


def _expanded(shell: Shell, _: str) -> None:
    shell.printer.expanded = not shell.printer.expanded
    shell.note(f"a line for each {'value' if shell.printer.expanded else 'row'}")


def _output(shell: Shell, path: str) -> None:
    if shell.printer.file is not None:
        shell.printer.file.close()
        shell.printer.file = None
    if not path:
        return
    try:
        shell.printer.file = Path(path).expanduser().open("w", encoding="utf-8")
    except OSError as cause:
        raise SourceError(f'"{path}" cannot be written', detail=f"{cause.strerror}.") from cause


def _include(shell: Shell, path: str) -> None:
    shell.script(read_script(str(Path(path).expanduser())))


def _edit(shell: Shell, _: str) -> None:
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "statement.sql"
        path.write_text(shell.last.text if shell.last else "", encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(path)], check=False)
        except OSError as cause:
            raise SourceError(
                f'editor "{editor}" cannot be started', hint="Name one in EDITOR."
            ) from cause
        if done.returncode == 0:
            raise EditText(path.read_text(encoding="utf-8").strip())


def _quit(_: Shell, __: str) -> None:
    raise QuitShell


COMMANDS = {
    "?": Command("\\?", "this list", _help),
    "d": Command("\\d [NAME]", "what there is, or what NAME is", _describe),
    "dq": Command("\\dq [TEXT]", "queries, or those whose name or text has TEXT in it", _queries),
    "watch": Command("\\watch [SECONDS]", "do the last statement again and again (2)", _watch),
    "timing": Command("\\timing", "tell how long each statement takes, or not", _timing),
    "x": Command("\\x", "a line for each value, or for each row", _expanded),
    "o": Command("\\o [FILE]", "print results into FILE; alone, to the screen again", _output),
    "i": Command("\\i FILE", "do the statements of FILE", _include),
    "e": Command("\\e", "edit the last statement with $EDITOR", _edit),
    "q": Command("\\q", "leave; so does Ctrl-D", _quit),
}


def _plain(name: str) -> str:
    return name.strip('"')


def _columns(found: dict[str, Any]) -> str:
    listed = found.get("columns") or found.get("parameters") or []
    return ", ".join(
        each if isinstance(each, str) else " ".join(map(str, _pair(each))) for each in listed
    )


def _pair(column: Any) -> list[Any]:  # noqa: ANN401  a name and a type, as an object or a list
    return [column["name"], column["type"]] if isinstance(column, dict) else list(column)


def _show(shell: Shell, rows: list[dict[str, Any]], names: list[str]) -> None:
    arrays = {name: pa.array([_text(row.get(name)) for row in rows], pa.string()) for name in names}
    shell.printer.result(Result(pa.table(arrays)))


def _properties(shell: Shell, found: dict[str, Any]) -> None:
    spelt = {
        name: _columns(found) if name in ("columns", "parameters") else _text(value)
        for name, value in found.items()
        if value not in (None, "", [])
    }
    shell.printer.properties(spelt)


def _text(value: object) -> str | None:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if value is None or isinstance(value, str) else str(json_value(value))
