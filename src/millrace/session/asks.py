"""The calls of a session that register queries and templates, and find them again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from millrace.plan.nodes import Selection
from millrace.plan.relations import Relation, StreamOf
from millrace.session.arguments import require_asked, require_text
from millrace.session.dry_run import DryRun, Limits, dry_run
from millrace.session.keeping import Keeping
from millrace.session.life import Life
from millrace.session.query import Query
from millrace.session.registration import Registration
from millrace.session.template import Template

if TYPE_CHECKING:
    from millrace.session.session import Session


class Asks:
    """What a session is asked, now and for as long as it stands."""

    _registration: Registration

    def query(  # noqa: PLR0913  as many words as SQL's
        self,
        asked: str | Selection | Relation | StreamOf,
        *,
        name: str | None = None,
        into: str | None = None,
        keep: int | None = None,
        retain: str | int | None = None,
        policy: str | None = None,
        history: str | int | None = None,
        partial: bool = False,
        ttl: str | int | None = None,
        unbounded: bool = False,
    ) -> Query:
        """Register a standing query; it is durable on return and runs from the next epoch on.

        Registering the same query under the same name again changes nothing.

        Parameters
        ----------
        asked
            SQL, a selection built with `millrace.select`, or a plan (`millrace.plan.relations`).
        name
            What to call it; a number is chosen otherwise.
        into
            A feed to share with other queries whose answers have the same columns; it is made
            if it does not exist. Without it the query has a feed of its own, named like it.
        keep
            How many rows of answers are kept for `Query.results`, beside what sinks get; by
            default 10,000 of its own feed, or as many as the shared feed keeps.
        retain
            For how long answers are kept instead, such as `"1 hour"`, by their times.
        policy
            How those are kept. `"lazy"`, the default for a selection, stores each row of the
            stream once for all queries, and for each query which rows are its answers; `"eager"`
            stores answers as rows of their own; `"none"` stores nothing for the query, which is
            asked anew of the rows that the stream retains. The answers are the same.
        history
            How far back before its birth the query sees what its streams retain, such as
            `"1 hour"`. Its answers to that come first and are marked (`_backfill`); more than is
            retained is refused, unless the history may be `partial`.
        ttl
            How long the query lives, by the wall clock.
        unbounded
            Whether the query may remember more and more for as long as it runs, such as a join
            of streams without windows. Otherwise such a query is refused.
        """
        require_asked(asked)
        keeping = Keeping.asked(keep, retain, policy)
        life = Life.asked(history, ttl, partial=partial)
        return self._registration.query(
            asked, name=name, into=into, keeping=keeping, life=life, unbounded=unbounded
        )

    def queries(  # noqa: PLR0913  as many words as SQL's
        self,
        texts: Sequence[str | Selection],
        *,
        into: str,
        names: Sequence[str] | None = None,
        keep: int = 0,
        retain: str | int | None = None,
        policy: str | None = None,
        history: str | int | None = None,
        partial: bool = False,
        ttl: str | int | None = None,
    ) -> list[int]:
        """Register many queries into one feed, all or none; return their ids.

        A query that stands in the feed already, under the same name, is left as it is. What is kept
        of their answers is said as for `query`.
        """
        for each in texts:
            require_asked(each)
        keeping = Keeping.asked(keep, retain, policy)
        life = Life.asked(history, ttl, partial=partial)
        return self._registration.queries(texts, into=into, names=names, keeping=keeping, life=life)

    def template(  # noqa: PLR0913  as many words as SQL's
        self,
        name: str,
        text: str | Relation | StreamOf,
        parameters: Mapping[str, str] | None = None,
        *,
        keep: int = 0,
        retain: str | int | None = None,
        policy: str | None = None,
        history: str | int | None = None,
        partial: bool = False,
        ttl: str | int | None = None,
        unbounded: bool = False,
        **more: str,
    ) -> Template:
        """Declare a query template: `:name` in its text stands for a parameter of that type.

        Each row that is inserted into it is a standing query. Declaring the same template again
        changes nothing.

        Parameters
        ----------
        text
            SQL, or a plan with parameters (`millrace.plan.expressions.Parameter`).
        parameters, more
            The parameters and their types, such as `sym="text", low="double"`.
        keep
            How many rows of answers are kept for readers, beside what sinks get.
        retain, policy
            For how long answers are kept instead, and how; see `query`.
        history, partial, ttl
            How far back its queries see, and how long the template lives; see `query`.
        unbounded
            Whether its queries may remember more and more for as long as they run.
        """
        if not isinstance(text, StreamOf | Relation):
            require_text("the text of a template", text)
        declared = {**(parameters or {}), **more}
        keeping = Keeping.asked(keep, retain, policy)
        life = Life.asked(history, ttl, partial=partial)
        return self._registration.template(
            name, text, declared, keeping=keeping, life=life, unbounded=unbounded
        )

    def standing(self, name: str) -> Query | Template:
        """Return a handle on a query or template by its name."""
        return self._registration.standing(name)

    def dry_run(
        self, text: str, history: str | int | None = None, *, limits: Limits | None = None
    ) -> DryRun:
        """Say what a query would have answered over what its streams retain; nothing is registered.

        Tried are the rows of the last `history`, such as `"1 hour"`, or all; within the limits.
        """
        require_text("the text of a query", text)
        return dry_run(cast("Session", self), text, history, limits)
