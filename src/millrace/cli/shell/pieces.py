"""Cutting what is typed into statements: a semicolon ends one, unless it is in quotes or so.

It must work on text that is not finished, so it judges nothing; that is the server's part.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_PARTS = re.compile(
    r"""'[^']*(?:''[^']*)*(?P<open>'?) | "[^"]*(?:""[^"]*)*(?P<name>"?) | --[^\r\n]*"""
    r"""| (?P<comment>/\*) | (?P<end>;)""",
    re.VERBOSE,
)
_MARKS = re.compile(r"/\*|\*/")
_NOTHING = re.compile(r"\s*(--[^\r\n]*(\r?\n|\Z)\s*)*")


class Piece(NamedTuple):
    """A statement, without its semicolon, and where in the text it begins."""

    text: str
    first: int

    def placed_in(self, whole: str) -> str:
        """Return the statement behind as many lines and columns as in the text it is from.

        So that an error tells the line of the file.
        """
        before = whole[: self.first]
        line = before.rfind("\n") + 1
        return "\n" * before.count("\n") + " " * (self.first - line) + self.text


def cut(text: str) -> tuple[list[Piece], str]:
    """Return the statements that have ended, and what is left.

    >>> cut("SELECT ';'; SHOW -- not ;")
    ([Piece(text="SELECT ';'", first=0)], 'SHOW -- not ;')
    """
    found, first, position = list[Piece](), 0, 0
    while match := _PARTS.search(text, position):
        position = match.end()
        if match["comment"]:
            position = _comment_end(text, match.start())
        elif match["open"] == "" or match["name"] == "":
            break  # a quote that is not closed: the rest is inside
        elif match["end"]:
            found += _piece(text, first, match.start())
            first = match.end()
    return found, text[first:].strip()


def pieces(text: str) -> list[Piece]:
    """Return all statements of a text; the last one needs no semicolon."""
    found, rest = cut(text)
    if _NOTHING.fullmatch(rest):
        return found
    return [*found, Piece(rest, text.rfind(rest))]


def _piece(text: str, first: int, stop: int) -> list[Piece]:
    begun = first + len(text[first:stop]) - len(text[first:stop].lstrip())
    words = text[begun:stop].rstrip()
    return [] if _NOTHING.fullmatch(words) else [Piece(words, begun)]


def _comment_end(text: str, first: int) -> int:
    depth, position = 1, first + 2
    while depth and (mark := _MARKS.search(text, position)):
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
    return len(text) if depth else position
