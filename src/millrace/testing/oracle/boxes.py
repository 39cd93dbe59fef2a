"""Which boxes hold which rows, asked one by one."""

from __future__ import annotations

from collections.abc import Sequence

Interval = tuple[int, int]


def holds(box: Sequence[Interval], row: Sequence[int]) -> bool:
    """Whether each code of the row lies in the box's closed interval for it."""
    return all(low <= code <= high for (low, high), code in zip(box, row, strict=True))


def matching_pairs(
    boxes: Sequence[Sequence[Interval]], rows: Sequence[Sequence[int]]
) -> list[tuple[int, int]]:
    """Return every (row, box) such that the box holds the row, in order."""
    return [
        (row_id, box_id)
        for row_id, row in enumerate(rows)
        for box_id, box in enumerate(boxes)
        if holds(box, row)
    ]
