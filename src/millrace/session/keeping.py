"""What of a query's answers is to be kept for readers, as a program asks for it.

Either so many rows, or all for some time; in the latter case a policy says how. What was asked when
a feed was made holds for all its queries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from millrace.engine.feeds import POLICIES, FeedSpec, Policy
from millrace.engine.plan_stores import kept_back
from millrace.engine.plans import forgets_after
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

    def of_plan(
        self, default: int, feed: FeedSpec, streams: Sequence[StreamSpec]
    ) -> dict[str, Any]:
        """Return what a feed with a plan over some streams keeps.

        Its answers are no rows of a stream: they are rows of their own, or found anew.
        """
        if self.policy == "lazy":
            raise PlanError(
                'policy "lazy" is for selections of one stream',
                detail="It stores which rows of the stream are answers. What windows, joins and "
                "aggregates tell is not rows of a stream.",
                hint='Leave the policy out, or take "eager" or "none".',
            )
        retain = self.retain
        if self.policy == "none":
            retain = _found_anew(feed, retain, streams)
        if retain is None:
            return {"keep": default if self.keep is None else self.keep}
        return {"keep": 0, "retain": retain, "policy": self.policy or "eager"}

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
        asked.of_plan(0, feed, [session.streams[each] for each in feed.sources])
    else:
        asked.of_selection(0, session.streams[feed.stream])
    Life(feed.history).require_policy(policy)
    if policy != feed.policy:
        session.change({"do": "set policy", "name": feed.name, "policy": policy})


def require_found_anew(session: OpenRoot, stream: str, retain: int) -> None:
    """Refuse to keep rows for less time than answers are to be found among them."""
    engine = session.engine
    for feed in engine.registry.catalog.feeds.values():
        if stream not in feed.sources or feed.retain is None:
            continue
        needed = kept_back(feed) if feed.found_anew else feed.retain
        if needed <= retain:
            continue
        kept = stretches(engine.manifest, feed)
        if "none" in (feed.policy, *(each.policy for each in kept)):
            other = "lazy" if feed.plan is None else "eager"
            raise PlanError(
                f'answers of "{feed.name}" are found anew in rows of stream "{stream}"',
                detail=f"They need those of {print_duration(needed)}, and the rows would "
                f"be retained for {print_duration(retain)}.",
                hint=f'Give it policy "{other}", and ask again when what was answered has expired.',
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


def _found_anew(feed: FeedSpec, retain: int | None, streams: Sequence[StreamSpec]) -> int:
    """Return for how long answers are found anew by a plan; refuse what is not kept for as long."""
    assert feed.plan is not None, "others are selections"
    if feed.plan.parameters is not None or feed.joined:
        raise PlanError(
            f'answers of "{feed.name}" are told by one plan for many queries',
            detail='Policy "none" finds those of a query that is run by itself.',
            hint='Take policy "eager", or register the query by itself with policy "none".',
        )
    if feed.plan.tables:
        raise PlanError(
            f'answers found anew need what table "{feed.plan.tables[0]}" held then',
            detail="Of a table it is known what it holds now.",
            hint='Take policy "eager".',
        )
    seen = forgets_after(feed.plan)
    if seen is None:
        raise PlanError(
            f'answers of "{feed.name}" depend on all that ever came',
            detail="A window of rows, or one without an end, does not say for how long rows count.",
            hint='Give its windows a length, such as [RANGE 1 HOUR], or take policy "eager".',
        )
    kept = [each.retain for each in streams if each.retain is not None]
    asked = min(kept, default=0) - seen if retain is None else retain
    for each in streams:
        if each.retain is None or asked <= 0 or asked + seen > each.retain:
            rows = "no rows" if each.retain is None else f"rows for {print_duration(each.retain)}"
            needed = seen if asked <= 0 else asked + seen
            raise PlanError(
                f'answers found anew need the rows of stream "{each.name}"',
                detail=f"It retains {rows}. Needed are those of {print_duration(needed)}: as long "
                "as answers are asked for, and as long before as they depend on.",
                hint='Declare the stream with a longer retention, or take policy "eager".',
            )
    return asked


def _require_history(stream: StreamSpec, retain: int | None) -> None:
    """Refuse to find answers among rows that the stream does not keep for as long."""
    if stream.retain is None or retain is None or retain > stream.retain:
        kept = "no rows" if stream.retain is None else f"rows for {print_duration(stream.retain)}"
        raise PlanError(
            f'answers found anew need the rows of stream "{stream.name}"',
            detail=f"It retains {kept}.",
            hint='Declare the stream with a longer retention, or take policy "lazy".',
        )
