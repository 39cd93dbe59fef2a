"""Rows that can be counted and put in order, in slow plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from millrace.testing.oracle.aggregates import canonical, same

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Bagged:
    """A row that can be counted: NULL equals NULL there, and NaN equals NaN."""

    same: tuple[Any, ...]
    row: tuple[tuple[str, Any], ...] = field(compare=False)

    @classmethod
    def of(cls, row: Row) -> Bagged:
        """Take a row."""
        return cls(tuple(map(same, row.values())), tuple(row.items()))

    def place(self) -> tuple[Any, ...]:
        """Return what rows are ordered by: their values, NULL before all others."""
        return tuple(canonical(value) for _, value in self.row)


def bag(rows: Iterable[Row]) -> Counter[Bagged]:
    """Count rows."""
    return Counter(Bagged.of(row) for row in rows)
