"""Receipts: what a shard hands back, and the only way its work enters the manifest.

A file that no receipt names is as if it had never been written, so a task that is run twice,
or runs on after its epoch was given up, does no harm. Small outputs travel inside the receipt
and end up inside the commit; large ones are in one file that the task wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import pyarrow as pa

from millrace.engine.chunk import pack_table
from millrace.engine.tally import Tally
from millrace.engine.work import Work
from millrace.operators.weighing import Weighed
from millrace.state import container
from millrace.state.piece import Piece

BESIDE = 1 << 20
"""Stands for the shard where a run is not of the keys of the shard that made it."""


@dataclass(frozen=True, slots=True)
class Written:
    """One run that a shard made: for a store, or the output of one of the epoch's merges."""

    store: str
    shard: int
    rows: int
    merge: int | None = None
    piece: Piece | None = None

    @property
    def label(self) -> str:
        """The name of the run in the file, or commit, that holds it; unique within the epoch."""
        kind = self.store if self.merge is None else f"{self.store}~{self.merge}"
        return f"{kind}@{self.shard}"

    def to_json(self) -> dict[str, Any]:
        """Spell it as JSON."""
        piece = None if self.piece is None else self.piece.to_json()
        return {
            "store": self.store,
            "shard": self.shard,
            "rows": self.rows,
            "merge": self.merge,
            "piece": piece,
        }

    @classmethod
    def from_json(cls, spelt: dict[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        piece = None if spelt["piece"] is None else Piece.from_json(spelt["piece"])
        return cls(**{**spelt, "piece": piece})


@dataclass(frozen=True, slots=True, eq=False)
class Receipt:
    """What one shard did in one epoch.

    `written` lists its runs; one without a piece is in `inline`, under its label. `work` is what
    the operators of plans did, by the numbers of their feeds, `weighed` in which way where they
    choose, and `reaches` how far back those read elements whose queries say so.
    """

    shard: int
    written: tuple[Written, ...] = ()
    inline: Mapping[str, pa.Table] = field(default_factory=dict)
    tallies: tuple[Tally, ...] = ()
    oversize: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)
    bytes_written: int = 0
    work: Mapping[int, Work] = field(default_factory=dict)
    reaches: Mapping[int, int] = field(default_factory=dict)
    weighed: Mapping[int, Weighed] = field(default_factory=dict)

    def following(self, earlier: Receipt) -> Receipt:
        """Return one receipt for this stage of an epoch and those before it."""
        stages = dict.fromkeys([*earlier.seconds, *self.seconds])
        return Receipt(
            self.shard,
            (*earlier.written, *self.written),
            {**earlier.inline, **self.inline},
            (*earlier.tallies, *self.tallies),
            earlier.oversize or self.oversize,
            {each: earlier.seconds.get(each, 0) + self.seconds.get(each, 0) for each in stages},
            earlier.bytes_written + self.bytes_written,
            {
                number: {**earlier.work.get(number, {}), **self.work.get(number, {})}
                for number in (*earlier.work, *self.work)
            },
            {**earlier.reaches, **self.reaches},
            {**earlier.weighed, **self.weighed},
        )

    def pack(self) -> bytes:
        """Spell the receipt as bytes, with a checksum over everything."""
        meta = {
            "shard": self.shard,
            "written": [each.to_json() for each in self.written],
            "tallies": [each.to_json() for each in self.tallies],
            "oversize": self.oversize,
            "seconds": dict(self.seconds),
            "bytes_written": self.bytes_written,
            "work": [[number, each] for number, each in self.work.items()],
            "reaches": [*self.reaches.items()],
            "weighed": [[number, each.to_json()] for number, each in self.weighed.items()],
        }
        sections = [(name, pack_table(table)) for name, table in self.inline.items()]
        return b"".join(container.pack(meta, sections))

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """Read what `pack` wrote."""
        opened = container.Container("receipt", pa.py_buffer(packed))
        meta = opened.meta
        inline = {
            name: pa.ipc.open_stream(opened.section(name)).read_all() for name in opened.sections
        }
        return cls(
            meta["shard"],
            tuple(Written.from_json(each) for each in meta["written"]),
            inline,
            tuple(Tally.from_json(each) for each in meta["tallies"]),
            meta["oversize"],
            meta["seconds"],
            meta["bytes_written"],
            dict(meta["work"]),
            dict(meta["reaches"]),
            {number: Weighed.from_json(each) for number, each in meta["weighed"]},
        )
