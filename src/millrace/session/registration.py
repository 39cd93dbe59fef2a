"""Registration: from what a user asks to changes of the registry.

Every way to ask ends here: SQL, a selection built in Python, many of them at once, a template.
What was asked is bound, its constants are lifted, and it becomes rows of a family; the feed is
made if there is none yet. All changes of one call are recorded together, or none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.engine.catalog import TAKEN
from millrace.engine.feeds import KEPT_ROWS, Family, FeedSpec, Kind
from millrace.engine.hidden import is_hidden
from millrace.engine.parameters import SET
from millrace.engine.streams import check_name
from millrace.errors import NameTakenError, PlanError
from millrace.lang.errors import LanguageError
from millrace.plan.bind import bind_selection, output_schema
from millrace.plan.expressions import Parameter, walk
from millrace.plan.levels import parameters_in
from millrace.plan.lifting import lift_constants
from millrace.plan.nodes import Selection
from millrace.plan.relations import Relation, StreamOf
from millrace.session.changes import adding, adding_plan, constants, constants_of, nothing
from millrace.session.keeping import Keeping
from millrace.session.life import Life
from millrace.session.plan_registration import PlanRegistration, lived
from millrace.session.planning import bound_any, planned_feed
from millrace.session.query import Query
from millrace.session.template import Template
from millrace.session.unknown import unknown

if TYPE_CHECKING:
    from millrace.engine.catalog import Catalog
    from millrace.lang.family import Shapes
    from millrace.session.session import Session


NO_END = Life()


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Queries of one shape: the plan, the types of constants, and a row of constants each.

    `positions` says where each stood among all queries of the call; `text` is what was asked, if
    it was one query.
    """

    selection: Selection
    types: tuple[str, ...]
    rows: pa.RecordBatch
    positions: Sequence[int]
    text: str = ""

    def without(self, positions: Collection[int]) -> Asked:
        """Leave some queries out."""
        if not positions:
            return self
        kept = [row for row, at in enumerate(self.positions) if at not in positions]
        places = [self.positions[row] for row in kept]
        return replace(self, rows=self.rows.take(pa.array(kept, pa.int64())), positions=places)


class Registration:
    """Registers queries and templates of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._shapes: Shapes | None = None
        self._shapes_of: tuple[Any, Any] = ({}, {})

    @property
    def _catalog(self) -> Catalog:
        return self._session.engine.registry.catalog

    def query(
        self,
        asked: str | Selection | Relation | StreamOf,
        *,
        name: str | None,
        into: str | None,
        keeping: Keeping,
        life: Life,
        unbounded: bool,
    ) -> Query:
        """Register one query."""
        one = self._selected(asked)
        if one is None:
            assert not isinstance(asked, Selection), "a selection is one"
            if into is not None:
                raise PlanError(
                    f'a query that is more than a selection cannot share the feed "{into}"',
                    hint="Register it under a name of its own.",
                )
            return self._plan(asked, name=name, keeping=keeping, life=life, unbounded=unbounded)
        one = replace(one, text=str(asked))
        if name is not None:
            known = self._known(name, one, into)
            if known is not None:
                keeping.require_same(known.feed)
                life.require_same(known.feed)
                return known
        if into is not None:
            names = None if name is None else [name]
            [qid] = self._register([one], into, "shared", keeping, names, life).values()
            return Query(self._session, qid, into, name or "")
        while True:
            own = self._free_name() if name is None else name
            try:
                [qid] = self._register([one], own, "query", keeping, [own], life).values()
            except NameTakenError:
                if name is not None:
                    raise  # otherwise somebody else has just taken that number
            else:
                return Query(self._session, qid, own, own)

    def _selected(self, asked: str | Selection | Relation | StreamOf) -> Asked | None:
        """Return what was asked as a selection; None if it is more than one."""
        if not isinstance(asked, str | Selection):
            return None
        try:
            return self._asked([asked])[0]
        except LanguageError as refusal:
            from millrace.lang.relational import bound  # noqa: PLC0415  slow to import

            if refusal.code not in (*bound.BEYOND_SELECTIONS, *self._unknown_to_selections):
                raise
            return None

    @property
    def _unknown_to_selections(self) -> tuple[str, ...]:
        """With what a selection is refused that may read a table or a view."""
        return ("CQL001",) if self._catalog.tables or self._catalog.views else ()

    def _plan(
        self,
        asked: str | Relation | StreamOf,
        *,
        name: str | None,
        keeping: Keeping,
        life: Life,
        unbounded: bool,
    ) -> Query:
        """Register a query that is more than a selection."""
        made = PlanRegistration(self._session, asked, keeping, life, unbounded=unbounded)
        own = self._free_name() if name is None else name
        return Query(self._session, made.register(own), own, own)

    def _free_name(self) -> str:
        """Return a name for a query that was not given one."""
        catalog, names = self._catalog, self._session.engine.registry.population.names
        for number in count(catalog.next_qid):
            name = f"query_{number}"
            if name not in catalog.feeds and name not in names:
                return name
        raise AssertionError

    def queries(
        self,
        texts: Sequence[str | Selection],
        *,
        into: str,
        names: Sequence[str] | None,
        keeping: Keeping,
        life: Life,
    ) -> list[int]:
        """Register many queries into one feed."""
        if names is not None and len(names) != len(texts):
            raise PlanError(
                f"there are {len(names)} names for {len(texts)} queries",
                hint="Give one name for each query, or none.",
            )
        asked = self._asked(texts)
        known = {} if names is None else self._known_again(asked, into, names)
        left = [each.without(known) for each in asked if not known.keys() >= {*each.positions}]
        fresh = self._register(left, into, "shared", keeping, names, life) if left else {}
        return [qid for _, qid in sorted((known | fresh).items())]

    def _known_again(self, asked: list[Asked], into: str, names: Sequence[str]) -> dict[int, int]:
        """Find the queries that stand already, under the same names and asking the same."""
        standing = self._session.engine.registry.population.names
        found = {}
        for each in asked:
            for row, at in enumerate(each.positions):
                if names[at] in standing:
                    one = replace(each, rows=each.rows.slice(row, 1), positions=[at])
                    query = self._known(names[at], one, into)
                    found.update({} if query is None else {at: query.id})
        return found

    def template(
        self,
        name: str,
        asked: str | Relation | StreamOf,
        parameters: Mapping[str, str],
        *,
        keeping: Keeping,
        life: Life = NO_END,
        unbounded: bool = False,
    ) -> Template:
        """Declare a template."""
        from millrace.lang.relational.bound import BoundRelation  # noqa: PLC0415  slow to import

        if not parameters:
            raise PlanError(
                f'template "{name}" has no parameters',
                hint="Name them with their types, or register its text with Session.query.",
            )
        bound = bound_any(asked, self._session, parameters) if isinstance(asked, str) else asked
        if isinstance(bound, Selection):
            feed, selection = self._selecting(name, str(asked), bound, parameters), bound
            stream = self._catalog.stream(bound.stream)
            feed = replace(feed, **keeping.of_selection(0, stream))
            used = _used_by(selection)
        else:
            feed = planned_feed(
                name,
                asked,
                self._session,
                unbounded=unbounded,
                historic=life.history is not None,
                parameters=parameters,
            )
            streams = [self._catalog.stream(each) for each in feed.sources]
            feed = replace(feed, **keeping.of_plan(0, feed, streams))
            selection = nothing(feed)
            used = set(parameters_in(bound.plan if isinstance(bound, BoundRelation) else bound))
        life.require_policy(feed.policy)
        feed = lived(self._session, feed, life)
        known = self._catalog.feeds.get(name)
        if known is None:
            _require_use(name, used, list(parameters))
            if feed.plan is None:
                self._session.record(adding(feed))
            else:
                self._session.record(adding_plan(feed), [constants((), [()])])
        elif (known.kind, known.parameters, known.text) != (feed.kind, feed.parameters, feed.text):
            raise NameTakenError(
                f'"{name}" exists already and is another template or query',
                hint="Drop it first, or choose another name.",
            )
        else:
            keeping.require_same(known)
            life.require_same(known)
        return Template(self._session, name, selection)

    def _selecting(
        self, name: str, text: str, selection: Selection, parameters: Mapping[str, str]
    ) -> FeedSpec:
        """Return the feed of a template whose queries are selections."""
        schema = self._catalog.stream(selection.stream).schema
        answer = output_schema(selection, schema, self._session.function_types)
        named = tuple(parameters.items())
        return FeedSpec(name, selection.stream, answer, "template", named, text=text)

    def standing(self, name: str) -> Query | Template:
        """Find what a name stands for."""
        catalog, population = self._catalog, self._session.engine.registry.population
        feed = catalog.feeds.get(name)
        if feed is not None and feed.kind == "template" and feed.plan is not None:
            return Template(self._session, name, nothing(feed))
        if feed is not None and feed.kind == "template":
            return self.template(name, feed.text, dict(feed.parameters), keeping=Keeping())
        if name in population.names and not is_hidden(name):
            return Query(self._session, population.names[name], self._feed_of(name), name)
        raise unknown(self._session, "query", name)

    def _feed_of(self, name: str) -> str:
        if name in self._catalog.feeds:
            return name
        registry = self._session.engine.registry
        return registry.feed_of(registry.population.names[name])

    def _asked(self, asked: Sequence[str | Selection]) -> list[Asked]:
        """Bind what was asked and put queries of one shape together."""
        found: list[Asked] = []
        texts = [(at, each) for at, each in enumerate(asked) if isinstance(each, str)]
        if texts:
            found += self._from_texts([at for at, _ in texts], [each for _, each in texts])
        found += self._from_selections(
            [(at, each) for at, each in enumerate(asked) if isinstance(each, Selection)]
        )
        return found

    def _from_selections(self, asked: Iterable[tuple[int, Selection]]) -> list[Asked]:
        alike: dict[tuple[str, tuple[str, ...]], list[tuple[int, Selection, list[Any]]]] = {}
        types = self._session.function_types
        for at, selection in asked:
            schema = self._catalog.stream(selection.stream).schema
            lifted = lift_constants(bind_selection(selection, schema, types))
            key = repr(lifted.selection.to_json()), tuple(lifted.types)
            alike.setdefault(key, []).append((at, lifted.selection, lifted.values))
        return [
            Asked(some[0][1], kinds, constants(kinds, [each[2] for each in some]),
                  [each[0] for each in some])
            for (_, kinds), some in alike.items()
        ]  # fmt: skip

    def _from_texts(self, positions: list[int], texts: list[str]) -> list[Asked]:
        found = []
        for shape, group in self._known_shapes().prepare_many(texts).items():
            types = tuple(
                kind + SET if pa.types.is_list(column.type) else kind
                for kind, column in zip(shape.types, group.columns, strict=True)
            )
            rows = constants_of(types, group.columns, len(group.positions))
            at = [positions[each] for each in group.positions]
            found.append(Asked(shape.selection, types, rows, at))
        return found

    def _known_shapes(self) -> Shapes:
        """Return the shapes seen so far; those of other streams or functions are forgotten."""
        from millrace.lang.family import Shapes  # noqa: PLC0415  slow to import

        streams, functions = self._catalog.streams, dict(self._session.function_types)
        if self._shapes is None or self._shapes_of != (streams, functions):
            schemas = {name: each.schema for name, each in streams.items()}
            self._shapes, self._shapes_of = Shapes(schemas, functions), (streams, functions)
        return self._shapes

    def _register(
        self,
        asked: list[Asked],
        into: str,
        kind: Kind,
        keeping: Keeping,
        names: Sequence[str] | None,
        life: Life,
    ) -> dict[int, int]:
        """Record queries and, where it is missing, their feed; return ids by where each stood."""
        for name in names or ():
            check_name("query", name)
        changes: list[dict[str, Any]] = []
        feed = self._catalog.feeds.get(into)
        answers = [self._answer(each.selection) for each in asked]
        if feed is None:
            stream = self._catalog.stream(asked[0].selection.stream)
            kept = keeping.of_selection(KEPT_ROWS, stream)
            life.require_policy(kept.get("policy"))
            text = asked[0].text if kind == "query" else ""
            fresh = FeedSpec(into, stream.name, answers[0], kind, text=text, **kept)
            fresh = lived(self._session, fresh, life)
            changes.append({"do": "add feed", "feed": fresh.to_json()})
            feed = fresh
        elif kind == "query" or feed.kind != "shared":
            raise NameTakenError(f'query "{into}" exists already', hint=TAKEN)
        else:
            keeping.require_same(feed)
            life.require_same(feed)
        for number, (each, answer) in enumerate(zip(asked, answers, strict=True)):
            _require_same_answer(feed, each.selection.stream, answer)
            family = Family(into, each.selection, each.types)
            change: dict[str, Any] = {
                "do": "add queries",
                "family": family.to_json(),
                "n_rows": each.rows.num_rows,
                "rows": number,
            }
            if names is not None:
                change["names"] = [names[at] for at in each.positions]
            if feed.expires is not None:
                change["expires"] = feed.expires
            changes.append(change)
        first = self._session.record(changes, [each.rows for each in asked])
        return {
            at: start + nth
            for each, start in zip(asked, first, strict=True)
            for nth, at in enumerate(each.positions)
        }

    def _answer(self, selection: Selection) -> pa.Schema:
        schema = self._catalog.stream(selection.stream).schema
        return output_schema(selection, schema, self._session.function_types)

    def _known(self, name: str, asked: Asked, into: str | None) -> Query | None:
        """Find a query of that name that asks the very same."""
        catalog, registry = self._catalog, self._session.engine.registry
        qid = registry.population.names.get(name)
        if qid is None or (into is None) != (name in catalog.feeds):
            return None
        feed = self._feed_of(name)
        if into is not None and feed != into:
            return None
        number = catalog.feed(feed).number
        family = Family(feed, asked.selection, asked.types, number)
        # As text: there NaN is itself, and 1 is not 1.0.
        if repr(registry.constants_of(family.key, qid)) != repr(asked.rows.to_pylist()):
            return None
        return Query(self._session, qid, feed, name)


def _used_by(selection: Selection) -> set[int]:
    roots = [each.value for each in selection.outputs]
    roots += [] if selection.condition is None else [selection.condition]
    nodes = (each for root in roots for each in walk(root))
    return {each.number for each in nodes if isinstance(each, Parameter)}


def _require_use(template: str, used: set[int], parameters: Sequence[str]) -> None:
    """Refuse a parameter that the text does not use: its values would mean nothing."""
    for number, name in enumerate(parameters):
        if number not in used:
            raise PlanError(
                f'parameter "{name}" of template "{template}" is not used',
                hint=f"Write :{name} where its value belongs, or leave the parameter out.",
                node=("parameter", name),
            )


def _require_same_answer(feed: FeedSpec, stream: str, answer: pa.Schema) -> None:
    if feed.stream != stream or not feed.answer.equals(answer):
        raise PlanError(
            f'the answers do not fit into feed "{feed.name}"',
            detail=f"It takes {_shown(feed.stream, feed.answer)}; "
            f"the query gives {_shown(stream, answer)}.",
            hint="Name the columns alike, or use another feed.",
        )


def _shown(stream: str, answer: pa.Schema) -> str:
    columns = ", ".join(f"{each.name} {each.type}" for each in answer)
    return f"({columns}) of {stream}"
