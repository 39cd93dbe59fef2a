"""What is wrong with a text, and where: the message shows the line with carets below it.

    column "prise" does not exist in stream "trades"
      1 | SELECT prise FROM trades
        |        ^^^^^
      hint: Did you mean "price"?

A long line is cut around the carets. Carets stand below what they mean also where characters
are two cells wide (Chinese, emoji) or none (accents that combine), as far as Unicode says.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from millrace.errors import MillraceError

WIDEST_EXCERPT = 88
LONGEST_QUOTE = 60

_LINE_END = re.compile(r"\r\n|\r|\n")


class Span(NamedTuple):
    """A part of a text: the characters from `first` up to and without `stop`."""

    first: int
    stop: int

    def cover(self, other: Span) -> Span:
        """Return the smallest span that holds both."""
        return Span(min(self.first, other.first), max(self.stop, other.stop))


class LanguageError(MillraceError):
    """A text is not a statement, or says something that does not exist or is not possible.

    Parameters
    ----------
    code
        The stable number of the fault, such as `CQL002`; see docs/reference.
    source, span
        The text and the part of it that the message is about.
    """

    code = "CQL070"

    def __init__(
        self,
        message: str,
        *,
        source: str,
        span: Span,
        code: str = "CQL070",
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(_one_line(message), detail=detail, hint=hint)
        self.code, self.source, self.span = code, source, span
        self.line, self.column = place(source, span.first)

    @property
    def excerpt(self) -> str:
        """The line that is meant and the carets below it."""
        return excerpt(self.source, self.span)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (self.message, self.source, self.span, self.code, self.detail, self.hint)


def _again(
    message: str, source: str, span: Span, code: str, detail: str, hint: str
) -> LanguageError:
    return LanguageError(message, source=source, span=span, code=code, detail=detail, hint=hint)


def quoted(source: str, span: Span) -> str:
    """Return a part of a text as a message may quote it: on one line, and not too long."""
    text = _one_line(source[span.first : span.stop])
    return text if len(text) <= LONGEST_QUOTE else text[: LONGEST_QUOTE - 3] + "..."


def _one_line(text: str) -> str:
    return " ".join(text.split()) if "\n" in text or "\r" in text else text


def place(source: str, position: int) -> tuple[int, int]:
    r"""Return the line and the column of a position, both counted from 1.

    >>> place("SELECT a\nFROM b", 14)
    (2, 6)
    """
    line, begins = 1, 0
    for end in _LINE_END.finditer(source, 0, position):
        line, begins = line + 1, end.end()
    return line, position - begins + 1


def excerpt(source: str, span: Span) -> str:
    """Return the line on which a span begins, numbered, and a second line with carets.

    >>> print(excerpt("SELECT prise FROM trades", Span(7, 12)))
      1 | SELECT prise FROM trades
        |        ^^^^^
    """
    line, column = place(source, span.first)
    begins = span.first - column + 1
    end = _LINE_END.search(source, begins)
    text = source[begins : end.start() if end else len(source)]
    first = min(column - 1, len(text))
    stop = max(min(span.stop - begins, len(text)), first)
    before, marked, after = _cut(text[:first], text[first:stop], text[stop:])
    carets = " " * _width(before) + "^" * max(_width(marked), 1)
    number = f"{line:>3}"
    return f"{number} | {before}{marked}{after}".rstrip() + f"\n{' ' * len(number)} | {carets}"


def _cut(before: str, marked: str, after: str) -> tuple[str, str, str]:
    before, marked, after = (_visible(each) for each in (before, marked, after))
    if len(before) + len(marked) + len(after) <= WIDEST_EXCERPT:
        return before, marked, after
    if len(marked) > WIDEST_EXCERPT // 2:
        marked, after = marked[: WIDEST_EXCERPT // 2], "..."
    room = WIDEST_EXCERPT - len(marked)
    left = max(room // 2, room - len(after))
    if len(before) > left:
        before = "..." + before[len(before) - left + 3 :]
    right = room - len(before)
    if len(after) > right:
        after = after[: max(right - 3, 0)] + "..."
    return before, marked, after


def _visible(text: str) -> str:
    return "".join(_glyph(each) for each in text)


def _glyph(character: str) -> str:
    if character == "\t":
        return " "
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))  # the picture of a control character
    unseen = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return "\N{REPLACEMENT CHARACTER}" if unseen else character


def _width(text: str) -> int:
    return sum(_cells(each) for each in text)


def _cells(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
