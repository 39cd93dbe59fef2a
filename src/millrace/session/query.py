"""A handle on one standing query: its answers, and its life."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from millrace.engine import facts
from millrace.engine.feeds import FeedSpec
from millrace.errors import PlanError
from millrace.reading.answers import answers
from millrace.reading.changes import changes, require_kept
from millrace.reading.window import Instant
from millrace.session.keeping import set_policy
from millrace.state.names import MissingError

if TYPE_CHECKING:
    from millrace.session.session import Session

POLL_SECONDS = 0.05


class Query:
    """A standing query, by its id; `name` is empty if it was not given one."""

    def __init__(self, session: Session, qid: int, feed: str, name: str = "") -> None:
        self._session, self.id, self.name, self._feed = session, qid, name, feed

    @property
    def feed(self) -> FeedSpec:
        """Where its answers go."""
        return self._session.engine.registry.catalog.feed(self._feed)

    @property
    def failure(self) -> dict[str, Any] | None:
        """Why the query is suspended, or None if it is not."""
        engine = self._session.engine
        generations = engine.registry.population.generations
        verdicts = facts.suspended(engine.manifest, generations)
        return next((dict(verdicts[each]) for each in self._ids if each in verdicts), None)

    @property
    def _ids(self) -> list[int]:
        """The id of the query, and that of its family's plan, which may stop for all of them."""
        registry = self._session.engine.registry
        runner = registry.catalog.runner(self.feed)
        if not runner.runs_queries:
            return [self.id]
        return [self.id, registry.population.names[runner.name]]

    def explain(self, *, analyze: bool = False) -> str:
        """Say how the query runs; with `analyze`, what it has done since the engine started."""
        from millrace.session.explanation import explain_query  # noqa: PLC0415  it imports this

        return explain_query(self._session, self.name or self._feed, analyze=analyze)

    def results(
        self,
        last: int | None = None,
        *,
        begin: Instant | None = None,
        end: Instant | None = None,
    ) -> pa.Table:
        """Return answers that are kept, oldest first, with the epoch of each.

        How many are kept, or for how long, is said when the query is registered (`keep`, `retain`).

        Parameters
        ----------
        last
            How many of the newest; all by default.
        begin, end
            Only those of the times `begin <= time < end`: a datetime, microseconds since 1970, or a
            text, an instant such as `"2024-05-01T12:00:00Z"` or one as seen from now, such as
            `"NOW - 10 minutes"`. NOW is right behind the newest row of the query's streams.
        """
        return read_answers(self._session, self.feed, self.id, last, begin, end)

    def changes(
        self, *, after: int | None = None, timeout: float | None = None
    ) -> Iterator[pa.Table]:
        """Yield the answers of each epoch that has some, as they are committed.

        Parameters
        ----------
        after
            The epoch after which to begin, such as the last `_epoch` seen; now by default.
        timeout
            End when nothing has come for so many seconds; None waits for ever.

        Raises
        ------
        StoreError
            If answers that were not yielded yet are no longer kept.
        """
        engine = self._session.engine
        require_kept(self.feed)
        seen = engine.manifest.epoch if after is None else after
        waited = time.monotonic()
        while True:
            manifest = engine.manifest
            if manifest.epoch > seen:
                functions = self._session.functions
                table, seen = changes(
                    engine.root, manifest, self.feed, self.id, seen, functions=functions
                )
                if table.num_rows:
                    yield table
                    waited = time.monotonic()
            elif timeout is not None and time.monotonic() - waited >= timeout:
                return
            else:
                time.sleep(POLL_SECONDS)

    def pause(self) -> None:
        """Answer nothing from the next epoch on, until `resume`."""
        self._session.change({"do": "pause", "qids": [self.id]})

    def resume(self) -> None:
        """Answer again from the next epoch on; also ends a suspension."""
        self._session.change({"do": "resume", "qids": self._ids})

    def set_policy(self, policy: str) -> None:
        """Keep answers that are retained in another way, from the next epoch on.

        Parameters
        ----------
        policy
            "lazy", "eager" or "none"; what is answered is the same. A template has one policy for
            all its queries: `Template.set_policy`.
        """
        if self.feed.kind != "query":
            raise PlanError(
                f'the answers of query {self.id} are kept with those of others in "{self._feed}"',
                hint="Name the template, whose policy holds for all its queries."
                if self.feed.kind == "template"
                else "Register it without into, so that its answers are its own.",
            )
        set_policy(self._session, self.feed, policy)

    def drop(self) -> None:
        """Remove the query; answers that wait for a sink are still delivered."""
        if self.feed.kind == "query":
            self._session.change({"do": "drop feed", "name": self._feed})
        else:
            self._session.drop_queries([self.id])


def read_answers(
    session: Session,
    feed: FeedSpec,
    qid: int | None,
    last: int | None,
    begin: Instant | None,
    end: Instant | None,
) -> pa.Table:
    """Return answers of a query, or of all of a feed, as they are committed now."""
    engine = session.engine
    window: dict[str, Any] = {"begin": begin, "end": end, "last": last}
    window["functions"] = session.functions
    while True:
        manifest = engine.manifest
        try:
            return answers(engine.root, manifest, feed, qid, **window)
        except MissingError:
            if manifest is engine.manifest:  # else an epoch has tidied up meanwhile
                raise
