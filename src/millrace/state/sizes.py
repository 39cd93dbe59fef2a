"""Sizes, as they are printed and read."""

from __future__ import annotations

import re

from millrace.errors import PlanError

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKMGT]?)i?[bB]?\s*")
_SCALE = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
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


def spell_bytes(n_bytes: int) -> str:
    """Print a size so that `to_bytes` reads it back, in the largest unit that leaves it whole.

    Examples
    --------
    >>> spell_bytes(1536), spell_bytes(128 << 20), spell_bytes(0)
    ('1536 B', '128 MB', '0 B')
    """
    whole = (each for each in _SCALES if n_bytes and n_bytes % each[0] == 0)
    scale, unit = next(whole, (1, "B"))
    return f"{n_bytes // scale} {unit}"


def to_bytes(size: int | str) -> int:
    """Return a size in bytes; K, M, G and T are powers of 1,024.

    Examples
    --------
    >>> to_bytes("128 MB"), to_bytes("1.5k"), to_bytes(7)
    (134217728, 1536, 7)
    """
    if isinstance(size, int):
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise PlanError(f'"{size}" is not a size', hint='Write it as in "128 MB".')
    return int(float(match[1]) * 1024 ** _SCALE[match[2].upper()])
