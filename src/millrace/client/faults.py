"""A server's refusal as the error that the same call would have raised in this process.

The body of a refusal is `{"error": {"code", "message", "detail", "hint", "position"}}`. The code
says which class; the position, a line and a column of the text that was sent, is shown with
carets under that text.
"""

from __future__ import annotations

import re
from typing import Any

from millrace import errors
from millrace.client.reply import Reply
from millrace.client.request import Request
from millrace.errors import (
    AccessError,
    ExceededError,
    LostAnswersError,
    MillraceError,
    UnreachableError,
)
from millrace.lang.errors import LanguageError, Span, excerpt

GONE = 410
LANGUAGE = re.compile(r"CQL\d+")
_WORD = re.compile(r"""\w+|'[^']*'|"[^"]*"|.""", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\r|\n")


def refusal(reply: Reply, request: Request) -> MillraceError:
    """Return the error that a refusal stands for; the message is the server's."""
    found = _body(reply)
    message = str(found.get("message") or f"the server answered {reply.status}")
    parts = {part: str(found.get(part) or "") for part in ("detail", "hint")}
    code = str(found.get("code") or "http")
    if reply.status == GONE:
        lost = LostAnswersError(message, **parts)
        lost.code, lost.oldest = code, str(found.get("cursor") or "")
        return lost
    shown = str(found.get("excerpt") or "")
    span = _span(found.get("position"), request.text, shown)
    if span is not None and LANGUAGE.fullmatch(code) and code not in _CLASSES:
        error: MillraceError = LanguageError(
            message, source=request.text, span=span, code=code, **parts
        )
    else:
        error = _CLASSES.get(code, MillraceError)(message, **parts)
        error.code = code
        error.show(shown if span is None else excerpt(request.text, span))
    return error


def unreachable(url: str, cause: Exception, *, sent: bool) -> UnreachableError:
    """Return the error for a server that does not answer."""
    words = str(cause) or type(cause).__name__
    return UnreachableError(
        f'server "{url}" cannot be reached' if not sent else f'server "{url}" did not answer',
        detail=f"{words.rstrip('.')}." + (" The request may have taken effect." if sent else ""),
        hint="Does `millrace serve` run there?" if not sent else "Look whether it did, then retry.",
    )


def _body(reply: Reply) -> dict[str, Any]:
    """Return what a refusal says; a proxy on the way may have said something else."""
    try:
        found = reply.json()
    except MillraceError:
        return {}
    inner = found.get("error") if isinstance(found, dict) else None
    return inner if isinstance(inner, dict) else {}


def _span(position: object, text: str, shown: str) -> Span | None:
    """Return what stands at a line and a column: as wide as carets show it, or a word."""
    if not isinstance(position, dict) or not text:
        return None
    begins = [0, *(end.end() for end in _LINE_END.finditer(text))]
    line, column = int(position.get("line", 1)), int(position.get("column", 1))
    if not 1 <= line <= len(begins):
        return None
    first = min(begins[line - 1] + column - 1, len(text))
    carets = shown.rpartition("|")[2].count("^")
    word = _WORD.match(text, first)
    stop = first + carets if carets else word.end() if word else first
    return Span(first, min(stop, len(text)))


def _classes(root: type[MillraceError]) -> dict[str, type[MillraceError]]:
    found = {root.code: root}
    for each in root.__subclasses__():
        if each.__module__ == errors.__name__:
            found |= _classes(each)
    return found


# Codes of servers alone; the error keeps the code.
_CLASSES = _classes(MillraceError) | {
    "unauthorized": AccessError,
    "forbidden": AccessError,
    "limit": ExceededError,
    "rate": ExceededError,
    "too_large": ExceededError,
    "unavailable": UnreachableError,
}
