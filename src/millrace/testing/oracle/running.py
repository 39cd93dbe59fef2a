"""What the running maximum before a row means."""

from __future__ import annotations

from collections.abc import Sequence


def max_before(
    times: Sequence[int], groups: Sequence[int], start: Sequence[int]
) -> tuple[list[int], list[int]]:
    """For each row, the maximum of its group's start and earlier rows; then the new maxima."""
    before = [
        max([start[group], *(times[i] for i in range(row) if groups[i] == group)])
        for row, group in enumerate(groups)
    ]
    after = [
        max([low, *(time for time, each in zip(times, groups, strict=True) if each == group)])
        for group, low in enumerate(start)
    ]
    return before, after
