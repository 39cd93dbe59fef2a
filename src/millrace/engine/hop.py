"""A hop: from one stage of an epoch to the next, when rows of plans travel between shards.

    stage 0 ─► step in each shard ─► rows for other shards ─► shuffle ─► stage 1 ─► ...
                                  └► the receipt so far, and how far time has come: to itself

Plans of any depth share the same shuffles, since each of their relations knows in which stage it is
wanted. What is wanted in a later stage than the next goes to its shard at once, and is handed on
there. Nothing counts before the last stage hands back the receipts: a step that is run twice has
written the same files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from millrace import failpoints
from millrace.engine import chunk as kinds
from millrace.engine.catalog import Catalog
from millrace.engine.chunk import Chunk, pack_table
from millrace.engine.decision import Decision
from millrace.engine.outgoing import CHUNK_BYTES
from millrace.engine.step import step
from millrace.operators.select import Function
from millrace.state.root import Root


def travel(
    chunks: Iterable[Chunk],
    decision: Decision,
    root: Root,
    shard: int,
    *,
    hop: int,
    functions: Mapping[str, Function],
    catalog: Catalog | None = None,
) -> Iterator[Chunk]:
    """Run one shard's part of a stage that is not the last, and give what goes to the next."""
    arrived = list(chunks)
    stepped = step(arrived, decision, root, shard, hop=hop, functions=functions, catalog=catalog)
    failpoints.reach("hop.before")
    assert stepped.progress is not None, "only plans have several stages"
    documents = {
        kinds.RECEIPT: stepped.receipt.pack(),
        kinds.PROGRESS: stepped.progress.pack(),
    }
    for ordinal, (kind, payload) in enumerate(documents.items()):
        yield Chunk(shard, "", shard, ordinal, kind, "", payload, hop + 1)
    for each in stepped.sent:
        for ordinal, rows in enumerate(_pieces(each.rows)):
            payload = pack_table(rows)
            yield Chunk(
                each.shard, each.name, shard, ordinal, kinds.TRAVEL, each.name, payload, each.hop
            )
    yield from (each for each in arrived if each.hop > hop)
    failpoints.reach("hop.after")


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Cut rows so that none of the pieces is large; what is empty has none."""
    n_pieces = max(-(-rows.nbytes // CHUNK_BYTES), 1)
    length = -(-rows.num_rows // n_pieces)
    yield from (rows.slice(first, length) for first in range(0, rows.num_rows, length))
