"""Names that nothing has: the known word that is most like one, and lists of what there is."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from itertools import islice

MOST_LISTED = 10
MOST_COMPARED = 10_000


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word most like `name`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f'Did you mean "{close[0]}"?' if close else ""


def there_are(what: str, names: Collection[str]) -> str:
    """List names if they are few, and count them otherwise.

    >>> there_are("sinks", ["a", "b"]), there_are("sinks", [])
    ('The sinks are "a", "b".', 'There are no sinks.')
    """
    if not names:
        return f"There are no {what}."
    first = ", ".join(f'"{each}"' for each in islice(names, MOST_LISTED))
    if len(names) <= MOST_LISTED:
        return f"The {what} are {first}."
    return f"There are {len(names):,} {what}, such as {first}."
