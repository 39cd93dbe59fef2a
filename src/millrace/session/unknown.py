"""Names that nothing has: the message lists what there is, and names what is most like it."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

from millrace.errors import UnknownNameError
from millrace.plan.nearest import nearest

if TYPE_CHECKING:
    from millrace.session.session import Session

MOST_LISTED = 10
MOST_COMPARED = 10_000

_PLURALS = {"query": "queries", "template": "templates", "sink": "sinks"}


def unknown(session: Session, what: str, name: str) -> UnknownNameError:
    """Return the error for a query or a template that does not exist."""
    feeds, named = session.engine.registry.catalog.feeds, session.engine.registry.population.names
    templates = [each.name for each in feeds.values() if each.kind == "template"]
    known: Collection[str] = templates if what == "template" else named
    other = "query" if what == "template" else "template"
    if name in (named if what == "template" else templates):
        detail = f'"{name}" is a {other}.'
    else:
        detail = there_are(_PLURALS[what], known)
    return UnknownNameError(
        f'{what} "{name}" does not exist',
        detail=detail,
        hint=nearest(name, list(islice(known, MOST_COMPARED))),
        node=(what, name),
    )


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
