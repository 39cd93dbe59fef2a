"""The access methods by name; each is one module of the form `access.Access`."""

from __future__ import annotations

from millrace.index.access import blocked, hashed, ranked, stabbed, tabled
from millrace.index.access.access import Access

METHODS: dict[str, Access] = {
    "hash": hashed,
    "stab": stabbed,
    "block": blocked,
    "table": tabled,
    "rank": ranked,
}

__all__ = ["METHODS", "Access"]
