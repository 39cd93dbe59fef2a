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

import pyarrow as pa

from millrace.engine import facts
from millrace.engine.births import Births
from millrace.engine.catalog import Catalog
from millrace.engine.decision import Decision
from millrace.engine.query_rows import BORN, comings, queries_spec
from millrace.engine.registry import Registry
from millrace.engine.supervise import ExecutionError, find_culprits
from millrace.engine.tables import COPIES, TableFile, consolidated, read_changes
from millrace.engine.tally import Failure
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
    known, failed = {*births.out}, {*queries}
    standing = [*comings(rows)]
    leaving = tuple(each for each in standing if each[0] in failed or each in known)
    held = sorted({born for _, born in {*standing} - {*leaving}})
    return replace(births.after(held, None, None), leaving=leaving)


def without_failed(decision: Decision, root: Root, catalog: Catalog) -> Decision:
    """Return a decision by which plans of families run without queries that are suspended.

    A family of which nobody is left does not run, and begins anew with whoever is resumed.
    """
    births, plans = dict(decision.births), dict(decision.plans)
    failed = _failed(catalog, {*decision.suspended})
    for name, spelt in decision.births.items():
        feed = catalog.feeds[name]
        if feed.plan is None or not (name in failed or spelt.get("out")):
            continue
        mine = failed.get(name, set())
        if mine and mine == catalog.members(name).keys():
            del births[name], plans[name]
            continue
        files, types = catalog.table_files[name], feed.plan.parameter_types
        births[name] = left_out(Births.from_json(spelt), mine, root, files, types).to_json()
    return replace(decision, births=births, plans=plans)


def _failed(catalog: Catalog, suspended: Collection[int]) -> dict[str, set[int]]:
    """Return the queries of families that are suspended; most of the time nobody is."""
    found: dict[str, set[int]] = {}
    for each in catalog.feeds.values() if suspended else ():
        if each.member is not None and each.member in suspended:
            found.setdefault(each.family, set()).add(each.member)
    return found


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
        out = {*map(tuple, spelt.get("out", ()))}
        if not out:
            continue
        resumed = {qid for qid, _ in out} - facts.suspended(manifest, generations).keys()
        if resumed and name in catalog.feeds:
            rows = registry.member_rows(name)
            back = [each[0] in resumed and each in out for each in comings(rows)]
            if any(back):
                come = rows.filter(pa.array(back)).drop_columns([BORN, COPIES]).combine_chunks()
                changes.append({"do": "renew queries", "name": name, "rows": len(tables)})
                tables += come.to_batches()
    return changes, tables
