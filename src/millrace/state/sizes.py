"""Sizes, as they are printed."""

from __future__ import annotations

_SCALES = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


def print_bytes(n_bytes: float) -> str:
    """Print a size with three digits.

    Examples
    --------
    >>> print_bytes(999), print_bytes(1536), print_bytes(128 << 20)
    ('999 B', '1.5 kB', '128 MB')
    """
    for scale, unit in _SCALES:
        if n_bytes >= scale:
            value = n_bytes / scale
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"
    return f"{n_bytes:.0f} B"
