"""The shell behind its prompt: statements go to the server, what it says is printed.

It knows no terminal: `prompt` reads lines from one, and tests and scripts give it text.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from rich.text import Text

from millrace.cli.shell.names import shown
from millrace.cli.shell.pieces import Piece, pieces
from millrace.cli.shell.printing import Printer
from millrace.cli.terminal import make_console, print_error, print_seconds
from millrace.cli.waiting import waiting_for
from millrace.client.client import Client
from millrace.client.handles import RemoteQuery
from millrace.errors import MillraceError, UnknownNameError

_ASKS = re.compile(r"\s*(?:--[^\n]*\n\s*)*\(*\s*(?:SELECT|WITH|VALUES)\b", re.IGNORECASE)
_SUBSCRIBE = re.compile(
    r"""\s*SUBSCRIBE\s+(?:TO\s+)?("(?:[^"]|"")+"|[^\s;]+)(?:\s+FROM\s+('[^']*'|[^\s;]+))?\s*""",
    re.IGNORECASE,
)
_DECLARES = re.compile(r"\s*(?:CREATE|DROP)\b", re.IGNORECASE)


class Shell:
    """A client and how its answers are printed."""

    def __init__(self, client: Client, printer: Printer) -> None:
        self.client, self.printer = client, printer
        self.timing = False
        self.last: Piece | None = None
        self.declared: Callable[[], None] = lambda: None
        """Called when names may have changed."""

    def script(self, text: str) -> None:
        """Do all statements of a text, up to one that fails; errors tell lines of the text."""
        for piece in pieces(text):
            self.do(piece, text)

    def do(self, piece: Piece, whole: str = "") -> None:
        """Do one statement; Ctrl-C ends what it waits for."""
        self.last = piece
        began = time.monotonic()
        text = piece.placed_in(whole) if whole else piece.text
        if found := _SUBSCRIBE.fullmatch(piece.text):
            self.tail(_unquoted(found[1]), (found[2] or "").strip("'") or None)
            return
        if _ASKS.match(text):
            with waiting_for("asking"):
                result = self.client.sql(text)
            self.printer.result(result)
        else:
            with waiting_for("doing it"):
                outcomes = self.client.execute(text)
            for outcome in outcomes:
                if outcome.result is not None:
                    self.printer.result(outcome.result)
                else:
                    self.printer.said(outcome.message)
            if _DECLARES.match(text):
                self.declared()
        self.tell_time(time.monotonic() - began)

    def tail(self, name: str, after: str | None) -> None:
        """Print the answers of a query as they come, until Ctrl-C; then say how to go on."""
        query = self.client.standing(name)
        if not isinstance(query, RemoteQuery):
            raise UnknownNameError(
                f'"{name}" is a template', hint="Subscribe to one of its queries."
            )
        self.note(f'answers of "{name}" as they come; Ctrl-C ends')
        cursor, header = after, True
        try:
            for result in query.changes(after=after):
                self.printer.rows(result, header=header)
                cursor, header = result.cursor, False
        except KeyboardInterrupt:
            on = "" if cursor is None else f"go on with: SUBSCRIBE {shown(name)} FROM '{cursor}';"
            self.note(f"\n{on}".rstrip(" "))

    def watch(self, seconds: float) -> None:
        """Do the last statement again and again, until Ctrl-C."""
        piece = self.last
        if piece is None:
            self.note("there is no statement yet to watch")
            return
        console = make_console()
        try:
            while True:
                if console.is_terminal:
                    console.clear()
                words = f"every {seconds:g} s: {' '.join(piece.text.split())}"
                console.print(Text(words, "dim"), overflow="ellipsis", no_wrap=True)
                self.attempt(lambda: self.do(piece))
                time.sleep(seconds)
        except KeyboardInterrupt:
            self.note("")

    def attempt(self, action: Callable[[], None]) -> bool:
        """Do something; print an error instead of raising it."""
        try:
            action()
        except MillraceError as error:
            print_error(error)
            return False
        return True

    def note(self, words: str) -> None:
        """Say something that is not data."""
        make_console(stderr=True).print(Text(words, "dim"), soft_wrap=True)

    def tell_time(self, seconds: float) -> None:
        """Say how long a statement took, if that is wanted."""
        if self.timing:
            self.note(f"took {print_seconds(seconds)}")


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
