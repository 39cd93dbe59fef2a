"""Functions that `.slt` files may call, by their names; each is written for one row.

Queries call them with arrays, as they would call a user's; the oracle calls them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from millrace.schema import type_named


@dataclass(frozen=True, slots=True)
class RowFunction:
    """A function of one row's values, and the type of what it returns."""

    returns: str
    one: Callable[..., Any]

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """Call it for each row."""
        rows = zip(*(each.to_pylist() for each in columns), strict=True)
        return pa.array([self.one(*row) for row in rows], type_named(self.returns))


def _twice(number: float | None) -> float | None:
    return None if number is None else 2.0 * number


def _shout(text: str | None) -> str | None:
    return None if text is None else f"{text.upper()}!"


def _is_even(number: int | None) -> bool | None:
    return None if number is None else number % 2 == 0


def _brittle(number: float | None) -> float | None:
    if number is not None and number < 0:
        raise ValueError("brittle broke")
    return number


FUNCTIONS = {
    "twice": RowFunction("double", _twice),
    "shout": RowFunction("text", _shout),
    "is_even": RowFunction("boolean", _is_even),
    "brittle": RowFunction("double", _brittle),
}
