"""What the operators of a plan have done, as a table whose last column is the tree of the plan.

    rows in  rows out  seconds  last in  last out  last s  state rows   state
      3,000        12    0.002    1,000         4   0.001          12  1.2 kB  aggregate by t.k
      3,000     3,000    0.000    1,000     1,000   0.000                        seq-window t [...]

An operator reads what those below it tell, and stored elements again that it does not remember;
rows are told with the interval in which they are there, and once more when that turns out to end.
It is the plan as it runs: subqueries are joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from millrace.engine.feeds import FeedSpec
from millrace.engine.flows import Flow, flow
from millrace.engine.plan_stores import state_prefix
from millrace.engine.plans import compiled
from millrace.engine.work import PlanWork
from millrace.plan.tree import branches
from millrace.session.plan_stores import held
from millrace.state.sizes import print_bytes

if TYPE_CHECKING:
    from millrace.session.session import Session

_LONGEST = 120
_HEAD = ("rows in", "rows out", "seconds", "last in", "last out", "last s", "state rows", "state")


def work_lines(session: Session, feed: FeedSpec) -> list[str]:
    """Return the table of a plan that has run; nothing if it has not."""
    work = session.engine.work.plans.get(feed.number)
    if work is None:
        return []
    rows = [(_HEAD, f"in {_epochs(work)}; the last is epoch {work.epoch}"), *_rows(session, feed)]
    widths = [max(len(cells[at]) for cells, _ in rows) for at in range(len(_HEAD))]
    return [
        "  ".join([*(each.rjust(width) for each, width in zip(cells, widths, strict=True)), line])
        for cells, line in rows
    ]


def shard_line(work: PlanWork) -> str:
    """Say how evenly the shards were at work."""
    shares = [
        f"{shard}: {done.rows:,} rows, {done.seconds:.3f} s" for shard, done in work.shards.items()
    ]
    most = max(done.rows for done in work.shards.values())
    mean = sum(done.rows for done in work.shards.values()) / len(shares)
    skew = f"; the busiest has {most / mean:.1f} times the mean" if mean else ""
    return f"{'; '.join(shares)}{skew}"


def _epochs(work: PlanWork) -> str:
    return f"{work.n_epochs:,} epoch" + ("" if work.n_epochs == 1 else "s")


def _rows(session: Session, feed: FeedSpec) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield a row for each line of the tree."""
    assert feed.plan is not None, "only a plan has operators"
    work = session.engine.work.plans[feed.number]
    names = compiled(feed, session.engine.registry.catalog).names()
    state = _state(session, feed)
    told = list(feed.plan.told)
    lines = [next(branches(each)) for each in told[:-1]]  # of the same relation as the last
    lines += branches(told[-1], again=False)
    for line, node in lines:
        if node is None or node not in names:  # as above, or part of the operator above
            yield ("",) * len(_HEAD), line
            continue
        total, last = (_spelt(flow(each, node, names)) for each in (work.total, work.last))
        shown = line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
        yield (*total, *last, *state.get(names[node], ("", ""))), shown


def _spelt(told: Flow) -> tuple[str, str, str]:
    return f"{told.read:,}", f"{told.told:,}", f"{told.seconds:.3f}"


def _state(session: Session, feed: FeedSpec) -> dict[str, tuple[str, str]]:
    """Return how many rows and bytes the stores of each operator hold."""
    plan = compiled(feed, session.engine.registry.catalog)
    sums: dict[str, tuple[int, int]] = {}
    for store in plan.stores:
        rows, size = held(session.engine.manifest, state_prefix(feed) + store)
        before = sums.get(store.partition(".")[0], (0, 0))
        sums[store.partition(".")[0]] = (before[0] + rows, before[1] + size)
    return {name: (f"{rows:,}", print_bytes(size)) for name, (rows, size) in sums.items()}
