"""Decisions: everything an epoch depends on besides its input and the state before it.

They are written to `epochs/<id>.<attempt>` before the epoch runs and read back when it is
replayed, so a replay does what the first run did. An epoch has a second attempt only while
it is not committed: because a query took its tasks down, because the output of its tasks was
too large for the driver, or because rows of one source partition turned out to lie in several
tasks in an order that makes some of them late. The newest attempt is the one in force.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from millrace.connectors.sinks.sink import FanOut
from millrace.engine import first_format
from millrace.engine.tally import Segments
from millrace.errors import FencedError
from millrace.operators.keys import BUCKET_BITS, N_BUCKETS
from millrace.state import container
from millrace.state.merge import MergeStep
from millrace.state.piece import Piece
from millrace.state.root import Root

Clocks = dict[str, dict[str, int]]
"""For each stream and source partition, the greatest event time seen, in us."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which input an epoch has: Spark's query and batch, and the digest of its offsets.

    Spark numbers batches from 0 again when its checkpoint is lost, so the number alone would
    let new input pass for old.
    """

    query: str
    epoch: int
    digest: str
    offsets: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided for one attempt at one epoch.

    `ahead` is by how much the time of silent streams has gone on by itself. `plans` are the feeds
    whose plans run: the id of the query, up to where the plan has come (None
    if a stream has no watermark yet), and whether it has begun. `held` are the runs that they read:
    elements, and what they remember. `entered` says which epoch was the first whose rows a plan
    sees, `taken` which change of the registry was the last whose tables it has seen, `earliest` the
    least time of what waits for a plan that has not begun. `births` are those of families, as
    `engine.births` spells them, and `quiet` their queries that are paused. `hops` is how often rows
    of plans travel between shards. `backfill` is what is answered of histories, by stream, and
    `warming` how plans catch up with theirs, as `engine.backfill` and `engine.warming` spell it;
    `besides` are queries of families that run beside their plans, as `engine.beside` does. `ranges`
    are those of families' band joins, as `engine.laying` spells them. `memory` is that
    of `engine.budget`, `narrow` whether joins are narrowed, `upkeep` whether what joins prepare of
    their queries is changed with them. `anew`, `resting` and `waking` are the plans whose answers
    are found when they are asked for, as `engine.resting` has them.
    """

    identity: Identity
    attempt: int
    term: int
    clock: int
    catalog: str
    clocks: Clocks
    watermarks: dict[str, int] = field(default_factory=dict)
    idle: dict[str, list[str]] = field(default_factory=dict)
    ahead: dict[str, int] = field(default_factory=dict)
    suspended: tuple[int, ...] = ()
    quarantined: dict[str, list[Any]] = field(default_factory=dict)
    wanted: dict[str, list[FanOut]] = field(default_factory=dict)
    families: tuple[str, ...] | None = None
    access: str = "auto"
    memory: int = 1 << 30
    narrow: bool = True
    upkeep: bool = True
    shards: tuple[int, ...] = (0, N_BUCKETS)
    spread: bool = False
    merges: tuple[MergeStep, ...] = ()
    segments: dict[str, Segments] = field(default_factory=dict)
    plans: dict[str, list[Any]] = field(default_factory=dict)
    held: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    entered: dict[str, int] = field(default_factory=dict)
    taken: dict[str, int] = field(default_factory=dict)
    earliest: dict[str, int] = field(default_factory=dict)
    births: dict[str, Any] = field(default_factory=dict)
    quiet: tuple[int, ...] = ()
    backfill: dict[str, Any] = field(default_factory=dict)
    warming: dict[str, Any] = field(default_factory=dict)
    besides: dict[str, Any] = field(default_factory=dict)
    ranges: dict[str, Any] = field(default_factory=dict)
    anew: dict[str, list[int | None]] = field(default_factory=dict)
    resting: tuple[str, ...] = ()
    waking: dict[str, int] = field(default_factory=dict)
    hops: int = 0
    unordered: tuple[str, ...] = ()
    probe: bool = False

    @property
    def file(self) -> str:
        """The name under which the decision is logged."""
        return f"epochs/{self.identity.epoch:012d}.{self.attempt:03d}"

    @property
    def n_shards(self) -> int:
        """How many shards the epoch runs in."""
        return len(self.shards) - 1

    @property
    def n_hops(self) -> int:
        """How many stages follow the first; none where one process has all rows."""
        return self.hops if self.spread and self.n_shards > 1 else 0

    def key_range(self, shard: int) -> tuple[int, int]:
        """Return the keys of a shard, half-open: the hashes whose top bits are its buckets."""
        width = 64 - BUCKET_BITS
        return self.shards[shard] << width, self.shards[shard + 1] << width

    def to_json(self) -> dict[str, Any]:
        """Spell the decision as JSON."""
        spelt = {name: getattr(self, name) for name in self.__slots__}
        spelt["identity"] = asdict(self.identity)
        spelt["merges"] = [each.to_json() for each in self.merges]
        spelt["suspended"] = _stretches(self.suspended)
        spelt["held"] = {
            store: [piece.to_json() for piece in pieces] for store, pieces in self.held.items()
        }
        return spelt

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        return cls(
            **{
                **spelt,
                "identity": Identity(**spelt["identity"]),
                "suspended": tuple(_each(spelt["suspended"])),
                "quiet": tuple(spelt.get("quiet", ())),
                "resting": tuple(spelt.get("resting", ())),
                "plans": spelt.get("plans", {}),  # the first roots have none
                "ahead": spelt.get("ahead", {}),
                "backfill": spelt.get("backfill", {}),
                "warming": spelt.get("warming", {}),
                "besides": spelt.get("besides", {}),
                "ranges": spelt.get("ranges", {}),
                "held": {
                    store: tuple(map(Piece.from_json, pieces))
                    for store, pieces in spelt.get("held", {}).items()
                },
                "families": None if spelt["families"] is None else tuple(spelt["families"]),
                "unordered": tuple(spelt["unordered"]),
                "shards": tuple(spelt["shards"]),
                "merges": tuple(MergeStep.from_json(each) for each in spelt["merges"]),
                "segments": {
                    stream: {
                        partition: [(begin, newest) for begin, newest in known]
                        for partition, known in partitions.items()
                    }
                    for stream, partitions in spelt["segments"].items()
                },
            }
        )

    def write(self, root: Root) -> None:
        """Log the decision; durable when it returns. To do so again does nothing."""
        data = container.pack(self.to_json(), [])
        if not root.put_if_absent(self.file, data) and root.get(self.file) != b"".join(data):
            raise FencedError(
                f'"{self.file}" of root "{root.uri}" has been written by another engine',
                hint="Stop this engine; the other one goes on.",
            )

    @classmethod
    def read(cls, root: Root, file: str) -> Self:
        """Read a logged decision."""
        spelt = container.Container.open(root, file).meta
        return cls.from_json(first_format.decision(root, spelt))


def _stretches(qids: Iterable[int]) -> list[list[int]]:
    """Spell ids as stretches, the first and how many: a family may be suspended as a whole.

    >>> _stretches((7, 3, 4, 5))
    [[3, 3], [7, 1]]
    """
    found: list[list[int]] = []
    for qid in sorted(set(qids)):
        if found and qid == sum(found[-1]):
            found[-1][1] += 1
        else:
            found.append([qid, 1])
    return found


def _each(stretches: Iterable[list[int] | int]) -> Iterator[int]:
    """Read what `_stretches` wrote; the first roots list each id."""
    for each in stretches:
        first, count = each if isinstance(each, list) else (each, 1)
        yield from range(first, first + count)


def attempts(root: Root, epoch: int) -> list[str]:
    """Return the files of all logged attempts at an epoch, oldest first."""
    names = (each.name for each in root.list(f"epochs/{epoch:012d}."))
    return sorted(names, key=lambda name: int(name.rpartition(".")[2]))
