"""How much is kept for whom: by the name of a store, or as a part of what queries share.

Answers that are kept lazily are sets of rows (`found/`), and those rows, once for all (`seen/`). A
set is its query's. The rows of a stream are parted in proportion to how many of them are answers of
each query; who keeps nothing and finds its answers anew needs all of them.

Cost: the keys and the sizes of all sets are read, about 10 ns a set; nothing else is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from millrace.engine.catalog import Catalog
from millrace.engine.retention import retained
from millrace.engine.row_ids import query_of_key
from millrace.engine.stores import (
    found_store,
    holds_sets,
    seen_store,
    tells_queries_apart,
)
from millrace.kernels.arrays import Hashes, Ints
from millrace.operators.query_sets import SETS, unpacked
from millrace.state.manifest import Manifest
from millrace.state.piece import Piece
from millrace.state.root import Root
from millrace.state.run import read_piece

FOUND = ""
"""Under which name what queries share is measured: rows of streams, and whose answers they are."""

_SET_BYTES = 34
_PLACE_BYTES, _ROW_ID_BYTES, _BITMAP_BYTES = 2, 8, 8_192

Weights = NDArray[np.float64]

_known: tuple[Manifest | None, dict[str, int]] = (None, {})


def bytes_by_feed(manifest: Manifest) -> dict[str, int]:
    """Return how much each feed keeps: answers, and what its plan remembers."""
    global _known  # noqa: PLW0603  a manifest never changes, so this is a memory of one
    if _known[0] is not manifest:
        found: dict[str, int] = {}
        for name, store in manifest.stores.items():
            kind, _, rest = name.partition("/")
            if not store.runs or kind in ("rows", "late", "elements", "dead letters"):
                continue
            feed = rest.rsplit(".", 1)[0] if kind != "state" else _state_owner(rest)
            feed = FOUND if kind in ("found", "seen") else feed
            size = sum(piece.bytes for run in store.runs for piece in run.pieces)
            found[feed] = found.get(feed, 0) + size
        _known = manifest, found
    return _known[1]


def _state_owner(rest: str) -> str:
    """Return the feed of a store of state, which is called name.number/operator."""
    for at in range(len(rest)):
        head, _, tail = rest[at:].partition("/")
        if tail and head.rpartition(".")[2].isdigit() and "." in head:
            return (rest[:at] + head).rpartition(".")[0]
    return rest


def told_by_query(root: Root, store: str, piece: Piece) -> tuple[Hashes, Ints]:
    """Return the queries of stored answers, ascending, and how many each has."""
    if holds_sets(store):
        ids, _ = unpacked(read_piece(root, piece, columns=[SETS])[SETS].combine_chunks())
    elif tells_queries_apart(store):
        ids = read_piece(root, piece, columns=["_key"])["_key"].to_numpy()
    else:
        return np.array([piece.low[0]], np.uint64), np.array([piece.rows])
    qids, counts = np.unique(ids, return_counts=True)
    return qids.astype(np.uint64), counts


def found_by_query(root: Root, piece: Piece) -> tuple[Hashes, Ints, Weights]:
    """Return the queries of sets of rows, how many rows each has, and about how many bytes."""
    sets = read_piece(root, piece, columns=["_key", "n_rows"])
    sizes = sets["n_rows"].to_numpy().astype(np.int64)
    whole = sizes < 0  # sets that were folded list whole row ids, and tell that by the sign
    places = np.minimum(_PLACE_BYTES * sizes, _BITMAP_BYTES)
    n_bytes = _SET_BYTES + np.where(whole, -_ROW_ID_BYTES * sizes, places)
    keys, at = np.unique(sets["_key"].to_numpy(), return_inverse=True)
    n_rows = np.bincount(at, np.abs(sizes), keys.size).astype(np.int64)
    return query_of_key(keys), n_rows, np.bincount(at, n_bytes, keys.size).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """How many bytes of what queries share are each query's; ids ascend."""

    qids: Hashes
    sizes: Weights

    @classmethod
    def nothing(cls) -> Self:
        """Return what is shared before anything is."""
        return cls(np.zeros(0, np.uint64), np.zeros(0))

    def of(self, qids: Hashes) -> Weights:
        """Return the bytes of each of some queries."""
        if not self.qids.size:
            return np.zeros(qids.size)
        at = np.minimum(np.searchsorted(self.qids, qids), self.qids.size - 1)
        return np.where(self.qids[at] == qids, self.sizes[at], 0.0)


def shared_bytes(
    root: Root, manifest: Manifest, catalog: Catalog, anew: Callable[[str], Hashes]
) -> Shared:
    """Part what queries share among them; `anew` gives those of a stream that store nothing."""
    qids, sizes = [np.zeros(0, np.uint64)], [np.zeros(0)]
    for stream, kept in retained(catalog).items():
        spec = catalog.streams[stream]
        stores = [found_store(spec, retain) for retain in kept.lazy]
        found = list(_pieces(manifest, stores))
        seen = list(_pieces(manifest, [seen_store(spec)]))
        parts = [found_by_query(root, piece) for piece in found]
        everybody = anew(stream) if kept.everything else np.zeros(0, np.uint64)
        all_rows = np.full(everybody.size, sum(piece.rows for piece in seen))
        owners = np.concatenate([*(each for each, _, _ in parts), everybody])
        needed = np.concatenate([*(rows for _, rows, _ in parts), all_rows]).astype(np.float64)
        own = np.concatenate([*(weights for _, _, weights in parts), np.zeros(everybody.size)])
        qids.append(owners)
        sizes.append(_parted(_bytes(found), own) + _parted(_bytes(seen), needed))
    ids, at = np.unique(np.concatenate(qids), return_inverse=True)
    return Shared(ids, np.bincount(at, np.concatenate(sizes), ids.size).astype(np.float64))


def _parted(n_bytes: int, weights: Weights) -> Weights:
    """Part bytes in proportion to weights."""
    total = float(weights.sum())
    return weights * (n_bytes / total) if total else np.zeros(weights.size)


def _pieces(manifest: Manifest, stores: Iterable[str]) -> Iterator[Piece]:
    for name in stores:
        for run in manifest.stores[name].runs if name in manifest.stores else ():
            yield from run.pieces


def _bytes(pieces: Iterable[Piece]) -> int:
    return sum(piece.bytes for piece in pieces)
