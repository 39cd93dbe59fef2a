"""Which queries join which rows: every query asked of every pair of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Driver = tuple[int, int]
"""Its key and its code."""

StoredRow = tuple[int, int]
"""Its key and its code."""

SelectQuery = tuple[int, int, int, int]
"""The closed range of the driver's code, then that of the stored row's."""

Triple = tuple[int, int, int]
"""The numbers of a driver, of a stored row, and of a query."""


def joins(query: SelectQuery, driver: Driver, row: StoredRow) -> bool:
    """Whether the query wants these two together."""
    driver_low, driver_high, row_low, row_high = query
    same_key = driver[0] == row[0]
    return same_key and driver_low <= driver[1] <= driver_high and row_low <= row[1] <= row_high


def select_triples(
    drivers: Sequence[Driver], rows: Sequence[StoredRow], queries: Mapping[int, SelectQuery]
) -> set[Triple]:
    """Return every (driver, row, query) such that the query joins the two."""
    return {
        (driver_id, row_id, query_id)
        for driver_id, driver in enumerate(drivers)
        for row_id, row in enumerate(rows)
        for query_id, query in queries.items()
        if joins(query, driver, row)
    }
