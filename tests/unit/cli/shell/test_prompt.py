"""The shell on a terminal: what a person types and sees."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pexpect
import pyte
import pytest

import millrace
from millrace.testing.server_process import ServerProcess

LINES, COLUMNS = 40, 110
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Terminal:
    """A shell in a pseudo terminal, and the screen that a person would see."""

    def __init__(self, url: str, home: Path) -> None:
        environment = {
            **os.environ,
            "TERM": "xterm-256color",
            "XDG_STATE_HOME": str(home),
            "EDITOR": "sed -i s/price/symbol/",
        }
        self._screen = pyte.Screen(COLUMNS, LINES)
        self._stream = pyte.ByteStream(self._screen)
        self._child = pexpect.spawn(
            sys.executable,
            ["-m", "millrace.cli.main", "sql", url],
            env=environment,
            dimensions=(LINES, COLUMNS),
        )

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display if line.strip()]

    def type(self, keys: str) -> None:
        self._child.send(keys)

    def until(self, seen: Callable[[list[str]], object], seconds: float = 30) -> list[str]:
        """Read until the screen is as expected."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self._read()
            if seen(self.lines):
                return self.lines
        raise AssertionError("\n".join(["the screen is", *self.lines]))

    def sees(self, *texts: str) -> list[str]:
        return self.until(lambda lines: all(each in "\n".join(lines) for each in texts))

    def prompts(self) -> list[str]:
        return self.until(lambda lines: lines and lines[-1] == "millrace>")

    def clear(self) -> None:
        self.prompts()
        self.type("\x0c")
        self.until(lambda lines: lines == ["millrace>"])

    def close(self) -> None:
        self._child.close(force=True)

    def ended(self) -> int | None:
        ends = time.monotonic() + 10
        while self._child.isalive() and time.monotonic() < ends:
            self._read()
        status: int | None = self._child.exitstatus
        return status

    def _read(self) -> None:
        try:
            piece = self._child.read_nonblocking(65_536, 0.1)
        except (pexpect.TIMEOUT, pexpect.EOF):
            return
        self._stream.feed(piece)
        if b"\x1b[6n" in piece:  # the shell asks where the cursor is
            self._child.send(f"\x1b[{self._screen.cursor.y + 1};{self._screen.cursor.x + 1}R")


@pytest.fixture
def stream(server: ServerProcess) -> str:
    name = f"trades_{uuid4().hex[:6]}"
    with millrace.connect(server.url) as client:
        client.stream(name, "symbol text, price double, ts timestamp", time="ts")
        client.query(f"SELECT symbol, price FROM {name} WHERE price > 100", name=f"big_{name}")
        client.push(name, [{"symbol": "ACME", "price": 120.0, "ts": NOON}])
        query = client.standing(f"big_{name}")
        ends = time.monotonic() + 20
        while not len(query.results()) and time.monotonic() < ends:
            time.sleep(0.05)
    return name


@pytest.fixture
def terminal(server: ServerProcess, tmp_path: Path) -> Iterator[Terminal]:
    made = Terminal(server.url, tmp_path)
    made.sees("connected to")
    yield made
    made.close()


def test_a_conversation(terminal: Terminal, stream: str) -> None:
    terminal.prompts()
    terminal.type(f"SELECT symbol,\r  price FROM big_{stream};\r")
    terminal.sees("      ...   price FROM", "ACME", "120", "1 row")

    terminal.clear()
    terminal.type(f"SELECT prise FROM big_{stream};\r")
    shown = terminal.sees("hint: Did you mean")
    assert any(line.startswith("error: column") for line in shown)
    assert any(line.endswith("|        ^^^^^") for line in shown)

    terminal.clear()
    terminal.type("\\timing\r")
    terminal.sees("times are told")
    terminal.type("\\x\r")
    terminal.sees("a line for each value")
    terminal.type(f"SELECT symbol FROM big_{stream};\r")
    terminal.sees("-[ 1 ]-", "symbol  ACME", "took ")

    terminal.clear()
    terminal.type(f"\\d {stream}\r")
    terminal.sees("columns    symbol text, price double, ts timestamp")
    terminal.type("\\?\r")
    terminal.sees("\\watch [SECONDS]")
    terminal.type("\\nothing\r")
    terminal.sees('command "\\nothing" does not exist')
    terminal.type("\\q\r")
    assert terminal.ended() == 0


def test_names_are_completed(terminal: Terminal, stream: str) -> None:
    terminal.prompts()
    terminal.type(f"SELECT * FROM big_{stream[:-1]}")
    terminal.sees(f"big_{stream}  query")
    terminal.type("\t;\r")
    terminal.sees("ACME", "1 row")


@pytest.mark.slow
def test_answers_are_followed_until_ctrl_c(
    terminal: Terminal, stream: str, server: ServerProcess
) -> None:
    terminal.prompts()
    terminal.type(f"SUBSCRIBE big_{stream};\r")
    terminal.sees("Ctrl-C ends")
    time.sleep(1)
    with millrace.connect(server.url) as client:
        for second in (1, 2):
            client.push(stream, {"symbol": [f"S{second}"], "price": [200.0],
                                 "ts": [NOON.replace(second=second)]})  # fmt: skip
            terminal.sees(f"S{second}")
    terminal.type("\x03")
    shown = terminal.sees("go on with: SUBSCRIBE")
    again = next(line for line in shown if "go on with" in line).partition(": ")[2]

    with millrace.connect(server.url) as client:
        client.push(stream, {"symbol": ["LATER"], "price": [200.0],
                             "ts": [NOON.replace(second=3)]})  # fmt: skip
    terminal.clear()
    terminal.type(f"{again}\r")
    shown = terminal.sees("LATER")
    assert not any(line.startswith("S2") for line in shown)


@pytest.mark.slow
def test_watching_goes_on_until_ctrl_c(terminal: Terminal, stream: str) -> None:
    terminal.prompts()
    terminal.type(f"SELECT symbol FROM big_{stream};\r")
    terminal.sees("1 row")
    terminal.type("\\watch 0.2\r")
    terminal.sees("every 0.2 s: SELECT symbol", "ACME")
    terminal.type("\x03")
    terminal.prompts()


@pytest.mark.slow
def test_what_was_typed_is_there_the_next_time(
    server: ServerProcess, tmp_path: Path, stream: str
) -> None:
    first = Terminal(server.url, tmp_path)
    try:
        first.prompts()
        first.type(f"SELECT price FROM big_{stream};\r")
        first.sees("120")
        first.type("\\e\r")  # the editor of this test asks for something else
        first.sees(f"millrace> SELECT symbol FROM big_{stream}")
    finally:
        first.close()
    kept = tmp_path / "millrace" / "sql_history"
    assert kept.stat().st_mode & 0o077 == 0

    second = Terminal(server.url, tmp_path)
    try:
        second.prompts()
        second.type("\x1b[A\x1b[A")
        second.sees(f"millrace> SELECT price FROM big_{stream};")
    finally:
        second.close()
