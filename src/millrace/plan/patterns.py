"""Patterns of LIKE and regular expressions: taken apart and checked before they run.

Regular expressions are RE2's, through Arrow: the time is linear in the text, whatever the pattern.
RE2 knows no backreferences and no lookaround.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

LONGEST = 10_000
"""How many characters a pattern may have."""
FORMATS = "YymdHMSj%"
"""The letters that `strftime` knows behind a percent sign."""


class Wildcard(Enum):
    """What in a pattern of LIKE is not a plain character."""

    ANY = "%"
    ONE = "_"


Pieces = tuple[str | Wildcard, ...]


@lru_cache(maxsize=4096)
def like_pieces(pattern: str, escape: str | None) -> Pieces | None:
    """Take a pattern of LIKE apart; None if it ends with the escape character.

    >>> like_pieces("10!%%", "!")
    ('10%', <Wildcard.ANY: '%'>)
    """
    pieces: list[str | Wildcard] = []
    plain, escaped = "", False
    for character in pattern:
        if escaped or character not in (escape, "%", "_"):
            plain, escaped = plain + character, False
        elif character == escape:
            escaped = True
        else:
            if plain:
                pieces.append(plain)
            pieces.append(Wildcard(character))
            plain = ""
    if plain:
        pieces.append(plain)
    return None if escaped else tuple(pieces)


def format_fault(text: str) -> str | None:
    """Return what stands behind a percent sign and is no letter of `strftime`, if there is one.

    >>> format_fault("%d.%m.%Y, 100%%"), format_fault("%A")
    (None, 'A')
    """
    letters = re.findall("%(.?)", text, re.DOTALL)
    return next((each for each in letters if not each or each not in FORMATS), None)


def like_regex(pieces: Pieces) -> str:
    """Return the regular expression that matches the same texts."""
    spelt = {Wildcard.ANY: ".*", Wildcard.ONE: "."}
    body = (spelt[each] if isinstance(each, Wildcard) else quoted(each) for each in pieces)
    return f"(?s)\\A{''.join(body)}\\z"


def quoted(text: str) -> str:
    """Return a regular expression that matches just this text."""
    return re.sub(r"[^\w\s]|_", lambda found: _quoted_character(found[0]), text)


def _quoted_character(character: str) -> str:
    return "\\" + character if character.isascii() else character


@lru_cache(maxsize=4096)
def regex_fault(pattern: str) -> str | None:
    """Return why RE2 does not take a regular expression, or None if it does."""
    if len(pattern) > LONGEST:
        return f"It has {len(pattern)} characters; {LONGEST} are allowed."
    try:
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as cause:
        return f"RE2 says: {str(cause).removeprefix('Invalid regular expression: ')}."
    return None


def like_fault(pattern: str, escape: str | None) -> str | None:
    """Return why a text is not a pattern of LIKE, or None if it is."""
    if len(pattern) > LONGEST:
        return f"It has {len(pattern)} characters; {LONGEST} are allowed."
    pieces = like_pieces(pattern, escape)
    if pieces is None:
        return "It ends with the escape character."
    return regex_fault(like_regex(pieces)) if len(pieces) > 3 else None
