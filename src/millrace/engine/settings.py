"""Settings of an engine; each switch is a configuration of the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from millrace.errors import PlanError
from millrace.operators.keys import N_BUCKETS
from millrace.plan.panes import PaneWay
from millrace.time import DAY, SECOND

Spread = Literal["auto", "always", "never"]
Together = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How an engine runs; nothing here changes an answer.

    Parameters
    ----------
    shards
        Into how many ranges of buckets the work of an epoch is cut.
    spread
        Whether shards run as tasks behind a shuffle ("always"), in the driver ("never"), or
        whichever the last epoch's size suggests ("auto").
    dealing
        Whether the driver deals the files of an epoch to as many tasks of Spark as there is work
        for; without it each stream has tasks of its own.
    hops
        Whether rows of plans may travel between shards; without that, a plan that no column can
        spread runs in one shard. It is for plans that are registered.
    bands
        Whether joins by how far apart numbers are, and by nothing equal, are spread by ranges of
        these numbers, to whose neighbours rows are copied; without it they run in one shard. It is
        for plans that are registered.
    merging
        Whether runs are merged; without it answers are the same and reading is slower.
    merge_at_start
        Whether the first epoch after a start may merge too; without it that epoch is quick.
    target
        How long an epoch should take at most, in us; the number of rows that sources hand to
        an epoch follows it.
    rows
        How many rows of each stream of files an epoch takes, where that should not follow the
        target; None follows it.
    memory
        How many bytes the rows of an epoch may take at most, all streams together: those that
        come, and again those of histories that queries catch up with. Where rows are wide, fewer
        are taken. Half as many may be kept between epochs, in each process, of what joins of many
        queries have prepared.
    trigger
        The least time between the starts of two epochs, in us; 0 starts the next at once.
    keep_rejected
        How long late rows and dead letters are kept, in us.
    access
        How the index finds queries: "auto" chooses for each batch by cost; the name of an
        access method forces that one wherever it is possible.
    again
        Whether plans read stored elements again where they can, instead of remembering what
        they have made of them; each plan keeps to what held when it was registered.
    narrow
        Whether joins of three windows or more by one key first look for the keys that all of them
        have, and leave out rows of others.
    sharing
        Whether the joins of a template are one join for all its queries, where they can be; it is
        for templates that are registered.
    families
        Whether queries with plans that were registered one by one, and differ in constants alone,
        are run as one plan: "auto" from the second of them on, "always" the first of them too,
        "never" none. It is for queries that are registered.
    strategy
        What finds the queries of such a join: "auto" chooses by cost; a name forces that one
        wherever it is possible. It is for templates that are registered.
    sets
        Whether what such a join tells is stored once for all queries that are told it, with the set
        of them; without it each has a row of its own. It is for templates that are registered.
    upkeep
        Whether what a process has prepared of the queries of such a join, indexes among it, is
        changed when some come and go; without it all of it is made anew.
    panes
        How aggregates of a family that differ in windows and filters share what is added up of
        elements: "auto" chooses by cost, "dense" or "sparse" forces a way, "never" joins each
        element with the queries that take it. It is for templates that are registered.
    backfill_rows
        How many rows of each stream's history an epoch answers at most for queries that see
        history; more only if they have one time.
    backoff
        The wait before the first retry after a failure, in us; it doubles up to a minute.
    """

    shards: int = 2
    spread: Spread = "auto"
    dealing: bool = True
    hops: bool = True
    bands: bool = True
    merging: bool = True
    merge_at_start: bool = False
    target: int = SECOND
    rows: int | None = None
    memory: int = 1 << 30
    trigger: int = 0
    keep_rejected: int = 7 * DAY
    access: str = "auto"
    again: bool = True
    narrow: bool = True
    sharing: bool = True
    families: Together = "auto"
    strategy: str = "auto"
    sets: bool = True
    upkeep: bool = True
    panes: PaneWay = "auto"
    backfill_rows: int = 200_000
    backoff: int = SECOND // 2

    def __post_init__(self) -> None:
        if not 1 <= self.shards <= N_BUCKETS:
            raise PlanError(
                f"the number of shards is {self.shards}",
                hint=f"It is between 1 and {N_BUCKETS}, the number of buckets.",
            )
        if self.backfill_rows < 1:
            raise PlanError(
                f"the number of rows to backfill is {self.backfill_rows}", hint="It is at least 1."
            )
        if self.memory < 1:
            raise PlanError(f"the memory of an epoch is {self.memory} bytes", hint="It is more.")
        if self.panes not in get_args(PaneWay):
            raise PlanError(
                f'panes is "{self.panes}"', hint='It is "auto", "dense", "sparse" or "never".'
            )
        for word in ("spread", "families"):
            said = getattr(self, word)
            if said not in ("auto", "always", "never"):
                raise PlanError(f'{word} is "{said}"', hint='It is "auto", "always" or "never".')

    @property
    def shard_bounds(self) -> tuple[int, ...]:
        """The buckets at which one shard ends and the next begins."""
        return tuple(N_BUCKETS * each // self.shards for each in range(self.shards + 1))
