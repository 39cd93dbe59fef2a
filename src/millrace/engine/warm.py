"""Warming up: one tiny epoch's tasks, run on nothing that matters.

A numba kernel compiles when it is first called with its types (about a second; later processes
load what it left on disk), and Arrow loads parts of itself at first use. The process that
Spark's workers are forked from runs this before it forks, and the driver before its first
epoch; so no epoch waits for a compiler.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millrace import failpoints
from millrace.engine.arrivals import from_rows
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision, Identity
from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.registry import Registry
from millrace.engine.route import Router
from millrace.engine.step import step
from millrace.engine.streams import StreamSpec
from millrace.index.warm import warm_access_methods, warm_texts
from millrace.kernels.containers import unpack_places
from millrace.kernels.mapped import members_of_keys
from millrace.kernels.sorted_keys import ascends, distinct
from millrace.operators.keys import read_only
from millrace.plan.bind import bind_selection
from millrace.plan.lifting import lift_constants
from millrace.plan.nodes import select
from millrace.plan.term import col
from millrace.schema import Schema
from millrace.state.lookup import lookup
from millrace.state.manifest import StoreSpec, StoreState
from millrace.state.memory_root import MemoryRoot
from millrace.state.merge import EPOCH
from millrace.state.run import write_runs


def warm() -> None:
    """Route and store a handful of rows: punctual, late, without a time, with NULL keys."""
    with failpoints.aside():  # what a test has armed is meant for an epoch
        _run_on_nothing()


def _run_on_nothing() -> None:
    warm_access_methods()
    warm_texts()
    schema = Schema.of("name text, number bigint, price double, ts timestamp")
    spec = StreamSpec("warm", schema, "ts", key=("name", "number", "price"), retain=1, ordered=True)
    root = MemoryRoot()
    catalog = _published(root, spec)
    decision = Decision(
        Identity("warm", 0, ""), 0, 0, 0, catalog.file, {}, wanted={"warm": ["rows", "counts"]}
    )
    router = Router(spec, decision, catalog, root, task=0, functions={})
    rows = pa.record_batch(
        {
            "name": ["a", None, "b"],
            "number": [1, 2, None],
            "price": [1.0, None, 2.0],
            "ts": pa.array([5, None, 1], pa.timestamp("us", tz="UTC")),
        }
    )
    chunks = [*router.take(from_rows(spec, rows, origin="warm")), *router.finish()]
    step(chunks, decision, root, functions={})
    warm_reading()


def warm_reading() -> None:
    """Look up a row and a set of rows, as readers do, and unpack one as merges do."""
    ones = read_only(np.ones(1, np.uint64)), read_only(np.ones(1, np.int32))
    packed = read_only(np.array([0, 1], np.int32)), read_only(np.ones(1, np.uint8))
    unpack_places(*ones, *packed, read_only(np.zeros(1, np.int64)), 0)
    key = np.ones(1, np.uint64)
    rows = pa.table(
        {"_key": pa.array(key), "_time": [0], "n": pa.array([1], pa.int32()), "set": [b"\1"]}
    )
    root = MemoryRoot()
    pieces = write_runs(root, {"warm": rows}, epoch=0, buckets=(0, 1))
    state = StoreState(StoreSpec(rows.schema)).with_run([pieces["warm"]], 0)
    found = lookup(root, state)
    chosen = found.blocks(key)
    found.take(distinct(np.array([1, 1], np.uint64)), ("_key", "_time", "n", "set"), shift=1)
    answers = found.copied(found.spans(1), ("_key", "_time", "n", "set", EPOCH))
    ascends(answers[EPOCH].to_numpy(), answers["_time"].to_numpy())
    sets = found.columns(("_key", "_key", "n", "_time", "set"), chosen)
    members_of_keys(sets.bases, found.sizes, chosen, key, 0)


def _published(root: MemoryRoot, spec: StreamSpec) -> Catalog:
    """Register some queries, found in the different ways, over the stream."""
    registry = Registry.open(root)
    selection = select("warm", "name", where=(col("name") == "a") & (col("price") > 0))
    lifted = lift_constants(bind_selection(selection, spec.schema, {}))
    answer = pa.schema([("name", pa.string())])
    feed = FeedSpec("warm", "warm", answer, "shared", keep=0, retain=1, policy="lazy")
    family = Family("warm", lifted.selection, tuple(lifted.types))
    names = [f"{number}" for number in range(20)]
    rows = pa.record_batch({"p0": names, "p1": pa.array(range(20), pa.int64())})
    registry.record(
        [
            {"do": "add stream", "stream": spec.to_json()},
            {"do": "add feed", "feed": feed.to_json()},
            {"do": "add queries", "family": family.to_json(), "n_rows": 20, "rows": 0},
        ],
        [rows],
    )
    return registry.publish({})
