"""What of a dataflow is looked at: a query, or all that has a word in its name or its text.

Cost: one look at the name and the text of each feed, and at the texts of at most 10,000 families
of feeds that many queries share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from millrace.engine.hidden import is_hidden

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.engine.feeds import FeedSpec

MOST_TEXTS = 10_000


@dataclass(frozen=True, slots=True)
class Focus:
    """Feeds by their names, and families by their keys; what runs a feed is looked at with it."""

    feeds: frozenset[str]
    families: frozenset[str] = frozenset()

    @classmethod
    def on_query(cls, catalog: Catalog, family: str) -> Self:
        """Look at one query, of a family; where it shares its feed, at that family alone."""
        feed = catalog.feeds[catalog.families[family].feed]
        if feed.kind == "shared":
            return cls(frozenset(), frozenset([family]))
        return cls(frozenset(_with_runners(catalog, [feed.name])))

    @classmethod
    def on_word(
        cls,
        catalog: Catalog,
        word: str,
        sees: Callable[[str], bool],
        shown: Callable[[str], str],
        families: Iterable[tuple[str, str]],
    ) -> Self:
        """Look at what somebody sees that has a word in it, of `families` by feed and key."""
        folded = word.casefold()

        def has(feed: FeedSpec) -> bool:
            named = shown(feed.name).casefold()
            return not is_hidden(feed.name) and (folded in named or folded in feed.text.casefold())

        feeds = {feed.name for feed in catalog.feeds.values() if sees(feed.name) and has(feed)}
        keys = set()
        shared = (each for each in families if catalog.feeds[each[0]].kind == "shared")
        for (feed, key), _ in zip(shared, range(MOST_TEXTS), strict=False):
            if feed not in feeds and folded in str(catalog.families[key].selection).casefold():
                keys.add(key)
        return cls(frozenset(_with_runners(catalog, feeds)), frozenset(keys))

    def has_family(self, feed: str, key: str) -> bool:
        """Say whether a family of a feed is looked at."""
        return feed in self.feeds or key in self.families


def _with_runners(catalog: Catalog, names: Iterable[str]) -> set[str]:
    """Return feeds, and those whose plans run them."""
    feeds = [catalog.feeds[name] for name in names]
    return {each.name for each in feeds} | {each.family for each in feeds if each.joined}
