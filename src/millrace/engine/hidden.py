"""Names of feeds that nobody sees: those that run queries which are alike together."""

from __future__ import annotations

_HIDDEN = "_family_"


def family_name(digest: str, query: str) -> str:
    """Name the feed that runs queries together; those of different namespaces stay apart.

    >>> family_name("c0ffee", "acme/big"), family_name("c0ffee", "big")
    ('acme/_family_c0ffee', '_family_c0ffee')
    """
    space, slash, _ = query.rpartition("/")
    return f"{space}{slash}{_HIDDEN}{digest}"


def is_hidden(name: str) -> bool:
    """Say whether a feed is of the kind that nobody sees, by its name."""
    return name.rpartition("/")[2].startswith(_HIDDEN)
