"""Write tests/data/root-v1: a small root in format version 1, and what it holds as JSON.

It was run once, when version 1 was new, and its output is kept: every later millrace must open
that root and find the same rows. Do not run it again for version 1.

    PYTHONPATH=src python tests/data/make_root_v1.py
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa

from millrace.state.cuts import StoredFences
from millrace.state.fence import Fence
from millrace.state.levels import plan_merges
from millrace.state.manifest import Delta, StoreSpec, commit_name
from millrace.state.merge import MergeProgress, perform
from millrace.state.order import sort_rows
from millrace.state.posix_root import PosixRoot
from millrace.state.run import pieces_of, write_runs
from millrace.state.run_store import RunStore
from millrace.state.store import scan

HERE = Path(__file__).parent
N_EPOCHS = 70
SCHEMA = pa.schema(
    [
        ("_key", pa.uint64()),
        ("_time", pa.int64()),
        ("symbol", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.int32())),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
    ]
)


def rows_of(epoch: int) -> pa.Table:
    """Make up three rows: large keys, negative times, nulls, empty lists."""
    rows = [
        {
            "_key": (epoch * 0x9E3779B97F4A7C15 + at * 0xBF58476D1CE4E5B9) % 2**64,
            "_time": epoch - 5,
            "symbol": None if at == 2 else f"symbol {epoch % 7}",
            "price": epoch / 4 + at,
            "tags": None if epoch % 5 == 0 else list(range(at)),
            "at": epoch * 1_000_000,
            "raw": bytes([epoch, at]),
        }
        for at in range(3)
    ]
    return sort_rows(pa.Table.from_pylist(rows, schema=SCHEMA))


def commit(store: RunStore, epoch: int) -> None:
    """Add the rows of an epoch: to a store that is merged, and to a queue that is not."""
    fences = StoredFences(store.root)
    stores = store.manifest.stores
    steps = plan_merges(stores, fences, epoch=epoch, budget_rows=65_536, horizon={})
    files = {f"merge {at}": perform(store.root, step) for at, step in enumerate(steps)}
    written = write_runs(store.root, files, epoch=epoch, buckets=(0, 1024)) if files else {}
    inline = {"trades": rows_of(epoch)}
    pieces = pieces_of(commit_name(epoch), inline)
    delta = Delta(
        epoch,
        store.fence.term,
        digest=f"digest of {epoch}",
        created={}
        if epoch
        else {"trades": StoreSpec(SCHEMA), "results": StoreSpec(SCHEMA, queue=True)},
        merged=tuple(MergeProgress(step, written[f"merge {at}"]) for at, step in enumerate(steps)),
        added={"trades": ((pieces["trades"],),)}
        | ({"results": ((pieces["trades"],),)} if epoch % 10 == 0 else {}),
        dropped={"results": (2,)} if epoch == 50 else {},
        facts={"watermark": epoch, "first": None if epoch == 3 else "seen"},
    )
    store.commit(delta, inline)


def main() -> None:
    """Write the root and the JSON beside it."""
    root = PosixRoot(HERE / "root-v1")
    fence = Fence.acquire(root, who="make_root_v1")
    store = RunStore.open(root, fence)
    for epoch in range(N_EPOCHS):
        commit(store, epoch)
        store.snapshot_if_due()
    store.collect_garbage()
    fence.release()
    (root.path / "lock").unlink()
    expected = {
        "epoch": store.manifest.epoch,
        "term": store.manifest.term,
        "digest": store.manifest.digest,
        "facts": dict(store.manifest.facts),
        "queues": [name for name, each in store.manifest.stores.items() if each.queue],
        "schemas": {name: each.schema.to_string() for name, each in store.manifest.stores.items()},
        "rows": {
            name: scan(root, each).to_pylist() for name, each in store.manifest.stores.items()
        },
    }
    text = json.dumps(
        expected,
        indent=0,
        default=lambda value: value.hex() if isinstance(value, bytes) else str(value),
    )
    (HERE / "root-v1.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
