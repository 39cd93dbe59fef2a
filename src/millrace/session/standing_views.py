"""Standing queries that are named in FROM: each is read as a view of its text would be.

They are looked up only where a name means nothing else, so that who names streams pays nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millrace.lang.queries import Parsed
    from millrace.lang.relational.context import View
    from millrace.session.session import Session


def standing_views(
    session: Session, query: str | Parsed, views: dict[str, View]
) -> dict[str, View]:
    """Return the standing queries that a query names, and those that they name, as views."""
    from sqlglot import exp  # noqa: PLC0415  slow to import

    from millrace.lang.errors import LanguageError  # noqa: PLC0415
    from millrace.lang.queries import query_of  # noqa: PLC0415
    from millrace.lang.relational.context import View  # noqa: PLC0415

    catalog = session.engine.registry.catalog
    found: dict[str, View] = {}
    seen = {*catalog.streams, *catalog.tables}
    waiting = [query_of(query) if isinstance(query, str) else query]
    while waiting:
        named = {each.name for each in waiting.pop().tree.find_all(exp.Table)} - seen
        seen |= named
        for name in sorted(named):
            feed = catalog.feeds.get(name)
            if name in views:
                waiting.append(views[name].query)
            elif feed is not None and feed.kind == "query":
                try:
                    asked = query_of(feed.text)
                except LanguageError:
                    continue  # it was built and not written
                found[name] = View(asked)
                waiting.append(asked)
    return found
