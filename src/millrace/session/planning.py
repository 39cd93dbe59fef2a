"""Planning: a query that is more than a selection becomes a feed with a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from millrace.engine.feeds import FeedSpec, Kind
from millrace.engine.parameters import parameter_schema
from millrace.engine.plans import CHANGE, PlanSpec
from millrace.errors import PlanError, UnboundedError
from millrace.plan.bands import laid_declared
from millrace.plan.bounds import growths
from millrace.plan.declared import Declared
from millrace.plan.expressions import Call, walk
from millrace.plan.families import Families
from millrace.plan.family_bounds import Span, horizon, remembered_rows, spans
from millrace.plan.levels import family_declared
from millrace.plan.nodes import Selection
from millrace.plan.outline import outline
from millrace.plan.panes import PaneWay, paned
from millrace.plan.placement import Placing
from millrace.plan.push import Pushing
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import Relation, Source, Stream, StreamOf, Table, Windowed
from millrace.plan.scopes import expressions_within, relations_in
from millrace.plan.unnest import Unnesting
from millrace.schema import type_name
from millrace.session.spreading import Spread, in_stages, shared_join
from millrace.session.standing_views import standing_views

if TYPE_CHECKING:
    from millrace.lang.queries import Parsed
    from millrace.lang.relational.bound import BoundRelation, View
    from millrace.session.session import Session


Bound = TypeVar("Bound")


def planned_feed(
    name: str,
    asked: str | Relation | StreamOf,
    session: Session,
    *,
    unbounded: bool = False,
    historic: bool = False,
    parameters: Mapping[str, str] | None = None,
    kind: Kind = "template",
) -> FeedSpec:
    """Return the feed that runs a query, which is a text or a plan.

    One that would remember every row of a stream is refused, unless it may be `unbounded`. With
    `parameters`, names and types, it is of a `kind` that runs all queries of a family. One that
    is `historic` reads no elements again: those of before are not stored.
    """
    again = session.engine.settings.again and not historic
    declared = declared_in(session)
    plan = bound_relation(asked, session, parameters).plan if isinstance(asked, str) else asked
    if not unbounded:
        _require_bound(plan)
    relation = plan.relation if isinstance(plan, StreamOf) else plan
    answer = relation_schema(relation, declared).to_arrow()
    if not isinstance(plan, StreamOf):
        answer = pa.schema([pa.field(CHANGE, pa.int32()), *answer])
    pushing = Pushing(declared)
    # What comes and what goes is of one relation: unnested anew, it gets the same names.
    plain = tuple(Unnesting(declared).stream(pushing.stream(each)) for each in _told(plan))
    streams = tuple(each for each in plain if isinstance(each, StreamOf))
    sources = tuple(dict.fromkeys(each for stream in streams for each in sources_of(stream)))
    if not sources:
        raise PlanError(
            "the query reads no stream",
            hint="Name a stream in FROM: a table alone is read with SELECT, and Table.rows().",
        )
    tables = tuple(dict.fromkeys(each for stream in streams for each in tables_of(stream)))
    functions, lasting = tuple(_functions(streams[0].relation, declared)), None
    shared = None
    if parameters is not None and again and (kind == "family" or _only_comes(streams)):
        settings = session.engine.settings
        shared = shared_join(streams, declared, times_in(session), settings)
    ages = tuple[Span, ...]()
    if parameters is not None:
        lasting = horizon(streams[0].relation)
        ages = (lasting is None and spans(streams[0].relation)) or ()
    panes: PaneWay = "never" if historic else session.engine.settings.panes
    if parameters is not None and shared is None:
        types = parameter_schema(parameters.values()).types
        orders = {each.name: each.order for each in session.streams.values()}
        streams = tuple(Families(declared, types, orders).stream(each) for each in streams)
        declared = family_declared(declared, types)
        if panes == "never" or paned(streams[0], declared) is None:
            ages = ()  # each query has windows of its own, with rows of its own
        endless = [] if unbounded else [*remembered_rows(streams[0])]
        if endless:
            raise _unbounded(f'A template remembers every row of "{endless[0]}"', endless[0])
    spread = Spread(streams, Placing(declared).columns(streams[0])) if shared is None else shared[1]
    if spread.columns is None and parameters is None:
        spread = in_stages(streams, declared, session.engine.settings)
    spec = PlanSpec(
        spread.streams,
        sources,
        None if spread.columns is None else tuple(sorted(spread.columns.items())),
        functions,
        tables,
        again=again and (shared is not None or parameters is None),
        panes=panes,
        hops=spread.hops,
        parameters=None if parameters is None else tuple(parameters.values()),
        horizon=lasting,
        spans=ages,
        sharing=None if shared is None else shared[0],
        laid=spread.laid,
    )
    text = asked if isinstance(asked, str) else outline(asked)
    named = tuple((parameters or {}).items())
    kind = "query" if parameters is None else kind
    return FeedSpec(name, sources[0], answer, kind, named, text=text, plan=spec)


def _only_comes(streams: Sequence[StreamOf]) -> bool:
    """Say whether only what comes is told: constants of a query may change, and then nothing goes.

    Of other templates it does, and is told; those are joined with their queries.
    """
    return [each.kind for each in streams] == ["istream"]


def declared_in(session: Session) -> Declared:
    """Return what a plan of a session may name."""
    catalog = session.engine.registry.catalog
    schemas = {each.name: each.schema for each in catalog.streams.values()}
    tables = {each.name: each.schema for each in catalog.tables.values()}
    return Declared(schemas, tables, session.function_types)


def declared_for(session: Session, plan: PlanSpec) -> Declared:
    """Return what a plan that stands may name: of a family, also its queries."""
    declared = laid_declared(declared_in(session), plan.laid)
    if plan.parameters is None or plan.sharing is not None:
        return declared
    return family_declared(declared, plan.parameter_types)


def bound_relation(
    query: str | Parsed,
    session: Session,
    parameters: Mapping[str, str] | None = None,
    *,
    queries: bool = True,
) -> BoundRelation:
    """Return the plan of a query over the streams, tables, views and `queries` of a session."""
    from millrace.lang.relational.bound import bind_relational  # noqa: PLC0415  slow to import

    return _bound(bind_relational, query, session, parameters, queries=queries)


def bound_any(
    query: str | Parsed, session: Session, parameters: Mapping[str, str] | None = None
) -> Selection | BoundRelation:
    """Return a query of a session as a selection if it is one, else as a plan."""
    from millrace.lang.relational.bound import bind_any  # noqa: PLC0415  slow to import

    return _bound(bind_any, query, session, parameters)


def _bound(
    bind: Callable[..., Bound],
    query: str | Parsed,
    session: Session,
    parameters: Mapping[str, str] | None,
    *,
    queries: bool = True,
) -> Bound:
    """Bind a query; what is no stream, table or view may be a standing query."""
    from millrace.lang.errors import LanguageError  # noqa: PLC0415  slow to import

    declared, times, views = declared_in(session), times_in(session), views_in(session)
    try:
        return bind(query, declared, views=views, times=times, parameters=parameters)
    except LanguageError as refused:
        more = {}
        if refused.code == "CQL001" and queries and session.reads_queries:
            more = standing_views(session, query, views)
        if not more:
            raise
        views = {**views, **more}
    return bind(query, declared, views=views, times=times, parameters=parameters)


def times_in(session: Session) -> dict[str, str]:
    """Return the column of each stream that holds its time."""
    return {each.name: each.time for each in session.streams.values()}


def views_in(session: Session) -> dict[str, View]:
    """Return the views of a session, as the language knows them."""
    from millrace.lang.queries import query_of  # noqa: PLC0415  slow to import
    from millrace.lang.relational.context import View  # noqa: PLC0415

    known = session.engine.registry.catalog.views.values()
    return {each.name: View(query_of(each.text), each.columns) for each in known}


def _require_bound(plan: Relation | StreamOf) -> None:
    """Refuse a plan that remembers every row of a stream."""
    found = [each for each in growths(plan) if each.grows == "with rows"]
    if found:
        raise _unbounded(f"{found[0].reason[0].upper()}{found[0].reason[1:]}", found[0].stream)


def _unbounded(reason: str, stream: str) -> UnboundedError:
    return UnboundedError(
        "the query would remember more and more for as long as it runs",
        detail=f"{reason}.",
        hint=f"Give it a window, such as {stream} [RANGE 1 HOUR], or allow it: "
        "WITH (unbounded = allowed) before AS, in Python unbounded=True.",
    )


def _told(plan: Relation | StreamOf) -> tuple[StreamOf, ...]:
    if isinstance(plan, StreamOf):
        return (plan,)
    return StreamOf("istream", plan), StreamOf("dstream", plan)


def sources_of(stream: Stream) -> Iterator[str]:
    """Yield the declared streams that a stream is made of."""
    if isinstance(stream, Source):
        yield stream.name
    for node in relations_in(stream):
        if isinstance(node, Windowed) and isinstance(node.stream, Source):
            yield node.stream.name


def tables_of(stream: StreamOf) -> Iterator[str]:
    """Yield the declared tables that a stream is made of."""
    return (node.name for node in relations_in(stream) if isinstance(node, Table))


def _functions(node: Relation, declared: Declared) -> Iterator[tuple[str, str]]:
    """Yield the registered functions that a relation calls, with the types that they return."""
    called = {
        each.function
        for value in expressions_within(node)
        for each in walk(value)
        if isinstance(each, Call)
    }
    for name, arrow in sorted(declared.functions.items()):
        if name in called:
            yield name, type_name(arrow)
