"""Binding of any CQL query: its text becomes a plan of relations, or a message says why not.

By CQL's defaults a stream without a window is unbounded, and a query that says neither ISTREAM,
DSTREAM nor RSTREAM is an Istream if it can only grow, else the relation itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from millrace.lang.binder import bind_query
from millrace.lang.errors import LanguageError
from millrace.lang.notes import Notes
from millrace.lang.queries import Parsed, deep, query_of
from millrace.lang.refusals import NOT_YET, SELECTIONS_ONLY
from millrace.lang.relational.context import (
    Caution,
    Environment,
    Shared,
    Text,
    View,
)
from millrace.lang.relational.expansion import expanded
from millrace.lang.relational.query import answer_of
from millrace.lang.trees import span_of
from millrace.plan.growth import instantaneous, monotonic
from millrace.plan.nodes import Selection
from millrace.plan.relation_types import Declared
from millrace.plan.relations import Relation, StreamOf
from millrace.schema import Schema

__all__ = ["BEYOND_SELECTIONS", "BoundRelation", "Caution", "View", "bind_any", "bind_relational"]

BEYOND_SELECTIONS = (NOT_YET, "CQL006", "CQL020", "CQL021", "CQL050", "CQL070")
"""With what a query is refused as a selection that may be more than one."""


@dataclass(frozen=True, slots=True)
class BoundRelation:
    """The plan of a query, and what is known of it.

    Parameters
    ----------
    plan
        A relation, or the stream of one.
    schema
        The columns of the answer.
    notes
        Where the expressions of the plan were written, as far as they stand in the query's text
        and not in a view's.
    source
        That text.
    expanded
        The query with its defaults written out; it binds to the same plan.
    monotonic, instantaneous
        Whether the relation, or the one below the stream, can only grow, and whether it holds
        rows only at the instants of elements.
    cautions
        What is allowed and probably not meant.
    parameters
        The names of the parameters, by their numbers.
    """

    plan: Relation | StreamOf
    schema: Schema
    notes: Notes
    source: str
    expanded: str
    monotonic: bool
    instantaneous: bool
    cautions: tuple[Caution, ...] = ()
    parameters: tuple[str, ...] = ()


def bind_any(
    query: str | Parsed,
    declared: Declared,
    *,
    views: Mapping[str, View] | None = None,
    times: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Selection | BoundRelation:
    """Return a query as a selection over one stream if it is one, else as a plan of relations.

    The parameters are those of `bind_relational`.

    Examples
    --------
    >>> trades = Declared({"trades": Schema.of("symbol text, price double")})
    >>> str(bind_any("SELECT symbol FROM trades", trades))
    'SELECT symbol FROM trades'
    >>> type(bind_any("SELECT count(*) FROM trades", trades)).__name__
    'BoundRelation'
    """
    parsed = query_of(query) if isinstance(query, str) else query
    beyond = (*BEYOND_SELECTIONS, "CQL001") if views else BEYOND_SELECTIONS
    try:
        return bind_query(
            parsed, declared.streams, declared.functions, parameters, relations=declared.tables
        )
    except LanguageError as refusal:
        if refusal.code not in beyond:  # a name that is no stream may be that of a view
            raise
    return bind_relational(parsed, declared, views=views, times=times, parameters=parameters)


def bind_relational(
    query: str | Parsed,
    declared: Declared,
    *,
    views: Mapping[str, View] | None = None,
    times: Mapping[str, str] | None = None,
    parameters: Mapping[str, str] | None = None,
) -> BoundRelation:
    """Return the plan of a query.

    Parameters
    ----------
    query
        Its text, or what `parse` made of it.
    declared
        The streams, tables and functions that exist.
    views
        The views that exist, by name; what they read may be views too.
    times
        The column of each stream that holds its time, which `first` and `last` go by.
    parameters
        The named parameters (`:name`) that the query may use, each with the name of its type;
        `Parameter.number` is the place of the name in this mapping.

    Examples
    --------
    >>> trades = Declared({"trades": Schema.of("symbol text, price double")})
    >>> bound = bind_relational("SELECT symbol, max(price) AS top FROM trades GROUP BY 1", trades)
    >>> bound.monotonic, bound.schema.names, bound.expanded.split("FROM ")[1]
    (False, ('symbol', 'top'), 'trades [RANGE UNBOUNDED] GROUP BY 1')
    """
    parsed = query_of(query) if isinstance(query, str) else query
    shared = Shared(declared, views or {}, times or {})
    text = Text(parsed.source, parameters or {})
    try:
        with deep():
            answer = answer_of(parsed.tree, Environment(shared, text, answer_of))
            grows = monotonic(answer.rows.plan)
            plan: Relation | StreamOf = answer.stream or answer.rows.plan
            default = answer.stream is None and grows
            written = expanded(parsed.tree, shared, istream=default)
    except LanguageError as refusal:
        if refusal.hint == SELECTIONS_ONLY:
            refusal.hint = ""
        raise
    except RecursionError as cause:
        message = "query is nested too deeply"
        raise LanguageError(message, source=text.source, span=span_of(parsed.tree)) from cause
    return BoundRelation(
        StreamOf("istream", answer.rows.plan) if default else plan,
        Schema(answer.rows.columns),
        text.notes,
        text.source,
        written,
        grows,
        instantaneous(answer.rows.plan),
        tuple(shared.cautions),
        tuple(text.parameters),
    )
