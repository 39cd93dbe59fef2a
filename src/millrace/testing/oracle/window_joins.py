"""Window joins of many queries, each with its own window, asked one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Row = tuple[int, int, int]
"""Its key, its code and its time."""

WindowQuery = tuple[int, int, int, int, int]
"""The closed range of the driver's code, that of the stored row's, and the size of the window."""


def meets(query: WindowQuery, driver: Row, stored: Row) -> bool:
    """Whether the query takes these two: by key, by both ranges, and not too far apart in time."""
    driver_low, driver_high, stored_low, stored_high, size = query
    return (
        driver[0] == stored[0]
        and driver_low <= driver[1] <= driver_high
        and stored_low <= stored[1] <= stored_high
        and abs(driver[2] - stored[2]) <= size
    )


def window_triples(
    drivers: Sequence[Row], stored: Sequence[Row], queries: Mapping[int, WindowQuery]
) -> set[tuple[int, int, int]]:
    """Return every (driver, stored row, query) of the join."""
    return {
        (driver_id, stored_id, query_id)
        for driver_id, driver in enumerate(drivers)
        for stored_id, row in enumerate(stored)
        for query_id, query in queries.items()
        if meets(query, driver, row)
    }
