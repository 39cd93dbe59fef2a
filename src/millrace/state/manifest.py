"""The manifest: which runs exist after an epoch; and the delta: what one epoch changes.

A delta is stored as the file `commits/<epoch>`; that file may also carry small runs, which
pieces then name by it. `apply` is pure, and a full manifest is nothing but all deltas applied
to the empty one.

Cost: an epoch's `apply` is proportional to the stores it touches plus one copy of the
dictionary of stores; a piece takes about 120 bytes of JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from millrace.errors import CorruptionError
from millrace.state.merge import MergeProgress
from millrace.state.names import COMMITS, numbered
from millrace.state.piece import Piece
from millrace.state.store_state import Run, StoreSpec, StoreState

__all__ = ["Delta", "Manifest", "Run", "StoreSpec", "StoreState", "apply", "commit_name"]


@dataclass(frozen=True, slots=True, eq=False)
class Delta:
    """What the commit of one epoch changes.

    Parameters
    ----------
    digest
        Identifies the epoch's input; a replay must bring the same.
    created, removed
        Stores that begin and end to exist.
    dropped
        Ids of runs to drop, by store: expired ones, results that were consumed.
    merged
        Slices of merges that were performed.
    added
        New runs by store, each a sequence of pieces with disjoint keys.
    facts
        Top-level facts to replace; None removes one.
    """

    epoch: int
    term: int
    digest: str = ""
    created: Mapping[str, StoreSpec] = field(default_factory=dict)
    removed: tuple[str, ...] = ()
    dropped: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    merged: tuple[MergeProgress, ...] = ()
    added: Mapping[str, tuple[tuple[Piece, ...], ...]] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Give a JSON form."""
        return {
            "epoch": self.epoch,
            "term": self.term,
            "digest": self.digest,
            "created": {name: spec.to_json() for name, spec in self.created.items()},
            "removed": list(self.removed),
            "dropped": {name: list(ids) for name, ids in self.dropped.items()},
            "merged": [progress.to_json() for progress in self.merged],
            "added": {
                name: [[piece.to_json() for piece in pieces] for pieces in runs]
                for name, runs in self.added.items()
            },
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave."""
        return cls(
            document["epoch"],
            document["term"],
            document["digest"],
            {name: StoreSpec.from_json(spec) for name, spec in document["created"].items()},
            tuple(document["removed"]),
            {name: tuple(ids) for name, ids in document["dropped"].items()},
            tuple(map(MergeProgress.from_json, document["merged"])),
            {
                name: tuple(tuple(map(Piece.from_json, pieces)) for pieces in runs)
                for name, runs in document["added"].items()
            },
            document["facts"],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Manifest:
    """Everything that is committed after `epoch`; -1 is before the first."""

    epoch: int = -1
    term: int = 0
    digest: str = ""
    stores: Mapping[str, StoreState] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)

    def pieces(self) -> Iterator[Piece]:
        """Give every piece of every store."""
        for store in self.stores.values():
            for run in store.runs:
                yield from run.pieces

    def files(self) -> frozenset[str]:
        """Name every file that holds a live row."""
        return frozenset(piece.file for piece in self.pieces())

    def to_json(self) -> dict[str, Any]:
        """Give a JSON form."""
        return {
            "epoch": self.epoch,
            "term": self.term,
            "digest": self.digest,
            "stores": {name: store.to_json() for name, store in self.stores.items()},
            "facts": dict(self.facts),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave."""
        stores = {name: StoreState.from_json(each) for name, each in document["stores"].items()}
        epoch, term, digest = document["epoch"], document["term"], document["digest"]
        return cls(epoch, term, digest, stores, document["facts"])


def apply(manifest: Manifest, delta: Delta) -> Manifest:
    """Give the manifest after the epoch of `delta`; `manifest` stays as it was."""
    if delta.epoch != manifest.epoch + 1 or delta.term < manifest.term:
        raise CorruptionError(
            f"commit {delta.epoch} of term {delta.term} does not follow "
            f"commit {manifest.epoch} of term {manifest.term}",
            hint="Two engines may have written to one root; restore it from a copy.",
        )
    stores = {name: each for name, each in manifest.stores.items() if name not in delta.removed}
    stores.update({name: StoreState(spec) for name, spec in delta.created.items()})
    for name, ids in delta.dropped.items():
        stores[name] = stores[name].without(frozenset(ids))
    for progress in delta.merged:
        name = progress.step.store
        stores[name] = stores[name].merged(progress)
    for name, runs in delta.added.items():
        for pieces in filter(None, runs):
            stores[name] = stores[name].with_run(pieces, delta.epoch)
    facts = {**manifest.facts, **delta.facts}
    facts = {name: fact for name, fact in facts.items() if fact is not None}
    return Manifest(delta.epoch, delta.term, delta.digest, stores, facts)


def commit_name(epoch: int) -> str:
    """Name the file that holds the delta of `epoch`, and its inline runs."""
    return numbered(COMMITS, epoch)
