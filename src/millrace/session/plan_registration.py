"""Registering queries that are more than selections: alone, or with those that are alike."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millrace.engine.feeds import KEPT_ROWS, Family, FeedSpec
from millrace.errors import NameTakenError, UnknownNameError
from millrace.plan.outline import outline
from millrace.plan.relations import Relation, StreamOf
from millrace.session.alike import Kin, family_feed, is_of, kin_of
from millrace.session.changes import adding_plan, constants, nothing
from millrace.session.keeping import Keeping
from millrace.session.life import Life
from millrace.session.planning import bound_relation, planned_feed

if TYPE_CHECKING:
    import pyarrow as pa

    from millrace.engine.catalog import Catalog
    from millrace.session.session import Session

_TRIES = 10


class PlanRegistration:
    """Registers one query that has a plan."""

    def __init__(
        self,
        session: Session,
        asked: str | Relation | StreamOf,
        keeping: Keeping,
        life: Life,
        *,
        unbounded: bool,
    ) -> None:
        self._session, self._keeping, self._life = session, keeping, life
        self._plan = bound_relation(asked, session).plan if isinstance(asked, str) else asked
        self._text = asked if isinstance(asked, str) else outline(asked)
        self._unbounded = unbounded

    def register(self, name: str) -> int:
        """Register it under a name; return its id. The very same may be registered again."""
        known = self._catalog.feeds.get(name)
        if known is not None:
            if not self._is(known):
                raise NameTakenError(f'query "{name}" exists already')
            return self._session.engine.registry.population.names[name]
        for attempt in range(_TRIES):
            catalog = self._catalog
            changes, tables = self._changes(name, catalog)
            try:
                return self._session.record(changes, tables)[-1]
            except (NameTakenError, UnknownNameError):
                kin, now = self._kin(name), self._catalog
                same = kin is None or (kin.family in now.feeds) == (kin.family in catalog.feeds)
                if same or attempt + 1 == _TRIES:
                    raise  # otherwise its family has just come, or gone
        raise AssertionError

    @property
    def _catalog(self) -> Catalog:
        return self._session.engine.registry.catalog

    def _kin(self, name: str) -> Kin | None:
        """Return the query as one of a family, if it may run with others at all."""
        alone = self._session.engine.settings.families == "never"
        alone |= self._life.history is not None or self._keeping.policy == "none"
        return None if alone else kin_of(self._plan, name, self._session)

    def _is(self, known: FeedSpec) -> bool:
        """Say whether a feed is that of this very query."""
        if not known.joined:
            alone = self._lived(self._alone(known.name))
            if known.former and self._keeping.policy in (None, known.policy, known.first_policy):
                known = replace(known, policy=alone.policy, former=())
            return replace(known, number=0, expires=alone.expires, family="") == alone
        kin = is_of(known.family, self._plan, known.name, self._session)
        if kin is None or self._life.history is not None:
            return False
        asked = self._lived(self._with_others(known.name, self._catalog.feeds[known.family]))
        if replace(known, number=0, member=0, expires=asked.expires) != asked:
            return False
        family = Family(known.name, nothing(known), tuple(kin.constants.types), known.number)
        there = self._session.engine.registry.constants_of(family.key, known.member or 0)
        rows = constants(kin.constants.types, [kin.constants.values])
        return repr(there) == repr(rows.to_pylist())

    def _changes(
        self, name: str, catalog: Catalog
    ) -> tuple[list[dict[str, Any]], list[pa.RecordBatch]]:
        """Return the changes that register it, and their tables."""
        kin = self._kin(name)
        runner = None if kin is None else catalog.feeds.get(kin.family)
        if kin is None or runner is None:
            alone = self._lived(self._alone(name))
            runner = None if kin is None else self._new_family(kin, alone, catalog)
            if kin is None or runner is None:
                family = "" if kin is None else kin.family
                feed = replace(alone, family=family)
                return adding_plan(feed), [constants((), [()])]
            changes, tables = adding_plan(runner), [constants((), [()])]
        else:
            changes, tables = [], []
        feed, types = self._lived(self._with_others(name, runner)), kin.constants.types
        changes += adding_plan(feed, types, rows=len(tables))
        return changes, [*tables, constants(types, [kin.constants.values])]

    def _new_family(self, kin: Kin, alone: FeedSpec, catalog: Catalog) -> FeedSpec | None:
        """Return the feed of a family that begins with this query, if there is to be one."""
        together = self._session.engine.settings.families
        stands = any(catalog.feeds[each].family == kin.family for each in catalog.planned)
        if not stands and together != "always":
            return None
        assert alone.plan is not None, "it is more than a selection"
        return family_feed(kin, alone.plan, self._session)

    def _alone(self, name: str) -> FeedSpec:
        """Return the feed of the query with a plan of its own."""
        historic = self._life.history is not None
        feed = planned_feed(
            name, self._plan, self._session, unbounded=self._unbounded, historic=historic
        )
        return replace(feed, text=self._text)

    def _with_others(self, name: str, runner: FeedSpec) -> FeedSpec:
        """Return the feed of the query, run by that of its family."""
        feed = FeedSpec(name, runner.stream, runner.answer, text=self._text)
        return replace(feed, family=runner.name, member=0).run_by(runner)

    def _lived(self, feed: FeedSpec) -> FeedSpec:
        """Say what is kept of the answers, how far back the query sees, and when it ends."""
        streams = [self._catalog.stream(each) for each in feed.sources]
        kept = replace(feed, **self._keeping.of_plan(KEPT_ROWS, feed, streams))
        self._life.require_policy(kept.policy)
        return lived(self._session, kept, self._life)


def lived(session: Session, feed: FeedSpec, life: Life) -> FeedSpec:
    """Say how far back a feed's queries see, and when it ends."""
    catalog = session.engine.registry.catalog
    specs = [catalog.stream(name) for name in feed.sources]
    return replace(feed, **life.of_feed(specs, session.now()))
