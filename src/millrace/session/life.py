"""How far back a query sees and how long it lives, as a program asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from millrace.engine.feeds import FeedSpec
from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError
from millrace.time import print_duration, to_instant, to_micros

_LAST = to_instant("9999-12-31T23:59:59.999999Z")


@dataclass(frozen=True, slots=True)
class Life:
    """The history before its birth that a query sees, and its time to live, in us; None: not said.

    A `partial` history may be shorter, if its streams retain less.
    """

    history: int | None = None
    partial: bool = False
    ttl: int | None = None

    @classmethod
    def asked(
        cls, history: str | int | None, ttl: str | int | None, *, partial: bool = False
    ) -> Self:
        """Check what was said."""
        found = [None if each is None else to_micros(each) for each in (history, ttl)]
        for word, micros in zip(("history", "ttl"), found, strict=True):
            if micros == 0:
                raise PlanError(f"{word} must be longer than 0", node=("option", word))
        return cls(found[0], partial, found[1])

    def of_feed(self, streams: Sequence[StreamSpec], now: int) -> dict[str, Any]:
        """Return what a feed over these streams is made with."""
        if self.history is not None:
            for each in streams:
                self._require_retained(each)
        expires = None if self.ttl is None else end_of(self.ttl, now)
        return {"history": self.history, "partial": self.partial, "expires": expires}

    def require_policy(self, policy: str | None) -> None:
        """Refuse a policy by which what has been answered of history is not kept."""
        if self.history is not None and policy == "none":
            raise PlanError(
                'answers about history are not kept by policy "none"',
                detail="It finds answers among the rows that came while the query stood.",
                hint='Take policy "lazy" or "eager".',
                node=("option", "policy"),
            )

    def require_same(self, feed: FeedSpec) -> None:
        """Refuse another history than a feed was made with; how long it lives is settled."""
        if self.history is not None and self.history != feed.history:
            there = "none" if feed.history is None else print_duration(feed.history)
            raise PlanError(
                f'the queries of "{feed.name}" have another history',
                detail=f"It is {there}, and {print_duration(self.history)} is asked for.",
                hint="Ask for the same, or for nothing; or drop it first.",
                node=("option", "history"),
            )

    def _require_retained(self, stream: StreamSpec) -> None:
        """Refuse more history than a stream retains, unless less will do."""
        assert self.history is not None, "a history was asked for"
        enough = stream.retain is not None and (self.partial or self.history <= stream.retain)
        if enough:
            return
        kept = "no rows" if stream.retain is None else f"rows for {print_duration(stream.retain)}"
        part = "" if stream.retain is None else ", or take what there is: partial = true"
        raise PlanError(
            f'stream "{stream.name}" does not retain that much history',
            detail=f"It retains {kept}, and {print_duration(self.history)} are asked for.",
            hint=f"Declare the stream with a longer RETAIN{part}.",
            node=("option", "history"),
        )


def end_of(ttl: int, now: int) -> int:
    """Return when something ends that lives for `ttl` from now on, in us; the calendar has it."""
    if now + ttl > _LAST:
        raise PlanError(
            "ttl ends after the year 9999",
            detail=f"It is {print_duration(ttl)}.",
            hint="Leave it out: what has none stays until it is dropped.",
            node=("option", "ttl"),
        )
    return now + ttl
