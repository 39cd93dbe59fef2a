"""What a sink is: something that takes the tables of consecutive epochs and makes them public.

Delivery drives every sink through the same five calls. A span of epochs is open while the sink
takes tables; it is settled when the sink says that it is due:

    open ──► take, take, ...  ──► due? ──► prepare ──► (the cursor moves) ──► fulfil
      ▲                                                                         │
      └──────────────── after any error, and after a restart ◄──────────────────┘

`prepare` makes the span complete where nobody sees it and names the moves that would make it
public. The cursor then moves past the span and, in the same record, promises these moves.
`fulfil` does them, and so does `open` when the program ended in between.

Invariant: the tables of a span that is not settled are handed over again after `open`; those
of a settled span never. A sink whose moves can be done only once is therefore exactly-once;
a sink that makes tables public in `take` is at-least-once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from millrace.errors import PlanError

Policy: TypeAlias = Literal["keep", "detach", "drop"]
FanOut: TypeAlias = Literal["rows", "counts", "sets"]
"""How the answers of many queries are told: a row for each match; for each query and epoch the
number of its matches; or each matching row once, with the set of its queries."""

POLICIES: tuple[Policy, ...] = ("keep", "detach", "drop")
FANOUTS: tuple[FanOut, ...] = ("rows", "counts", "sets")

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=+-]*")


@dataclass(frozen=True, slots=True)
class Move:
    """A file that is complete under the name `temporary` and becomes public as `final`."""

    temporary: str
    final: str


@dataclass(frozen=True, slots=True)
class Span:
    """The epochs `[first, stop)` that a sink has taken since it last settled.

    `n_rows` and `n_bytes` count what was handed over; `age` is in microseconds.
    """

    first: int
    stop: int
    _: KW_ONLY
    n_rows: int = 0
    n_bytes: int = 0
    age: int = 0

    @property
    def n_epochs(self) -> int:
        """How many epochs the span covers, with or without rows."""
        return self.stop - self.first


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much may wait for a sink in the root, and what happens beyond that.

    Parameters
    ----------
    policy
        "keep": results wait for the sink, however many there are. "detach": the sink is cut
        off; its cursor stays, and attaching it again tells what it has missed. "drop": the
        oldest epochs are skipped until half of the limit is left; they are counted in the
        cursor.
    n_bytes, n_epochs
        The limits; the first that is exceeded counts. "keep" needs none.

    Examples
    --------
    >>> Backlog("drop", n_bytes=1 << 30).n_epochs is None
    True
    """

    policy: Policy = "keep"
    _: KW_ONLY
    n_bytes: int | None = None
    n_epochs: int | None = None

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise PlanError(
                f'backlog policy "{self.policy}" does not exist',
                detail=f"The policies are {', '.join(POLICIES)}.",
            )
        limits = [limit for limit in (self.n_bytes, self.n_epochs) if limit is not None]
        if (self.policy == "keep") != (not limits) or any(limit < 1 for limit in limits):
            raise PlanError(
                f'backlog policy "{self.policy}" does not fit its limits',
                detail=f"The limits are {self.n_bytes} bytes and {self.n_epochs} epochs.",
                hint='"keep" takes no limit; "detach" and "drop" take one of at least 1.',
            )

    def exceeded_by(self, n_bytes: int, n_epochs: int, *, share: float = 1.0) -> bool:
        """Say whether that much is more than `share` of what may wait."""
        too_large = self.n_bytes is not None and n_bytes > self.n_bytes * share
        return too_large or (self.n_epochs is not None and n_epochs > self.n_epochs * share)


@runtime_checkable
class Sink(Protocol):
    """A place that results go to; the module's head says in which order it is called."""

    @property
    def name(self) -> str:
        """The name, under which the cursor is kept; it outlives the program."""

    @property
    def queries(self) -> tuple[str, ...] | None:
        """The queries and templates whose results it wants; None stands for all."""

    @property
    def fan_out(self) -> FanOut:
        """In which form it wants them."""

    @property
    def backlog(self) -> Backlog:
        """How much may wait for it."""

    @property
    def durable(self) -> bool:
        """Whether it goes on, after a restart, where its cursor stands."""

    def open(self, promised: Sequence[Move]) -> None:
        """Forget the open span, fulfil what was promised, remove what is left over."""

    def take(self, query: str, epoch: int, table: pa.Table) -> None:
        """Add one query's rows of one epoch to the open span.

        A second table of the same query and epoch has other columns.
        """

    def due(self, span: Span) -> bool:
        """Say whether the open span is to be settled now; it depends on `span` alone."""

    def prepare(self, span: Span) -> tuple[Move, ...]:
        """Make the open span complete and durable, out of sight; name what makes it public."""

    def fulfil(self, moves: Sequence[Move]) -> None:
        """Make the settled span public, durably; a move that is done already is left out."""

    def close(self) -> None:
        """Let go of what the sink holds; the open span is forgotten."""


def check_sink_name(name: str) -> str:
    """Return `name` if it may stand for a sink, else raise."""
    if _NAME.fullmatch(name) is None:
        raise PlanError(
            f'name "{name}" cannot stand for a sink',
            detail="It names a folder: letters, digits and _ . = + - and no leading dot.",
        )
    return name


def check_queries(queries: Sequence[str] | str | None) -> tuple[str, ...] | None:
    """Return the names of queries in their order, each once; None stays None."""
    if queries is None:
        return None
    names = (queries,) if isinstance(queries, str) else tuple(dict.fromkeys(queries))
    if not names:
        raise PlanError("a sink wants no query", hint="Name at least one, or None for all.")
    return names


def check_fan_out(fan_out: FanOut) -> FanOut:
    """Return the form in which a sink wants results, if there is such a form."""
    if fan_out not in FANOUTS:
        raise PlanError(
            f'fan-out "{fan_out}" does not exist', detail=f"There are {', '.join(FANOUTS)}."
        )
    return fan_out
