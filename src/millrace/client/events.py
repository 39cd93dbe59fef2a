"""Server-sent events: bytes as they come, cut anywhere, to whole events.

    id: 17:3
    data: {"rows": [...]}
                                an empty line ends an event
    : a comment, which says that the server lives

What stands behind the last empty line when a connection breaks is half an event and is dropped:
the server sends it again, whole, to who resumes with the last id.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")  # a CR at the end may be half of CRLF


@dataclass(frozen=True, slots=True)
class Event:
    """One event; a comment is an event without data of the kind "comment"."""

    kind: str
    data: str
    id: str = ""


class Events:
    """Takes bytes and gives events."""

    def __init__(self) -> None:
        self._rest = b""
        self._fields: dict[str, list[str]] = {}
        self._begun = False

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Take the next bytes; yield the events that are complete now."""
        self._rest += piece
        *lines, self._rest = _LINE_END.split(self._rest)
        for line in lines:
            text = line.decode("utf-8", errors="replace")
            if not self._begun:
                text, self._begun = text.removeprefix("\ufeff"), True
            yield from self._take(text)

    def _take(self, line: str) -> Iterator[Event]:
        if not line:
            fields, self._fields = self._fields, {}
            if "data" in fields:
                kind, identity = fields.get("event", ["message"]), fields.get("id", [""])
                yield Event(kind[-1], "\n".join(fields["data"]), identity[-1])
        elif line.startswith(":"):
            yield Event("comment", line[1:].strip())
        else:
            name, _, value = line.partition(":")
            self._fields.setdefault(name, []).append(value.removeprefix(" "))
