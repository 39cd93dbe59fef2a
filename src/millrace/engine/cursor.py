"""Cursors: how far each sink has come, durably and for one engine at a time.

The cursor of a sink is its newest record `cursors/<sink>/<number>`. To move it is to create
the next number, exclusively. Who finds the number taken has been replaced and stops; a new
engine takes a sink over by creating a record that says the same under its own name:

    ... 6 (engine A)   7 (engine A)   8 (engine B: takes over)   9 (engine B)
                                      A tries 8, finds it taken: FencedError

Invariant: the newest record is never deleted, and a record only when `KEPT` newer ones exist.
Engine A, woken after a long sleep, could find that B has come and gone and that "its" number
is free again; so a record counts only if no greater number exists once it is written.

Cost: one durable small file and one listing of about ten names for each move.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, Self

from millrace.connectors.sinks.sink import Move
from millrace.errors import CorruptionError, FencedError, FormatVersionError
from millrace.state.names import number_of, numbered
from millrace.state.root import Root

CURSORS = "cursors"
KEPT = 8
MAX_GAPS = 16

_VERSION = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """What one record says.

    Parameters
    ----------
    next_epoch
        The first epoch that is not yet settled.
    promised
        Moves that make the settled epochs public; they may or may not have been done.
    skipped_epochs, skipped_rows
        How much was never handed to the sink; of epochs whose results are gone the rows are
        not known and not counted.
    gaps
        The half-open ranges of epochs that were skipped in whole or in part, the oldest first;
        beyond `MAX_GAPS` of them the oldest two are joined.
    detached
        The last epoch, and the rows that waited then, when the sink was cut off; else None.
    """

    next_epoch: int = 0
    promised: tuple[Move, ...] = ()
    skipped_epochs: int = 0
    skipped_rows: int = 0
    gaps: tuple[tuple[int, int], ...] = ()
    detached: tuple[int, int] | None = None
    number: int = -1
    term: int = 0
    writer: str = ""

    def skipping(self, stop: int, n_rows: int) -> Self:
        """Return the cursor after the epochs before `stop`, which hold `n_rows`, are skipped.

        What was promised before stays promised.
        """
        return replace(self.with_gap((self.next_epoch, stop), n_rows), next_epoch=stop)

    def with_gap(self, gap: tuple[int, int], n_rows: int) -> Self:
        """Return the cursor with one gap more; it may overlap those known already."""
        first, stop = gap
        known = self.gaps[-1][1] if self.gaps else 0
        if self.gaps and first <= known:
            gaps = (*self.gaps[:-1], (self.gaps[-1][0], max(stop, known)))
        else:
            gaps = (*self.gaps, gap)
        if len(gaps) > MAX_GAPS:
            gaps = ((gaps[0][0], gaps[1][1]), *gaps[2:])
        n_epochs = self.skipped_epochs + max(stop - max(first, known), 0)
        n_rows += self.skipped_rows
        return replace(self, gaps=gaps, skipped_epochs=n_epochs, skipped_rows=n_rows)

    def to_json(self) -> bytes:
        """Write the record."""
        fields = {name: value for name, value in asdict(self).items() if name != "number"}
        return json.dumps({"version": _VERSION, **fields}).encode()

    @classmethod
    def from_json(cls, number: int, data: bytes) -> Self:
        """Read the record of that number."""
        fields = _fields(number, data)
        fields["promised"] = tuple(Move(**move) for move in fields["promised"])
        fields["gaps"] = tuple((first, stop) for first, stop in fields["gaps"])
        detached = fields.pop("detached")
        return cls(number=number, detached=detached and (detached[0], detached[1]), **fields)


def _fields(number: int, data: bytes) -> dict[str, Any]:
    try:
        fields: dict[str, Any] = json.loads(data)
        version = fields.pop("version")
    except (ValueError, KeyError, AttributeError) as cause:
        raise CorruptionError(
            f"cursor record {number} is not what was written", detail=f"{cause}."
        ) from cause
    if version != _VERSION:
        raise FormatVersionError(
            f"cursor record {number} has format version {version}",
            detail=f"This version of millrace knows version {_VERSION}.",
        )
    return fields


class CursorLog(Protocol):
    """Where the cursor of one sink is kept."""

    def claim(self, start: int) -> Cursor:
        """Take the sink over; a sink without a cursor starts at the epoch `start`."""

    def current(self) -> Cursor:
        """Return the newest record, or raise `FencedError` if somebody else has written it."""

    def move(self, cursor: Cursor) -> Cursor:
        """Write `cursor` as the record after its number; return it with the new number."""

    def trim(self, cursor: Cursor) -> None:
        """Delete the records that nobody needs any more."""


class DurableCursor:
    """The records of one sink in a root."""

    def __init__(self, root: Root, sink: str, check: Callable[[], None], *, term: int = 0) -> None:
        self._root, self._sink, self._check, self._term = root, sink, check, term
        self._prefix = f"{CURSORS}/{sink}"
        self._writer = secrets.token_hex(8)

    def claim(self, start: int) -> Cursor:
        """Take the sink over from whoever has it, with what it has promised."""
        while True:
            self._check()
            newest = self.newest() or Cursor(next_epoch=start)
            claimed = self._signed(newest)
            if self._created(claimed):
                self._trim_before(claimed.number - KEPT)
                return claimed

    def current(self) -> Cursor:
        """Return the newest record, which has to be ours."""
        newest = self.newest()
        if newest is None or newest.writer != self._writer:
            raise self._fenced(newest)
        return newest

    def move(self, cursor: Cursor) -> Cursor:
        """Create the next record; the loser of a race gets a `FencedError`."""
        self._check()
        moved = self._signed(cursor)
        if not self._created(moved):
            raise self._fenced(self.newest())
        return moved

    def trim(self, cursor: Cursor) -> None:
        """Delete the one record that has become too old."""
        if cursor.number >= KEPT:
            self._root.delete(self._name(cursor.number - KEPT))

    def newest(self) -> Cursor | None:
        """Return the newest record, whoever wrote it; None if the sink has no cursor."""
        numbers = self._numbers()
        if not numbers:
            return None
        return Cursor.from_json(numbers[-1], self._root.get(self._name(numbers[-1])))

    def _signed(self, cursor: Cursor) -> Cursor:
        return replace(cursor, number=cursor.number + 1, term=self._term, writer=self._writer)

    def _created(self, cursor: Cursor) -> bool:
        """Create the record; False if it, or a greater number, is there already."""
        created = self._root.put_if_absent(self._name(cursor.number), cursor.to_json())
        return created and self._numbers()[-1] == cursor.number

    def _name(self, number: int) -> str:
        return numbered(self._prefix, number)

    def _numbers(self) -> list[int]:
        found = (number_of(entry.name) for entry in self._root.list(f"{self._prefix}/"))
        return sorted(number for number in found if number is not None)

    def _trim_before(self, stop: int) -> None:
        for number in self._numbers():
            if number < stop:
                self._root.delete(self._name(number))

    def _fenced(self, newest: Cursor | None) -> FencedError:
        owner = "nobody" if newest is None else f"term {newest.term}, record {newest.number}"
        return FencedError(
            f'sink "{self._sink}" was taken over by another engine',
            detail=f"Its cursor now belongs to {owner}.",
            hint="Stop one of the two engines that use this root.",
        )


class VolatileCursor:
    """The cursor of a sink that starts anew with each process."""

    def __init__(self) -> None:
        self._newest = Cursor()

    def claim(self, start: int) -> Cursor:
        """Start at `start`, or where this process has come to."""
        if self._newest.number < 0:
            self._newest = Cursor(next_epoch=start, number=0)
        return self._newest

    def current(self) -> Cursor:
        """Return where this process has come to."""
        return self._newest

    def move(self, cursor: Cursor) -> Cursor:
        """Remember `cursor`."""
        self._newest = replace(cursor, number=cursor.number + 1)
        return self._newest

    def trim(self, cursor: Cursor) -> None:
        """Do nothing: only the newest is held."""


def sinks_with_cursors(root: Root) -> tuple[str, ...]:
    """Name every sink that has ever been attached to the root."""
    names = (entry.name.split("/")[1] for entry in root.list(f"{CURSORS}/"))
    return tuple(dict.fromkeys(names))


def mark_absent(log: DurableCursor, epoch: int) -> None:
    """Note that after `epoch` nothing is kept any more for a sink that is not attached."""
    newest = log.newest()
    if newest is not None and newest.detached is None:
        claimed = log.claim(newest.next_epoch)
        log.move(replace(claimed, detached=(epoch, 0)))
