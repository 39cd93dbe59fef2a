"""The catalog: every stream, table, view, feed and family in force, at one number of the registry.

A catalog is immutable; a change makes the next one. The standing queries themselves are not in
it, nor are the rows of tables: they are in files of their own, which the catalog that is published
to tasks names (`index`, `table_files`). Tasks read it from the file `catalogs/<sequence>`, which is
written once, before the first epoch that uses it, and remember it by that name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar

from millrace.engine.feeds import Family, FeedSpec, Policy
from millrace.engine.streams import StreamSpec
from millrace.engine.tables import TableFile, TableSpec
from millrace.engine.views import ViewSpec
from millrace.errors import NameTakenError, PlanError, UnknownNameError
from millrace.operators.relational.plan import Plan
from millrace.plan.bind import nearest

Spec = TypeVar("Spec")

TAKEN = "Drop it first, or choose another name; only the very same query may be given again."


@dataclass(frozen=True, slots=True)
class IndexFile:
    """A file of standing queries, and the section of the catalog that says who is out of it."""

    name: str
    masked: str = ""


@dataclass(frozen=True, slots=True)
class Catalog:
    """All that is declared after the first `sequence` changes of the registry."""

    sequence: int = 0
    next_qid: int = 1
    next_number: int = 1
    streams: dict[str, StreamSpec] = field(default_factory=dict)
    feeds: dict[str, FeedSpec] = field(default_factory=dict)
    families: dict[str, Family] = field(default_factory=dict)
    index: dict[str, tuple[IndexFile, ...]] = field(default_factory=dict)
    tables: dict[str, TableSpec] = field(default_factory=dict)
    views: dict[str, ViewSpec] = field(default_factory=dict)
    table_files: dict[str, tuple[TableFile, ...]] = field(default_factory=dict)
    born: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of each family with a plan, the changes of the registry that brought its queries."""
    planned: tuple[str, ...] = ()
    """The feeds that have a plan: there may be many others, which nobody need go through."""
    retained: tuple[str, ...] = ()
    """The feeds whose answers are kept for some time; likewise."""
    historic: tuple[str, ...] = ()
    """The feeds whose queries see history; likewise."""
    varied: tuple[str, ...] = ()
    """The feeds whose answers were kept in other ways before; likewise."""
    fleeting: tuple[str, ...] = ()
    """The feeds that end by themselves; likewise."""
    first_end: int | None = None
    """When the first of them does."""
    operators: dict[int, Plan] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Of feeds with a plan, by number, its operators, as soon as somebody has asked for them."""

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

    def table(self, name: str) -> TableSpec:
        """Return the table of that name, or say which ones exist."""
        return _found("table", name, self.tables)

    def view(self, name: str) -> ViewSpec:
        """Return the view of that name, or say which ones exist."""
        return _found("view", name, self.views)

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

    def plans(self) -> list[FeedSpec]:
        """Return the feeds that have a plan."""
        return [self.feeds[name] for name in self.planned]

    def runner(self, feed: FeedSpec) -> FeedSpec:
        """Return the feed whose plan runs a query: its own, or that of its family."""
        return self.feeds[feed.family] if feed.joined else feed

    def members(self, family: str) -> dict[int, str]:
        """Return the queries that the feed of a family runs together, by their ids."""
        return {
            each.member: name
            for name, each in self.feeds.items()
            if each.member and each.family == family
        }

    def families_of(self, feed: str) -> list[str]:
        """Return the keys of a feed's families."""
        return [key for key, each in self.families.items() if each.feed == feed]

    def apply(self, change: dict[str, Any]) -> Catalog:  # noqa: C901, PLR0912  a case for each change
        """Return the catalog after one change; a change that does not fit raises."""
        match change["do"]:
            case "add stream":
                after = self._with_stream(StreamSpec.from_json(change["stream"]))
            case "drop stream":
                after = self._without_stream(change["name"])
            case "retain stream":
                after = self._with_retention(change["name"], change["retain"])
            case "bind stream":
                after = self._with_source(change["name"], pushed=change["pushed"])
            case "add table":
                after = self._with_table(TableSpec.from_json(change["table"]))
            case "drop table":
                after = self._without_table(change["name"])
            case "change table":
                self.table(change["name"])
                after = self
            case "add view":
                after = self._with_view(ViewSpec.from_json(change["view"]))
            case "drop view":
                after = self._without_view(change["name"])
            case "add feed":
                after = self._with_feed(FeedSpec.from_json(change["feed"]))
            case "drop feed":
                after = self._without_feed(change["name"])
            case "set policy":
                after = self._with_policy(change["name"], change["policy"])
            case "add queries":
                family = Family.from_json(change["family"])
                after = self._with_queries(family, change["n_rows"])
            case "drop queries" | "pause" | "resume" | "change queries" | "renew queries":
                after = self
            case unknown:
                message = f"not a change of the registry: {unknown!r}"
                raise AssertionError(message)
        return replace(after, sequence=self.sequence + 1)

    def _with_stream(self, spec: StreamSpec) -> Catalog:
        if spec.name in self.streams:
            raise NameTakenError(f'stream "{spec.name}" exists already')
        self.require_no_relation(spec.name)
        born = replace(spec, born=self.sequence + 1)
        return replace(self, streams={**self.streams, spec.name: born})

    def _without_stream(self, name: str) -> Catalog:
        self.stream(name)
        self._require_unread("stream", name)
        return replace(self, streams={n: s for n, s in self.streams.items() if n != name})

    def _with_retention(self, name: str, retain: int) -> Catalog:
        changed = self.stream(name).retained(retain)
        return replace(self, streams={**self.streams, name: changed})

    def _with_source(self, name: str, *, pushed: bool) -> Catalog:
        changed = replace(self.stream(name), pushed=pushed)
        return replace(self, streams={**self.streams, name: changed})

    def _with_table(self, spec: TableSpec) -> Catalog:
        self._require_new("table", spec.name)
        born = replace(spec, born=self.sequence + 1)
        return replace(self, tables={**self.tables, spec.name: born})

    def _without_table(self, name: str) -> Catalog:
        self.table(name)
        self._require_unread("table", name)
        return replace(self, tables={n: s for n, s in self.tables.items() if n != name})

    def _with_view(self, spec: ViewSpec) -> Catalog:
        self._require_new("view", spec.name)
        return replace(self, views={**self.views, spec.name: spec})

    def _without_view(self, name: str) -> Catalog:
        self.view(name)
        self._require_unread("view", name)
        return replace(self, views={n: s for n, s in self.views.items() if n != name})

    def _require_new(self, what: str, name: str) -> None:
        """Refuse a name for a table or a view that anything has; case does not count."""
        kinds: dict[str, Collection[str]] = {
            "stream": self.streams,
            "table": self.tables,
            "view": self.views,
            "query": self.feeds,
        }
        for kind, known in kinds.items():
            taken = name if name in known else _alike(name, known)
            if taken is not None:
                raise NameTakenError(
                    f'{kind} "{taken}" exists already',
                    detail=f'So "{name}" cannot be a {what}.',
                    hint="Drop it first, or choose another name.",
                )

    def require_no_relation(self, name: str) -> None:
        """Refuse a name for a stream or a query that a table or a view has."""
        for kind, known in (("table", self.tables), ("view", self.views)):
            taken = _alike(name, known)
            if taken is not None:
                raise NameTakenError(
                    f'{kind} "{taken}" exists already', hint="Choose another name."
                )

    def _require_unread(self, what: str, name: str) -> None:
        """Refuse to drop what is read; a view is not, by queries: they were made of its text."""
        readers = [each.name for each in self.feeds.values() if name in each.reads]
        views = [each.name for each in self.views.values() if name in each.reads]
        if what != "view" and readers:
            raise PlanError(
                f'{what} "{name}" is in use',
                detail=f'{len(readers)} queries and templates read it, such as "{readers[0]}".',
                hint="Drop them first.",
            )
        if views:
            raise PlanError(
                f'{what} "{name}" is in use',
                detail=f"It is read by the views {', '.join(views)}.",
                hint="Drop them first.",
            )

    def _with_feed(self, feed: FeedSpec) -> Catalog:
        if feed.name in self.feeds:
            raise NameTakenError(f'query "{feed.name}" exists already', hint=TAKEN)
        self.require_no_relation(feed.name)
        for name in feed.sources:
            self.stream(name)
        for name in feed.plan.tables if feed.plan is not None else ():
            self.table(name)
        numbered = replace(feed, number=self.next_number)
        if feed.joined:
            numbered = numbered.run_by(self.feed(feed.family))
        feeds = {**self.feeds, feed.name: numbered}
        return replace(
            self,
            feeds=feeds,
            next_number=self.next_number + 1,
            planned=self.planned + _if_planned(numbered),
            retained=self.retained + _if_retained(feed),
            historic=self.historic + _if_historic(feed),
            fleeting=self.fleeting + _if_fleeting(feed),
            first_end=_first_end([self.first_end, feed.expires]),
        )

    def outlived(self, name: str) -> tuple[str, ...]:
        """Return the feeds that go with a feed: itself, and its family if it is the last of it."""
        feed = self.feed(name)
        if not feed.joined or self.members(feed.family).keys() - {feed.member}:
            return (name,)
        return name, feed.family

    def _without_feed(self, name: str) -> Catalog:
        after = self
        for each in self.outlived(name):
            after = after._without(each)
        return after

    def _without(self, name: str) -> Catalog:
        feeds = {each: spec for each, spec in self.feeds.items() if each != name}
        gone = set(self.families_of(name))
        families = {key: each for key, each in self.families.items() if key not in gone}
        fleeting, first_end = _left(self.fleeting, name), self.first_end
        if self.feeds[name].expires == first_end:
            first_end = _first_end(feeds[each].expires for each in fleeting)
        return replace(
            self,
            feeds=feeds,
            families=families,
            planned=_left(self.planned, name),
            retained=_left(self.retained, name),
            historic=_left(self.historic, name),
            varied=_left(self.varied, name),
            fleeting=fleeting,
            first_end=first_end,
        )

    def _with_policy(self, name: str, policy: Policy) -> Catalog:
        feed = self.feed(name).with_policy(policy)
        varied = (*_left(self.varied, name), name)
        return replace(self, feeds={**self.feeds, name: feed}, varied=varied)

    def _with_queries(self, family: Family, n_rows: int) -> Catalog:
        feed = self.feed(family.feed)
        known = replace(family, number=feed.number)
        after = replace(self, next_qid=self.next_qid + n_rows)
        if feed.joined:
            joined = replace(feed, member=self.next_qid)
            after = replace(after, feeds={**self.feeds, feed.name: joined})
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
            "tables": [each.to_json() for each in self.tables.values()],
            "views": [each.to_json() for each in self.views.values()],
            "table_files": {
                name: [each.to_json() for each in files] for name, files in self.table_files.items()
            },
            "born": self.born,
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        streams = [StreamSpec.from_json(each) for each in spelt["streams"]]
        feeds = _with_plans(FeedSpec.from_json(each) for each in spelt["feeds"])
        index = {
            stream: tuple(IndexFile(*each) for each in files)
            for stream, files in spelt["index"].items()
        }
        tables = [TableSpec.from_json(each) for each in spelt.get("tables", [])]
        views = [ViewSpec.from_json(each) for each in spelt.get("views", [])]
        table_files = {
            name: tuple(TableFile(*each) for each in files)
            for name, files in spelt.get("table_files", {}).items()
        }
        return cls(
            spelt["sequence"],
            spelt["next_qid"],
            spelt["next_number"],
            {each.name: each for each in streams},
            {each.name: each for each in feeds},
            index=index,
            tables={each.name: each for each in tables},
            views={each.name: each for each in views},
            table_files=table_files,
            born={name: tuple(each) for name, each in spelt.get("born", {}).items()},
            planned=tuple(name for each in feeds for name in _if_planned(each)),
            retained=tuple(name for each in feeds for name in _if_retained(each)),
            historic=tuple(name for each in feeds for name in _if_historic(each)),
            varied=tuple(each.name for each in feeds if each.former),
            fleeting=tuple(name for each in feeds for name in _if_fleeting(each)),
            first_end=_first_end(each.expires for each in feeds),
        )


def _with_plans(feeds: Iterable[FeedSpec]) -> list[FeedSpec]:
    """Return feeds, of which those that are run by their family have its plan."""
    found = {each.name: each for each in feeds}
    return [each.run_by(found[each.family]) if each.joined else each for each in found.values()]


def _if_planned(feed: FeedSpec) -> tuple[str, ...]:
    return () if feed.plan is None or feed.joined else (feed.name,)


def _if_retained(feed: FeedSpec) -> tuple[str, ...]:
    return () if feed.retain is None else (feed.name,)


def _if_historic(feed: FeedSpec) -> tuple[str, ...]:
    return () if feed.history is None else (feed.name,)


def _if_fleeting(feed: FeedSpec) -> tuple[str, ...]:
    return () if feed.expires is None else (feed.name,)


def _first_end(ends: Iterable[int | None]) -> int | None:
    return min((each for each in ends if each is not None), default=None)


def _left(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name) if name in names else names


def _found(what: str, name: str, known: Mapping[str, Spec]) -> Spec:
    if name not in known:
        raise UnknownNameError(
            f'{what} "{name}" does not exist',
            detail=f"The {what}s are {', '.join(known) or 'none'}.",
            hint=nearest(name, list(known)),
            node=(what, name),
        )
    return known[name]


def _alike(name: str, known: Iterable[str]) -> str | None:
    folded = name.casefold()
    return next((each for each in known if each.casefold() == folded), None)


def _some(names: list[str], most: int = 10) -> str:
    shown = ", ".join(f'"{each}"' for each in names[:most])
    if len(names) > most:
        return f"{len(names):,} queries and templates, such as {shown}"
    return f"the queries and templates {shown}" if names else "no queries and no templates"
