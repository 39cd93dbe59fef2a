"""Cursors: where a subscriber is in the answers of a query, as a text that means nothing to it.

A cursor names an epoch, how many of the query's rows in it were told, and of how many; an epoch
with more rows than fit into one event is told in several. The number of an epoch alone will do, for
one that has been told whole: answers say theirs in `_epoch`.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Self

from millrace.errors import MillraceError

_VERSION = "2"
_EPOCH = re.compile("-1|[0-9]{1,18}")


class NoCursorError(MillraceError):
    """A text is not a cursor of this query."""

    code = "no_cursor"


class GoneError(MillraceError):
    """Answers after a cursor are no longer kept; `oldest` is the least cursor that is good."""

    code = "gone"

    def __init__(self, message: str, oldest: Cursor, *, detail: str) -> None:
        super().__init__(
            message,
            detail=detail,
            hint=f"Go on with the cursor {oldest}, which misses what is gone.",
        )
        self.oldest = oldest


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """Everything before row `told` of the epoch behind `epoch` has been told, which had `of`."""

    epoch: int
    told: int = 0
    feed: int = 0
    of: int = 0

    def __str__(self) -> str:
        plain = f"{_VERSION}.{self.feed}.{self.epoch}.{self.told}.{self.of}"
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")

    @classmethod
    def read(cls, text: str, feed: int) -> Self:
        """Read a cursor of a feed.

        >>> Cursor.read(str(Cursor(7, 0, 3)), 3)
        Cursor(epoch=7, told=0, feed=3, of=0)
        >>> Cursor.read("7", 3)
        Cursor(epoch=7, told=0, feed=3, of=0)
        """
        if _EPOCH.fullmatch(text):
            return cls(int(text), 0, feed)
        try:
            plain = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
            version, number, epoch, told, of = plain.split(".")
            found = cls(int(epoch), int(told), int(number), int(of))
        except (ValueError, binascii.Error, UnicodeDecodeError) as cause:
            raise NoCursorError(
                f'"{text[:40]}" is not a cursor', hint="Give one as it came, or none to begin now."
            ) from cause
        if version != _VERSION or found.epoch < -1 or min(found.told, found.of) < 0:
            raise NoCursorError(f'"{text[:40]}" is not a cursor')
        if found.feed != feed:
            raise NoCursorError(
                "the cursor is of another query",
                detail="A query that is dropped and registered again begins anew.",
            )
        return found
