"""What LIKE and regular expressions mean, by recursion and by Python's own regular expressions."""

from __future__ import annotations

import re


def like(
    text: str | None, pattern: str | None, escape: str | None, *, ignore_case: bool
) -> bool | None:
    """Compare a text with a pattern of LIKE."""
    if text is None or pattern is None:
        return None
    steps: list[str] = []
    characters = iter(pattern)
    for each in characters:
        if each == escape:
            following = next(characters, None)
            if following is None:
                return None
            steps.append("=" + following)
        else:
            steps.append(each if each in "%_" else "=" + each)
    if ignore_case:
        text, steps = text.lower(), [each.lower() for each in steps]
    return _like(text, steps)


def _like(text: str, steps: list[str]) -> bool:
    if not steps:
        return not text
    if steps[0] == "%":
        return any(_like(text[at:], steps[1:]) for at in range(len(text) + 1))
    if not text or steps[0] not in ("_", "=" + text[0]):
        return False
    return _like(text[1:], steps[1:])


def found(text: str | None, pattern: str | None, *, ignore_case: bool) -> bool | None:
    """Search a text for a regular expression of those that Python and RE2 read alike."""
    if text is None or pattern is None:
        return None
    try:
        return re.search(pattern, text, re.IGNORECASE if ignore_case else 0) is not None
    except re.error:
        return None
