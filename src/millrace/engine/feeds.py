"""Feeds and families: where answers go, and which queries differ in nothing but constants.

A *feed* is a name under which answers of one form (the same columns) are kept and delivered. A
query that is registered by itself has a feed of its own; a template has one for all its rows;
and many queries may be put into one shared feed, which then tells them apart by `_query`.

A *family* is the plan of queries of one feed that differ in constants alone. The constants are
rows of a table with the columns `qid`, `p0`, `p1`, …; a row is a standing query.

Queries with plans that were registered one by one, each with a feed of its own, are run together
where they differ in constants alone: by the plan of a feed of the kind "family", which nobody sees
and which tells nothing under its own name.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, get_args

import pyarrow as pa

from millrace.engine.parameters import SET, parameter_schema, set_or_type
from millrace.engine.plans import PlanSpec
from millrace.engine.streams import check_name
from millrace.plan.nodes import Selection
from millrace.schema import type_name

Kind: TypeAlias = Literal["query", "template", "shared", "family"]
Policy: TypeAlias = Literal["lazy", "eager", "none"]
"""How answers are kept: as sets of rows, as rows of their own, or not at all but found again."""

POLICIES: tuple[Policy, ...] = get_args(Policy)

KEPT_ROWS = 10_000

_PLAIN = (
    "name", "stream", "kind", "keep", "retain", "policy", "history", "partial", "expires", "text",
)  # fmt: skip


@dataclass(frozen=True, slots=True, weakref_slot=True)
class FeedSpec:
    """A feed: its stream, the columns of its answers, and what of them is kept for readers.

    That is the newest `keep` rows, or what is not older than `retain`, in us; in the latter case
    `policy` says how. Its queries see what streams retain of the time `history` before their birth,
    in us; it is `partial` if that may be less. At `expires`, by the wall clock in us, it ends.
    `former` are the policies that it has had before, the first of all in front (`policies`).
    `parameters` are the names and types that a template declares. A query that is more than a
    selection has a `plan`, and `stream` is the first that it reads.

    Where others may differ from it in constants alone, `family` names the feed that runs them
    together. A query that is run by it has a `member`, its id; until it has got one, 0.
    """

    name: str
    stream: str
    answer: pa.Schema
    kind: Kind = "query"
    parameters: tuple[tuple[str, str], ...] = ()
    keep: int = KEPT_ROWS
    text: str = ""
    number: int = 0
    plan: PlanSpec | None = None
    retain: int | None = None
    policy: Policy = "eager"
    history: int | None = None
    partial: bool = False
    expires: int | None = None
    former: tuple[Policy, ...] = ()
    family: str = ""
    member: int | None = None

    def __post_init__(self) -> None:
        if self.kind != "family":
            check_name("query", self.name)

    def __hash__(self) -> int:
        """Hash what tells feeds apart; to hash their columns would cost more than a reading."""
        return hash((self.name, self.number, self.stream))

    @property
    def sources(self) -> tuple[str, ...]:
        """The streams that are read."""
        return (self.stream,) if self.plan is None else self.plan.sources

    @property
    def reads(self) -> tuple[str, ...]:
        """The streams and tables that are read."""
        return self.sources if self.plan is None else (*self.plan.sources, *self.plan.tables)

    @property
    def shared(self) -> bool:
        """Whether rows of several queries meet in it."""
        return self.kind != "query"

    @property
    def joined(self) -> bool:
        """Whether its plan is run with those of others, by the feed of their family."""
        return self.member is not None

    @property
    def runs_queries(self) -> bool:
        """Whether its plan runs many queries, which are rows of parameters."""
        return self.plan is not None and self.plan.parameters is not None

    @property
    def kept(self) -> bool:
        """Whether any answers are kept for readers."""
        return bool(self.keep) or self.retain is not None

    @property
    def stores_rows(self) -> bool:
        """Whether its answers are stored as rows of their own, beside what sinks want."""
        return bool(self.keep) or (self.retain is not None and self.policy == "eager")

    @property
    def stores_sets(self) -> bool:
        """Whether a row is stored once for all queries that are told it, with the set of them.

        What is retained by time is not: there the answers of one query are found by its id.
        """
        sharing = None if self.plan is None or self.kind == "family" else self.plan.sharing
        return sharing is not None and sharing.sets and self.retain is None

    @property
    def first_policy(self) -> Policy:
        """The policy that it was made with."""
        return self.former[0] if self.former else self.policy

    @property
    def policies(self) -> frozenset[Policy]:
        """All policies that it has, or has had."""
        return frozenset((*self.former, self.policy))

    @property
    def found_anew(self) -> bool:
        """Whether its answers, or some of before, are found by running its plan over the past."""
        return self.plan is not None and self.retain is not None and "none" in self.policies

    def with_policy(self, policy: Policy) -> Self:
        """Return it with another policy."""
        former = self.former if self.policy in self.former else (*self.former, self.policy)
        return replace(self, policy=policy, former=former)

    def to_json(self) -> dict[str, Any]:
        """Spell the feed as JSON."""
        answer = [[each.name, _type_name(each.type)] for each in self.answer]
        plain = {name: getattr(self, name) for name in _PLAIN}
        plan = None if self.plan is None or self.joined else self.plan.to_json()
        more = {"parameters": self.parameters, "number": self.number, "plan": plan}
        former = {"former": self.former} if self.former else {}
        family = {"family": self.family, "member": self.member} if self.family else {}
        return {**plain, "answer": answer, **more, **former, **family}

    def run_by(self, runner: FeedSpec) -> Self:
        """Return a query with what it shares of the plan of its family, which is not spelt."""
        assert runner.plan is not None, "a family has a plan"
        return replace(self, plan=runner.plan.of_member())

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote; one that is `joined` has no plan yet."""
        answer = pa.schema([(name, set_or_type(kind)) for name, kind in spelt["answer"]])
        parameters = tuple((name, kind) for name, kind in spelt["parameters"])
        spelt_plan = spelt.get("plan")  # the first roots have none
        plan = None if spelt_plan is None else PlanSpec.from_json(spelt_plan)
        given = {**spelt, "answer": answer, "parameters": parameters, "plan": plan}
        return cls(**{**given, "former": tuple(spelt.get("former", ()))})


@dataclass(frozen=True, slots=True)
class Family:
    """One plan and the types of its constants; `key` is equal for equal families."""

    feed: str
    selection: Selection
    parameters: tuple[str, ...] = ()
    number: int = 0
    digest: str = ""

    def __post_init__(self) -> None:
        if not self.digest:
            spelt = json.dumps([self.selection.to_json(), self.parameters], sort_keys=True)
            object.__setattr__(self, "digest", hashlib.sha256(spelt.encode()).hexdigest()[:24])

    @property
    def key(self) -> str:
        """What is equal for equal families of one feed; a feed is known by its number."""
        return f"{self.number}-{self.digest}"

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table of constants."""
        return parameter_schema(self.parameters)

    def to_json(self) -> dict[str, Any]:
        """Spell the family as JSON."""
        return {
            "feed": self.feed,
            "selection": self.selection.to_json(),
            "parameters": list(self.parameters),
            "number": self.number,
            "digest": self.digest,
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        selection = Selection.from_json(spelt["selection"])
        return cls(**{**spelt, "selection": selection, "parameters": tuple(spelt["parameters"])})


def _type_name(arrow: pa.DataType) -> str:
    return type_name(arrow.value_type) + SET if pa.types.is_list(arrow) else type_name(arrow)
