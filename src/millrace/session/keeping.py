"""What of a query's answers is to be kept for readers, as a program asks for it.

Either so many rows, or all for some time; in the latter case a policy says how. What was asked when
a feed was made holds for all its queries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from millrace.engine.feeds import POLICIES, FeedSpec, Policy
from millrace.engine.policies import stretches
from millrace.engine.streams import StreamSpec
from millrace.errors import PlanError
from millrace.session.life import Life
from millrace.time import print_duration, to_micros

if TYPE_CHECKING:
    from millrace.session.open_root import OpenRoot
    from millrace.session.session import Session

_RETAIN = 'Say for how long: retain="1 hour".'


@dataclass(frozen=True, slots=True)
class Keeping:
    """How many rows, or for how long in us, and how; None is what was not said."""

    keep: int | None = None
    retain: int | None = None
    policy: Policy | None = None

    @classmethod
    def asked(cls, keep: int | None, retain: str | int | None, policy: str | None) -> Self:
        """Check what was said."""
        found = next((each for each in POLICIES if each == policy), None)
        if policy is not None and found is None:
            raise PlanError(
                f'"{policy}" is not a policy for answers',
                detail=f"The policies are {', '.join(POLICIES)}.",
            )
        micros = None if retain is None else to_micros(retain)
        if micros == 0:
            raise PlanError("answers are retained for no time at all", hint=_RETAIN)
        if micros is not None and keep:
            raise PlanError(
                "answers are kept either by their number or for some time",
                detail=f"Asked for are {keep:,} rows, and {print_duration(micros)}.",
                hint="Leave out keep, or retain.",
            )
        if found is not None and found != "none" and micros is None:
            raise PlanError(f'policy "{found}" needs to know for how long', hint=_RETAIN)
        return cls(keep, micros, found)

    def of_selection(self, default: int, stream: StreamSpec) -> dict[str, Any]:
        """Return what a feed of selections over a stream keeps."""
        retain = stream.retain if self.policy == "none" and self.retain is None else self.retain
        if self.policy == "none":
            _require_history(stream, retain)
        if retain is None:
            return {"keep": default if self.keep is None else self.keep}
        return {"keep": 0, "retain": retain, "policy": self.policy or "lazy"}

    def of_plan(self, default: int) -> dict[str, Any]:
        """Return what a feed with a plan keeps: its answers are no rows of a stream."""
        if self.policy not in (None, "eager"):
            raise PlanError(
                f'policy "{self.policy}" is for selections of one stream',
                detail="What windows, joins and aggregates tell is stored as rows of its own.",
                hint='Leave the policy out, or take "eager".',
            )
        if self.retain is None:
            return {"keep": default if self.keep is None else self.keep}
        return {"keep": 0, "retain": self.retain, "policy": "eager"}

    def require_same(self, feed: FeedSpec) -> None:
        """Refuse another retention or policy than a feed was made with.

        The policy may have changed since: whoever declares it again gets it as it is now.
        """
        for word, here, there in (
            ("retention", _spelt(self.retain), _spelt(feed.retain)),
            ("policy", self.policy, feed.policy if feed.retain is not None else None),
        ):
            born = word == "policy" and feed.retain is not None and here == feed.first_policy
            if here is not None and here != there and not born:
                raise PlanError(
                    f'the answers of "{feed.name}" are kept otherwise',
                    detail=f"Their {word} is {there or 'not set'}, and {here} is asked for.",
                    hint="Ask for the same, or for nothing; or drop it first.",
                )


def set_policy(session: Session, feed: FeedSpec, policy: str) -> None:
    """Let a feed keep its answers in another way, from the next epoch on."""
    if feed.retain is None:
        raise PlanError(
            f'the answers of "{feed.name}" are kept by their number',
            detail="Policies are for answers that are kept for some time.",
            hint='Register it with retain, such as retain="1 hour".',
        )
    asked = Keeping.asked(None, feed.retain, policy)
    if feed.plan is not None:
        asked.of_plan(0)
    else:
        asked.of_selection(0, session.streams[feed.stream])
    Life(feed.history).require_policy(policy)
    if policy != feed.policy:
        session.change({"do": "set policy", "name": feed.name, "policy": policy})


def require_found_anew(session: OpenRoot, stream: str, retain: int) -> None:
    """Refuse to keep rows for less time than answers are to be found among them."""
    engine = session.engine
    for feed in engine.registry.catalog.feeds.values():
        if feed.stream != stream or feed.retain is None or feed.retain <= retain:
            continue
        kept = stretches(engine.manifest, feed)
        if "none" in (feed.policy, *(each.policy for each in kept)):
            raise PlanError(
                f'answers of "{feed.name}" are found anew in rows of stream "{stream}"',
                detail=f"They are retained for {print_duration(feed.retain)}, and the rows would "
                f"be for {print_duration(retain)}.",
                hint='Give it policy "lazy", and ask again when what was answered has expired.',
            )


_HOW = {
    "lazy": "each row once for all queries, and which rows answer which",
    "eager": "answers as rows of their own",
    "none": "nothing for the query, which is asked anew of the stream's rows",
}


def kept_lines(feed: FeedSpec) -> list[str]:
    """Say, as a line of an explanation, how answers are kept for some time, if they are."""
    if feed.retain is None:
        return []
    return [f"kept     for {print_duration(feed.retain)}: {_HOW[feed.policy]}"]


def _spelt(micros: int | None) -> str | None:
    return None if micros is None else print_duration(micros)


def _require_history(stream: StreamSpec, retain: int | None) -> None:
    """Refuse to find answers among rows that the stream does not keep for as long."""
    if stream.retain is None or retain is None or retain > stream.retain:
        kept = "no rows" if stream.retain is None else f"rows for {print_duration(stream.retain)}"
        raise PlanError(
            f'answers found anew need the rows of stream "{stream.name}"',
            detail=f"It retains {kept}.",
            hint='Declare the stream with a longer retention, or take policy "lazy".',
        )
