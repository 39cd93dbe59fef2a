"""A piece: the live slice of one run in one file, as manifests name it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

Position: TypeAlias = tuple[int, int]
"""A key and a time: where a row stands in the order of a run."""

KEYS = 1 << 64
"""The number of keys; the key range of everything is `(0, KEYS)`."""


@dataclass(frozen=True, slots=True)
class Piece:
    """The rows at positions `[first, stop)` of the run `run` in the file `file`.

    `low` is the (key, time) of the first row; every row is before `high`. The times lie in
    `[min_time, max_time]`; these bounds, and `bytes`, stay as they were when a piece is cut,
    in proportion.

    Examples
    --------
    >>> piece = Piece("runs/a", "trades", 0, 10, (1, 5), (9, 8), 2, 7, 640)
    >>> taken, rest = piece.split(4, (3, 6))
    >>> taken.rows, rest.rows, rest.low
    (4, 6, (3, 6))
    >>> Piece.from_json(piece.to_json()) == piece
    True
    """

    file: str
    run: str
    first: int
    stop: int
    low: Position
    high: Position
    min_time: int
    max_time: int
    bytes: int

    @property
    def rows(self) -> int:
        """How many rows are alive."""
        return self.stop - self.first

    def split(self, at: int, low: Position) -> tuple[Self, Self]:
        """Cut before the row at position `at`, whose key and time are `low`."""
        assert self.first < at < self.stop, "both halves have rows"
        n_bytes = self.bytes * (at - self.first) // self.rows
        taken = replace(self, stop=at, high=low, bytes=n_bytes)
        return taken, replace(self, first=at, low=low, bytes=self.bytes - n_bytes)

    def to_json(self) -> list[Any]:
        """Give a compact JSON form: the fields in order."""
        ends = [*self.low, *self.high, self.min_time, self.max_time]
        return [self.file, self.run, self.first, self.stop, *ends, self.bytes]

    @classmethod
    def from_json(cls, fields: list[Any]) -> Self:
        """Read what `to_json` gave."""
        file, run, first, stop, key, time, high_key, high_time, *rest = fields
        return cls(file, run, first, stop, (key, time), (high_key, high_time), *rest)
