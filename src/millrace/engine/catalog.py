"""The catalog: every stream, feed and family in force, as of one number of the registry.

A catalog is immutable; a change makes the next one. The standing queries themselves are not in
it: they are rows, in files of their own, which the catalog that is published to tasks names
(`index`). Tasks read it from the file `catalogs/<sequence>`, which is written once, before the
first epoch that uses it, and remember it by that name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self

from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.streams import StreamSpec
from millrace.errors import NameTakenError, PlanError, UnknownNameError
from millrace.plan.bind import nearest

TAKEN = "Drop it first, or choose another name; only the very same query may be given again."


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of standing queries, and the section of the catalog that says who is out of it."""

    name: str
    masked: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All streams, feeds and families after the first `sequence` changes of the registry."""

    sequence: int = 0
    next_qid: int = 1
    next_number: int = 1
    streams: dict[str, StreamSpec] = field(default_factory=dict)
    feeds: dict[str, FeedSpec] = field(default_factory=dict)
    families: dict[str, Family] = field(default_factory=dict)
    index: dict[str, tuple[IndexFile, ...]] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """The name of the file that tasks read this catalog from."""
        return f"catalogs/{self.sequence:012d}"

    def stream(self, name: str) -> StreamSpec:
        """Return the stream of that name, or say which ones exist."""
        if name not in self.streams:
            raise UnknownNameError(
                f'stream "{name}" does not exist',
                detail=f"The streams are {', '.join(self.streams) or 'none'}.",
                hint=nearest(name, list(self.streams)),
            )
        return self.streams[name]

    def feed(self, name: str, what: str = "query") -> FeedSpec:
        """Return the feed of that name, or say which ones are close."""
        if name not in self.feeds:
            raise UnknownNameError(
                f'{what} "{name}" does not exist',
                detail=f"There are {_some(list(self.feeds))}.",
                hint=nearest(name, list(self.feeds)),
                node=("query", name),
            )
        return self.feeds[name]

    def families_of(self, feed: str) -> list[str]:
        """Return the keys of a feed's families."""
        return [key for key, each in self.families.items() if each.feed == feed]

    def apply(self, change: dict[str, Any]) -> Catalog:
        """Return the catalog after one change; a change that does not fit raises."""
        match change["do"]:
            case "add stream":
                after = self._with_stream(StreamSpec.from_json(change["stream"]))
            case "drop stream":
                after = self._without_stream(change["name"])
            case "add feed":
                after = self._with_feed(FeedSpec.from_json(change["feed"]))
            case "drop feed":
                after = self._without_feed(change["name"])
            case "add queries":
                after = self._with_queries(Family.from_json(change["family"]), change["n_rows"])
            case "drop queries" | "pause" | "resume" | "change queries":
                after = self
            case unknown:
                message = f"not a change of the registry: {unknown!r}"
                raise AssertionError(message)
        return replace(after, sequence=self.sequence + 1)

    def _with_stream(self, spec: StreamSpec) -> Catalog:
        if spec.name in self.streams:
            raise NameTakenError(f'stream "{spec.name}" exists already')
        born = replace(spec, born=self.sequence + 1)
        return replace(self, streams={**self.streams, spec.name: born})

    def _without_stream(self, name: str) -> Catalog:
        self.stream(name)
        readers = [each.name for each in self.feeds.values() if name in each.sources]
        if readers:
            raise PlanError(
                f'stream "{name}" is in use',
                detail=f'{len(readers)} queries and templates read it, such as "{readers[0]}".',
                hint="Drop them first.",
            )
        return replace(self, streams={n: s for n, s in self.streams.items() if n != name})

    def _with_feed(self, feed: FeedSpec) -> Catalog:
        if feed.name in self.feeds:
            raise NameTakenError(f'query "{feed.name}" exists already', hint=TAKEN)
        for name in feed.sources:
            self.stream(name)
        numbered = replace(feed, number=self.next_number)
        feeds = {**self.feeds, feed.name: numbered}
        return replace(self, feeds=feeds, next_number=self.next_number + 1)

    def _without_feed(self, name: str) -> Catalog:
        self.feed(name)
        feeds = {each: spec for each, spec in self.feeds.items() if each != name}
        gone = set(self.families_of(name))
        families = {key: each for key, each in self.families.items() if key not in gone}
        return replace(self, feeds=feeds, families=families)

    def _with_queries(self, family: Family, n_rows: int) -> Catalog:
        feed = self.feed(family.feed)
        known = replace(family, number=feed.number)
        after = replace(self, next_qid=self.next_qid + n_rows)
        if known.key in self.families:
            return after
        return replace(after, families={**self.families, known.key: known})

    def to_json(self) -> dict[str, Any]:
        """Spell what tasks need, and with the families what a snapshot of the registry needs."""
        return {
            "sequence": self.sequence,
            "next_qid": self.next_qid,
            "next_number": self.next_number,
            "streams": [each.to_json() for each in self.streams.values()],
            "feeds": [each.to_json() for each in self.feeds.values()],
            "index": {
                stream: [[each.name, each.masked] for each in files]
                for stream, files in self.index.items()
            },
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        streams = [StreamSpec.from_json(each) for each in spelt["streams"]]
        feeds = [FeedSpec.from_json(each) for each in spelt["feeds"]]
        index = {
            stream: tuple(IndexFile(*each) for each in files)
            for stream, files in spelt["index"].items()
        }
        return cls(
            spelt["sequence"],
            spelt["next_qid"],
            spelt["next_number"],
            {each.name: each for each in streams},
            {each.name: each for each in feeds},
            index=index,
        )


def _some(names: list[str], most: int = 10) -> str:
    shown = ", ".join(f'"{each}"' for each in names[:most])
    if len(names) > most:
        return f"{len(names):,} queries and templates, such as {shown}"
    return f"the queries and templates {shown}" if names else "no queries and no templates"
