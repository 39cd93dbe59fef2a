"""The running dataflow as a graph: what flows from streams to feeds and sinks, and who shares what.

    stream ─► index ─► family ─► feed ─► sink             selections: one index for each stream
    stream ─► store ─► operators of a plan ─► feed        plans: elements are stored once for all
    table ──────────►

A node has an id, a kind, a label and properties; an edge says how many rows a second went along it
over the last epochs. Of many families and plans the largest are drawn, and the rest is counted;
who looks for some of them finds these alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from millrace.engine.feeds import FeedSpec
from millrace.engine.flows import flow, inputs_of
from millrace.engine.hidden import is_hidden
from millrace.engine.plan_stores import element_stores, state_prefix
from millrace.engine.plans import compiled
from millrace.engine.work import PlanWork
from millrace.plan.relations import Source, Table
from millrace.plan.tree import branches, operator_name
from millrace.session.dataflow_focus import Focus
from millrace.session.dataflow_rates import Rates, recent_of
from millrace.session.plan_stores import held
from millrace.time import SECOND, print_duration

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.session.session import Session

MOST_FAMILIES = 12
MOST_PLANS = 12
LONGEST_LABEL = 80


@dataclass(slots=True)
class Graph:
    """Nodes by their ids, and edges."""

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    edges: dict[tuple[str, str], float] = field(default_factory=dict)

    def node(self, ident: str, kind: str, label: str, **properties: Any) -> str:  # noqa: ANN401
        """Add a node, if it is not there; return its id."""
        short = label if len(label) <= LONGEST_LABEL else f"{label[:LONGEST_LABEL]}…"
        known = {"id": ident, "kind": kind, "label": short, "properties": properties}
        self.nodes.setdefault(ident, known)
        return ident

    def edge(self, begin: str, end: str, rate: float) -> None:
        """Add an edge, or rows to one that is there."""
        self.edges[begin, end] = self.edges.get((begin, end), 0.0) + rate

    def keep_connected(self) -> None:
        """Leave out what nothing flows to or from."""
        ends = {end for edge in self.edges for end in edge}
        self.nodes = {ident: node for ident, node in self.nodes.items() if ident in ends}

    def to_json(self) -> dict[str, Any]:
        """Spell the graph as JSON."""
        edges = [{"from": a, "to": b, "rate": rate} for (a, b), rate in self.edges.items()]
        return {"nodes": list(self.nodes.values()), "edges": edges}


@dataclass(frozen=True, slots=True)
class _Sight:
    """What is drawn: what somebody sees of a catalog, and what of that is looked at, if not all."""

    catalog: Catalog
    rates: Rates
    sees: Callable[[str], bool]
    focus: Focus | None = None

    def selects(self, feed: str) -> bool:
        """Say whether a feed is of selections, and seen."""
        return self.catalog.feeds[feed].plan is None and self.sees(feed)

    def family(self, feed: str, key: str) -> bool:
        """Say whether a family is looked at."""
        return self.focus is None or self.focus.has_family(feed, key)

    def feed(self, name: str) -> bool:
        """Say whether a feed is drawn."""
        return self.sees(name) and (self.focus is None or name in self.focus.feeds)


@dataclass(slots=True)
class Dataflow:
    """Draws the dataflow of one session; how many queries each family has is counted once."""

    session: Session
    _counted: tuple[int, dict[tuple[str, str], int]] = (-1, {})

    def graph(
        self,
        sees: Callable[[str], bool] | None = None,
        shown: Callable[[str], str] = lambda name: name,
        *,
        find: str = "",
        query: int | None = None,
    ) -> dict[str, Any]:
        """Return nodes and edges, with the names of feeds as they are shown to whoever asks.

        Who does not see everything sees no sinks, and queries of others as a count. With `find`,
        what has that in its name or its text is drawn, and what it reads; or, by its id, a `query`.
        """
        engine = self.session.engine
        catalog, recent = engine.registry.catalog, recent_of(list(engine.statistics))
        visible, rates = sees or (lambda _: True), Rates.over(recent)
        focus = self._focus(catalog, find, query, visible, shown)
        sight = _Sight(catalog, rates, visible, focus)
        drawn = Graph()
        for stream in catalog.streams.values():
            drawn.node(
                f"stream:{stream.name}",
                "stream",
                stream.name,
                rate=rates.rows.get(stream.name, 0.0),
                columns=str(stream.schema),
                delay=print_duration(stream.delay),
                retain=None if stream.retain is None else print_duration(stream.retain),
                lag=recent[-1].lag.get(stream.name, 0) / SECOND if recent else None,
            )
        self._families(drawn, sight)
        self._plans(drawn, sight)
        if focus is None:
            self._others(drawn, catalog, rates.rows, visible)
        if sees is None:
            self._sinks(drawn, catalog, rates.results)
        if focus is not None:
            drawn.keep_connected()
        for node in drawn.nodes.values():
            if node["kind"] == "feed":
                node["label"] = shown(node["label"])
            if node["properties"].get("query"):
                node["properties"]["shown"] = shown(node["properties"]["query"])
        return drawn.to_json()

    def _sizes(self) -> dict[tuple[str, str], int]:
        registry = self.session.engine.registry
        if self._counted[0] != registry.catalog.sequence:
            self._counted = registry.catalog.sequence, registry.family_sizes()
        return self._counted[1]

    def _focus(
        self,
        catalog: Catalog,
        find: str,
        query: int | None,
        visible: Callable[[str], bool],
        shown: Callable[[str], str],
    ) -> Focus | None:
        family = None if query is None else self.session.engine.registry.family_of(query)
        if family is not None:
            return Focus.on_query(catalog, family)
        if not find:
            return None
        families = (each for each in self._sizes() if each[1] in catalog.families)
        return Focus.on_word(catalog, find, visible, shown, families)

    def _families(self, drawn: Graph, sight: _Sight) -> None:
        catalog, rows, results = sight.catalog, sight.rates.rows, sight.rates.results
        sizes_of = self.session.engine.registry.index_bytes()
        sizes = {
            (feed, key): n
            for (feed, key), n in self._sizes().items()
            if key in catalog.families and sight.selects(feed)
        }
        n_families = Counter(feed for feed, _ in self._sizes())
        looked_at = {each for each in sizes if sight.family(*each)}
        for stream in dict.fromkeys(catalog.feeds[feed].stream for feed, _ in looked_at):
            mine = {each: n for each, n in sizes.items() if catalog.feeds[each[0]].stream == stream}
            index = drawn.node(
                f"index:{stream}",
                "index",
                f"index over {stream}",
                queries=sum(mine.values()),
                families=len(mine),
                rate=rows.get(stream, 0.0),
                results=sight.rates.found.get(stream, 0.0),
                selectivity=sight.rates.passing(stream),
                busy=sight.rates.spent.get(stream, 0.0),
                bytes=sizes_of.get(stream, 0),
                access=self.session.engine.settings.access,
            )
            drawn.edge(f"stream:{stream}", index, rows.get(stream, 0.0))
            mine = {each: n for each, n in mine.items() if each in looked_at}
            shown = sorted(mine, key=lambda each: -mine[each])[:MOST_FAMILIES]
            read = rows.get(stream, 0.0)
            for feed, key in shown:
                text = str(catalog.families[key].selection)
                part = results.get(feed, 0.0) if n_families[feed] == 1 else None
                family = drawn.node(
                    f"family:{key}",
                    "family",
                    text,
                    queries=mine[feed, key],
                    results=part,
                    selectivity=part / read if part is not None and read else None,
                    query=feed,
                    feed_kind=catalog.feeds[feed].kind,
                    text=text,
                )
                target, rate = _feed(drawn, catalog.feeds[feed], results), results.get(feed, 0.0)
                drawn.edge(index, family, rate)
                drawn.edge(family, target, rate)
            left = {each: n for each, n in mine.items() if each not in set(shown)}
            if left:
                label = f"{len(left):,} more {'family' if len(left) == 1 else 'families'}"
                more = drawn.node(f"more:{stream}", "more", label, queries=sum(left.values()))
                rate = sum(results.get(feed, 0.0) for feed in {feed for feed, _ in left})
                drawn.edge(index, more, rate)

    def _plans(self, drawn: Graph, sight: _Sight) -> None:
        catalog, rows, results = sight.catalog, sight.rates.rows, sight.rates.results
        works = self.session.engine.work.plans
        mine = [each for each in catalog.plans() if sight.feed(each.name)]
        plans = sorted(mine, key=lambda each: -_seconds(works.get(each.number)))
        shown = plans[:MOST_PLANS]
        for feed in shown:
            told, fed = _told(feed, catalog), _feeds_of(feed, catalog, sight.feed)
            self._plan(drawn, catalog, feed, fed[0].name, rows)
            for each in told:
                for own in fed:
                    rate = results.get(own.name, 0.0) / len(told)
                    drawn.edge(each, _feed(drawn, own, results), rate)
        left = plans[MOST_PLANS:]
        if left:
            label = f"{len(left):,} more plan{'' if len(left) == 1 else 's'}"
            seconds = sum(_seconds(works.get(each.number)) for each in left)
            more = drawn.node("more:plans", "more", label, seconds=seconds)
            for stream in dict.fromkeys(name for each in left for name in each.sources):
                drawn.edge(f"stream:{stream}", more, rows.get(stream, 0.0))

    def _others(
        self,
        drawn: Graph,
        catalog: Catalog,
        rows: Mapping[str, float],
        visible: Callable[[str], bool],
    ) -> None:
        """Count the queries that are not visible, at each stream that they read."""
        counts: dict[str, int] = {}
        for (feed, _), n_queries in self._sizes().items():
            if not visible(feed) and not is_hidden(feed):
                for stream in catalog.feeds[feed].sources:
                    counts[stream] = counts.get(stream, 0) + n_queries
        for stream, n_queries in counts.items():
            words = "query of others" if n_queries == 1 else "queries of others"
            others = drawn.node(f"others:{stream}", "others", f"{n_queries:,} {words}")
            drawn.edge(f"stream:{stream}", others, rows.get(stream, 0.0))

    def _plan(
        self,
        drawn: Graph,
        catalog: Catalog,
        feed: FeedSpec,
        query: str,
        rows: Mapping[str, float],
    ) -> None:
        """Draw the operators of a plan, above the stores that it reads."""
        engine = self.session.engine
        tables = engine.registry.table_sizes()
        assert feed.plan is not None, "only a plan has operators"
        plan, work = compiled(feed, catalog), engine.work.plans.get(feed.number, PlanWork())
        names, last = plan.names(), max(self._span(work), 1e-6)
        lines = {node: line.strip() for line, node in branches(feed.plan.told[-1]) if node}
        stores = {each.stream: each for each in element_stores(feed, catalog)}
        for each in stores.values():
            n_rows, n_bytes = held(engine.manifest, each.name)
            order = f" by {each.place}" if each.place and each.order == "key" else " by time"
            label = f"rows of {each.stream}{order}"
            store = drawn.node(
                f"store:{each.name}", "store", label, rows=n_rows, bytes=n_bytes, readers=0
            )
            drawn.nodes[store]["properties"]["readers"] += 1
            drawn.edges[f"stream:{each.stream}", store] = rows.get(each.stream, 0.0)
        for node, short in names.items():
            if isinstance(node, Source):
                continue
            done = flow(work.total, node, names)
            known: dict[str, Any] = {}
            if isinstance(node, Table):
                known = {"table": node.name, "rows": tables.get(node.name)}
            state = [held(engine.manifest, state_prefix(feed) + name) for name in plan.stores
                     if name.partition(".")[0] == short]  # fmt: skip
            ident = drawn.node(
                _operator(feed, short),
                "table" if isinstance(node, Table) else "operator",
                lines.get(node, operator_name(node)),
                query=query,
                told_as=feed.name,
                feed_kind=feed.kind,
                operator=f"{operator_name(node)} {short}",
                rows_in=done.read,
                rows_out=done.told,
                selectivity=done.told / done.read if done.read else None,
                seconds=done.seconds,
                state_rows=sum(rows for rows, _ in state),
                state_bytes=sum(size for _, size in state),
                policy="reads again" if node in plan.rereading.made else "remembers",
                **known,
            )
            for below in inputs_of(node):
                told = work.last.get(names[below]) if below in names else None
                rate = told.rows / last if told is not None else 0.0
                if isinstance(below, Source):
                    drawn.edge(f"store:{stores[below.name].name}", ident, rate)
                else:
                    drawn.edge(_operator(feed, names[below]), ident, rate)

    def _span(self, work: PlanWork) -> float:
        """Return how many seconds after the one before it the last epoch of a plan began."""
        epochs = {each.epoch: each.started for each in self.session.engine.statistics}
        before = [at for epoch, at in epochs.items() if epoch < work.epoch]
        return (epochs.get(work.epoch, 0) - before[-1]) / SECOND if before else 1.0

    def _sinks(self, drawn: Graph, catalog: Catalog, results: Mapping[str, float]) -> None:
        for sink in self.session.sinks():
            ident = drawn.node(
                f"sink:{sink.name}",
                "sink",
                sink.name,
                state=sink.state,
                lag_epochs=sink.lag_epochs,
                backlog_rows=sink.backlog_rows,
                backlog_bytes=sink.backlog_bytes,
                error=sink.error or None,
            )
            for name in self.session.engine.delivery.delivered_to(sink.name, catalog.feeds):
                if f"feed:{name}" in drawn.nodes:
                    drawn.edge(f"feed:{name}", ident, results.get(name, 0.0))


def _feed(drawn: Graph, feed: FeedSpec, results: Mapping[str, float]) -> str:
    return drawn.node(
        f"feed:{feed.name}",
        "feed",
        feed.name,
        of=feed.kind,
        rate=results.get(feed.name, 0.0),
        keeps=feed.keep if feed.retain is None else None,
        kept_for=None if feed.retain is None else print_duration(feed.retain),
        policy=None if feed.retain is None or feed.joined or feed.runs_queries else feed.policy,
        text=feed.text,
        query=feed.name,
        feed_kind=feed.kind,
    )


def _feeds_of(feed: FeedSpec, catalog: Catalog, drawn: Callable[[str], bool]) -> list[FeedSpec]:
    """Return the feeds that a plan tells: its own, or those of some queries that it runs."""
    if feed.kind != "family":
        return [feed]
    names = [name for name in catalog.members(feed.name).values() if drawn(name)]
    return [catalog.feeds[name] for name in names[:MOST_FAMILIES]]


def _operator(feed: FeedSpec, short: str) -> str:
    return f"operator:{feed.number}.{short}"


def _told(feed: FeedSpec, catalog: Catalog) -> list[str]:
    """Return the nodes of the operators that tell what a plan tells."""
    assert feed.plan is not None, "only a plan has operators"
    names = compiled(feed, catalog).names()
    return [_operator(feed, names[each]) for each in feed.plan.told]


def _seconds(work: PlanWork | None) -> float:
    return 0.0 if work is None else sum(each.seconds for each in work.total.values())
