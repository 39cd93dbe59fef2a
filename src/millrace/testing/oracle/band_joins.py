"""Band joins of many queries, asked one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Number = int | float
Band = tuple[Number, Number]
Row = tuple[int, Number]


def in_band(band: Band, stored: Number, driver: Number) -> bool:
    """Whether the stored value less the driver's lies between both ends, which belong to it."""
    low, high = band
    return low <= stored - driver <= high


def band_triples(
    drivers: Sequence[Row], stored: Sequence[Row], bands: Mapping[int, Band]
) -> set[tuple[int, int, int]]:
    """Return every (driver, stored row, query) of the join; a row is its key and its value."""
    return {
        (driver_id, stored_id, query)
        for driver_id, (key, base) in enumerate(drivers)
        for stored_id, (other_key, value) in enumerate(stored)
        if key == other_key
        for query, band in bands.items()
        if in_band(band, value, base)
    }
