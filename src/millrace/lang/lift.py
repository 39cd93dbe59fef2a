r"""Lifting: a text becomes a skeleton and the literals that were taken out of it.

Texts that differ in their constants only have one skeleton, and are parsed once:

    SELECT a FROM s WHERE p > 100 AND q IN ('x', 'y')
    SELECT a FROM s WHERE p > \0i AND q IN (\0S)          100 and ('x', 'y')

A marker is the character NUL, which no text may hold, and the kind of the literal: i, d, f for
1, 1.5 and 15e-1, s for 'text', x for X'00FF'. A list of literals behind IN is one literal, a set,
however long it is; its marker is the capital of its kind. A sign stays in the skeleton, except in
such a list. Space and comments become one blank. Names in double quotes stand behind the rest.

What is lifted is always one whole literal, by the rules of the tokenizer (`testing.oracle.lifting`
checks it). What is not lifted, such as the 10 of `10s`, is part of the skeleton, which is always
right: it costs a skeleton more.

Cost: about 4 us for a text of 80 characters with three literals.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

MARK = "\0"
_NAME = "\1"
_WHOLE = "\2"  # before a text that nothing was lifted from
Lifted1: TypeAlias = str | tuple[str, ...]
"""A literal as it is written, without its quotes; of a set, all of them, with their signs."""


class Lifted(NamedTuple):
    """A text without its literals, and these."""

    skeleton: str
    literals: tuple[Lifted1, ...]


class Place(NamedTuple):
    """Where a literal stands in the text, and whether it is a set."""

    first: int
    stop: int
    many: bool = False


# The first character is taken by a plain set, so that the search can skip to it quickly; what it
# was is asked afterwards. Digits belong to a name if anything but these stands before them.
_BEFORE = r"\s(,=<>+\-*/%|\["
_AFTER = r"\s),=<>+\-*/%|\]:;"
_LITERAL = re.compile(
    rf"""(
    ['"0-9.]
    (?: (?<=') [^']* (?: '' [^']* )* '
    |   (?<=") [^"]* (?: "" [^"]* )* "
    |   (?: (?<=[0-9]) (?<![^{_BEFORE}].) (?<![0-9.][eE][+-].) [0-9]* (?: \.[0-9]* )?
        |   (?<=\.) (?<![^{_BEFORE}].) [0-9]+
        )
        (?: [eE][+-]?[0-9]+ )? (?=[{_AFTER}]|\Z)
    ))""",
    re.VERBOSE | re.DOTALL,
)
_split = _LITERAL.split
_QUOTE_AFTER = frozenset(["", *" \t\n(,=<>+-*/%|["])
_ELEMENT = r"[-+]?\ ?\0[idfs]"
_LIST = re.compile(
    rf"(?<=[\s)])IN\ ?\(\ ?({_ELEMENT}(?:\ ?,\ ?{_ELEMENT})*)\ ?\)", re.VERBOSE | re.IGNORECASE
)
_SETS = {"i": "I", "di": "D", "d": "D", "s": "S", "f": "F", "fi": "F", "df": "F", "dfi": "F"}
_COMMENTS = re.compile(
    r"""'[^']*(?:''[^']*)*' | "[^"]*(?:""[^"]*)*" | (?P<line>--[^\r\n]*) | (?P<block>/\*)""",
    re.VERBOSE,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


def lift(text: str) -> Lifted:
    r"""Take the literals out of a text.

    Examples
    --------
    >>> lift("SELECT a  FROM s WHERE p > 1.5 AND q = 'it''s'")
    Lifted(skeleton='SELECT a FROM s WHERE p > \x00d AND q = \x00s', literals=('1.5', "it's"))
    """
    if "--" in text or "/*" in text:
        text = without_comments(text)
    if "{" in text or MARK in text or _NAME in text or _WHOLE in text:
        return Lifted(_WHOLE + text, ())  # it is refused when it is parsed, most likely
    pieces = _split(text)
    literals: list[Lifted1] = []
    names = ""
    for at in range(1, len(pieces), 2):
        piece = pieces[at]
        if piece[0] == "'":
            mark = "\0s" if pieces[at - 1][-1:] in _QUOTE_AFTER else _prefixed(pieces, at)
            if mark is None:
                return Lifted(_WHOLE + text, ())
            pieces[at] = mark
            inner = piece[1:-1]
            literals.append(inner.replace("''", "'") if "''" in inner else inner)
        elif piece[0] == '"':
            pieces[at] = _NAME
            names += piece
        else:
            pieces[at] = "\0i" if piece.isdigit() else _fraction(piece)
            literals.append(piece)
    skeleton = " ".join("".join(pieces).split())
    if "(" in skeleton and (found := _LIST.search(skeleton)):
        skeleton = _collapsed(skeleton, literals, found)
    return Lifted(skeleton + names if names else skeleton, tuple(literals))


def _fraction(number: str) -> str:
    return "\0f" if "e" in number or "E" in number else "\0d"


def _prefixed(pieces: list[str], at: int) -> str | None:
    """Return the mark of X'...', whose letter is taken away, and None for other prefixes."""
    before = pieces[at - 1]
    if not (before[-1].isalnum() or before[-1] in "_$" or not before[-1].isascii()):
        return "\0s"
    alone = len(before) < 2 or before[-2].isspace() or before[-2] in "(,=<>+-*/%|["
    if before[-1] not in "xX" or not alone or not all(each in _HEX for each in pieces[at][1:-1]):
        return None
    pieces[at - 1] = before[:-1]
    return "\0x"


_HEX = frozenset("0123456789abcdefABCDEF")


def _collapsed(skeleton: str, literals: list[Lifted1], found: re.Match[str] | None) -> str:
    """Make one literal of each list behind IN."""
    while found:
        first, stop = found.span(1)
        elements = found[1].replace(" ", "").split(",")
        kind = _SETS.get("".join(sorted({each[-1] for each in elements})))
        signed = "-" in found[1] or "+" in found[1]
        if kind is None or (kind == "S" and signed):
            found = _LIST.search(skeleton, found.end())
            continue
        at = skeleton.count(MARK, 0, first)
        values = literals[at : at + len(elements)]
        if signed:
            values = [
                f"-{value}" if sign[0] == "-" else value
                for sign, value in zip(elements, values, strict=True)
            ]
        literals[at : at + len(elements)] = [tuple(map(str, values))]
        skeleton = f"{skeleton[:first]}{MARK}{kind}{skeleton[stop:]}"
        found = _LIST.search(skeleton, first)
    return skeleton


def without_comments(text: str) -> str:
    """Return a text of the same length with blanks for its comments; quotes are respected."""
    pieces, position, copied = [], 0, 0
    while found := _COMMENTS.search(text, position):
        position = found.end()
        if found["block"]:
            position = _block_end(text, position)
        if found["block"] or found["line"]:
            pieces += [text[copied : found.start()], " " * (position - found.start())]
            copied = position
    return "".join([*pieces, text[copied:]])


def _block_end(text: str, position: int) -> int:
    depth = 1
    while depth and (mark := _COMMENT_MARK.search(text, position)):
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
    return len(text) if depth else position


def places(text: str) -> list[Place]:
    """Return where each literal of a text stands that `lift` takes out of it, sets as a whole.

    It is slow: texts are looked at this way only when their skeleton is new, or for a message.
    """
    found = [
        Place(*match.span())
        for match in _LITERAL.finditer(without_comments(text))
        if match[0][0] != '"'
    ]
    return _merged(text, found)


def _merged(text: str, found: list[Place]) -> list[Place]:
    lifted = lift(text)
    kinds = lifted.skeleton.split(MARK)[1:]
    merged, at = [], 0
    for literal, kind in zip(lifted.literals, kinds, strict=True):
        many = isinstance(literal, tuple)
        width = len(literal) if many else 1
        first = found[at].first - (kind[0] == "x")  # the letter of X'00FF'
        merged.append(Place(first, found[at + width - 1].stop, many))
        at += width
    return merged


def place_at(places: Sequence[Place], position: int) -> int | None:
    """Return the number of the literal in which a position of the text lies."""
    number = bisect_right(places, position, key=lambda each: each.first) - 1
    return number if number >= 0 and position < places[number].stop else None
