"""An editor of CQL: words in colours, what is wrong underlined, and the message below it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from nicegui import ui

from millrace.errors import MillraceError
from millrace.server.console.parts import attributed, box, refusal

QUOTED = r"'(?:[^']|'')*'|\"[^\"]*\""
WORDS = re.compile(
    rf"{QUOTED}|\b(?P<word>ISTREAM|DSTREAM|RSTREAM|SLIDE|RETAIN|DELAY|TEMPLATE|EXPLAIN|ANALYZE|"
    r"SUBSCRIBE)\b|(?P<window>\[(?=\s*(?:RANGE|ROWS|NOW|PARTITION|UNBOUNDED|FROM)\b)[^\]]*\])",
    re.IGNORECASE,
)
"""Words of CQL, and windows, which the highlighting of SQL does not know; not what is quoted."""
CHECK_SECONDS = 0.4
THEMES: dict[bool, Literal["githubDark", "githubLight"]] = {
    True: "githubDark",
    False: "githubLight",
}


class Editor:
    """An editor; it checks what is written when one stops to write."""

    def __init__(
        self,
        value: str,
        *,
        check: Callable[[str], Awaitable[object]],
        run: Callable[[], Awaitable[None]],
        label: str = "query",
    ) -> None:
        self._check = check
        with box("div", "mr-editor", role="group", aria_label=label):
            self._marks = marks_of(value)
            self._code = ui.codemirror(
                value,
                language="SQL",
                theme="githubLight",
                line_wrapping=True,
                indent="  ",
                on_change=self._changed,
                keymap={"Mod-Enter": lambda _: run()},
                decorations=list(self._marks),
            )
            attributed(self._code, {"aria_label": label})
        ui.on("millrace-theme", lambda event: self._code.set_theme(THEMES[bool(event.args)]))
        self._below = box("div", aria_live="polite")
        self._pending: ui.timer | None = None
        if value.strip():
            self._changed()

    @property
    def value(self) -> str:
        """What is written."""
        return str(self._code.value).strip().rstrip(";")

    @value.setter
    def value(self, words: str) -> None:
        self._code.value = words

    def refuse(self, error: MillraceError) -> None:
        """Show what is wrong, below the text and in it."""
        found = place_of(error, self._code.value)
        self._below.clear()
        with self._below.style("margin-top: 12px"):
            refusal(error, "" if found is None else excerpt(self._code.value, found))
        self._mark(found)

    def accept(self) -> None:
        """Show that nothing is wrong."""
        self._below.clear()
        self._below.style("margin-top: 0")
        self._mark()

    def _changed(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
        self._pending = ui.timer(CHECK_SECONDS, self._look, once=True)

    async def _look(self) -> None:
        written = self.value
        if not written:
            self.accept()
            return
        try:
            await self._check(written)
        except MillraceError as error:
            if written == self.value:
                self.refuse(error)
        else:
            self.accept()

    def _mark(self, found: tuple[int, int] | None = None) -> None:
        """Mark words in the browser alone: an update would send back the text as it was before."""
        marks = marks_of(self._code.value)
        if found is not None:
            marks.append(_mark(found, "mr-wrong"))
        if marks != self._marks:
            self._marks = marks
            self._code.run_method("setDecorations", marks)


def marks_of(written: str) -> list[dict[str, Any]]:
    """Return the marks of the words of CQL in a text."""
    found = (each for each in WORDS.finditer(written) if each["word"] or each["window"])
    return [_mark(each.span(), "mr-kw") for each in found]


def _mark(place: tuple[int, int], kind: str) -> dict[str, Any]:
    return {"kind": "mark", "from": place[0], "to": place[1], "class": kind}


def place_of(error: MillraceError, written: str) -> tuple[int, int] | None:
    """Return which characters an error is about, if it says so and they are there.

    It says so by a line and a column, as errors do that came over a wire; the word there is meant.
    """
    position = getattr(error, "position", None)
    lines = written.splitlines(keepends=True)
    if not position or not 1 <= position["line"] <= len(lines):
        return None
    first = sum(map(len, lines[: position["line"] - 1])) + position["column"] - 1
    word = re.match(r"\w+|\W", written[first:]) if first >= 0 else None
    return None if word is None else (first, first + word.end())


def excerpt(written: str, place: tuple[int, int]) -> str:
    r"""Return the line of a place, with carets below it.

    >>> print(excerpt("SELECT a\nFROM s", (9, 13)))
    2 | FROM s
      | ^^^^
    """
    before = written[: place[0]]
    number, begin = before.count("\n") + 1, before.rfind("\n") + 1
    line = written[begin:].partition("\n")[0]
    carets = " " * (place[0] - begin) + "^" * max(place[1] - place[0], 1)
    head = f"{number} | "
    return f"{head}{line}\n{' ' * (len(head) - 2)}| {carets}"
