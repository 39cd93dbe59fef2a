"""Names that nothing has: the message lists what there is, and names what is most like it."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import TYPE_CHECKING

from millrace.engine.hidden import is_hidden
from millrace.errors import UnknownNameError
from millrace.plan.nearest import MOST_COMPARED, nearest, there_are

if TYPE_CHECKING:
    from millrace.session.session import Session

_PLURALS = {"query": "queries", "template": "templates", "sink": "sinks"}


def unknown(session: Session, what: str, name: str) -> UnknownNameError:
    """Return the error for a query or a template that does not exist."""
    feeds, registered = session.engine.registry.catalog.feeds, session.engine.registry.population
    named = [each for each in registered.names if not is_hidden(each)]
    templates = [each.name for each in feeds.values() if each.kind == "template"]
    known: Collection[str] = templates if what == "template" else named
    other = "query" if what == "template" else "template"
    if name in (named if what == "template" else templates):
        detail = f'"{name}" is a {other}.'
    else:
        detail = there_are(_PLURALS[what], known)
    hint = nearest(name, list(islice(known, MOST_COMPARED)))
    if what == "template" and name in session.engine.registry.catalog.streams:
        detail, hint = f'"{name}" is a stream.', "Its rows come from its source."
    return UnknownNameError(
        f'{what} "{name}" does not exist',
        detail=detail,
        hint=hint,
        node=(what, name),
    )
