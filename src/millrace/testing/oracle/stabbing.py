"""What a stabbing partition is: intervals in groups, each with a point that all members hold."""

from __future__ import annotations

from collections.abc import Sequence

Interval = tuple[int, int]


def have_a_common_point(intervals: Sequence[Interval]) -> bool:
    """Whether some point lies in all of the closed intervals."""
    return max(low for low, _ in intervals) <= min(high for _, high in intervals)


def fewest_groups(intervals: Sequence[Interval]) -> int:
    """Return how many groups are needed, by trying all ways to put each interval into a group."""
    fewest = len(intervals)

    def place(at: int, groups: list[list[Interval]]) -> None:
        nonlocal fewest
        if len(groups) > fewest:
            return
        if at == len(intervals):
            fewest = len(groups)
            return
        for group in groups:
            if have_a_common_point([*group, intervals[at]]):
                group.append(intervals[at])
                place(at + 1, groups)
                group.pop()
        place(at + 1, [*groups, [intervals[at]]])

    place(0, [])
    return fewest


def fewest_points(intervals: Sequence[Interval]) -> int:
    """Return how many groups are needed, by taking the end of the first interval to end."""
    count, point = 0, None
    for low, high in sorted(intervals, key=lambda each: each[1]):
        if point is None or low > point:
            count, point = count + 1, high
    return count
