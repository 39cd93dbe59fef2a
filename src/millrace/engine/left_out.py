"""Left out: queries of a family that have failed, and that its plan goes on without.

An error stays with its query. If the plan of a family fails, the shard runs the same slab for some
of the queries only, until it is known with whom it fails (`culprits`); what these runs make is
thrown away. The epoch is then run again without the guilty ones, as it is without any query that
fails: they are suspended, the plan lets go of them where the slab begins, as if they were dropped,
and the others answer as if they had never been there.

The table of queries still has a row for each that is suspended. Which of its rows a plan does not
hold is known of its births (`Births.out`). A query that is resumed begins anew, so before the next
epoch its row goes and comes again, with another change (`returning`).

Cost: one culprit among n queries takes about 2 log2(n) runs of the slab, n culprits 3 n.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from millrace.engine import facts
from millrace.engine.births import Births
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.query_rows import BORN, queries_spec
from millrace.engine.registry import Registry
from millrace.engine.supervise import ExecutionError, find_culprits
from millrace.engine.tables import COPIES, TableFile, consolidated, read_changes
from millrace.engine.tally import Failure
from millrace.plan.levels import QUERY
from millrace.state.manifest import Manifest
from millrace.state.root import Root

MOST_PROBED = 4_096
"""Of more queries than that, some are tried together and are guilty together."""


def left_out(
    births: Births,
    queries: Collection[int],
    root: Root,
    files: Sequence[TableFile],
    types: Sequence[pa.DataType],
) -> Births:
    """Return the births of a family without some of its queries, and those left out before."""
    if not queries and not births.out:
        return births
    rows = consolidated(read_changes(root, queries_spec("queries", types), files, None))
    ids, born = rows.column(QUERY).to_numpy(), rows.column(BORN).to_numpy()
    out = np.isin(ids, np.array([*queries], np.int64))
    known = set(births.out)
    out |= np.array([each in known for each in zip(ids.tolist(), born.tolist(), strict=True)], bool)
    leaving = tuple(zip(ids[out].tolist(), born[out].tolist(), strict=True))
    return replace(births.after(np.unique(born[~out]).tolist(), None, None), leaving=leaving)


def without_failed(decision: Decision, root: Root, catalog: Catalog) -> Decision:
    """Return a decision by which plans of families run without queries that are suspended.

    A family of which nobody is left does not run, and begins anew with whoever is resumed.
    """
    births, plans, suspended = dict(decision.births), dict(decision.plans), {*decision.suspended}
    for name, spelt in decision.births.items():
        feed = catalog.feeds[name]
        if feed.kind != "family" or feed.plan is None:
            continue
        members, before = catalog.members(name).keys(), Births.from_json(spelt)
        if members <= suspended:
            del births[name], plans[name]
            continue
        files, types = catalog.table_files[name], feed.plan.parameter_types
        after = left_out(before, members & suspended, root, files, types)
        births[name] = after.to_json()
    return replace(decision, births=births, plans=plans)


def culprits(
    queries: Collection[int], fails: Callable[[Collection[int]], Exception | None], cause: Exception
) -> list[Failure]:
    """Return how queries of a family fail; `fails` says how its plan does with only some of them.

    If it fails without any of them, or with none alone, all are to blame.
    """
    size = -(-len(queries) // MOST_PROBED)
    ordered = sorted(queries)
    parts = tuple(tuple(ordered[at : at + size]) for at in range(0, len(ordered), size or 1))

    def probe(some: tuple[tuple[int, ...], ...]) -> ExecutionError | None:
        error = fails([each for part in some for each in part])
        return None if error is None else ExecutionError(str(error), signature=code_of(error))

    everybody = ExecutionError(str(cause), signature=code_of(cause))
    guilty = find_culprits(parts, probe) or dict.fromkeys(parts, everybody)
    return [
        Failure(each, None, error.signature, error.message)
        for part, error in guilty.items()
        for each in part
    ]


def code_of(error: Exception) -> str:
    """Return the code of an error of ours, or the name of another one."""
    return str(getattr(error, "code", type(error).__name__))


def returning(
    registry: Registry, manifest: Manifest
) -> tuple[list[dict[str, Any]], list[pa.RecordBatch]]:
    """Return the changes by which queries begin anew that were left out and have been resumed."""
    catalog, generations = registry.catalog, registry.population.generations
    changes: list[dict[str, Any]] = []
    tables: list[pa.RecordBatch] = []
    for name, spelt in facts.births(manifest, catalog).items():
        out = set(Births.from_json(spelt).out)
        resumed = {qid for qid, _ in out} - facts.suspended(manifest, generations).keys()
        if resumed and name in catalog.feeds:
            rows = registry.member_rows(name)
            pairs = zip(*(rows.column(each).to_pylist() for each in (QUERY, BORN)), strict=True)
            back = [qid in resumed and (qid, born) in out for qid, born in pairs]
            if any(back):
                come = rows.filter(pa.array(back)).drop_columns([BORN, COPIES]).combine_chunks()
                changes.append({"do": "renew queries", "name": name, "rows": len(tables)})
                tables += come.to_batches()
    return changes, tables
