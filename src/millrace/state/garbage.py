"""Deleting what nobody needs: files that no kept manifest names.

A file of epoch c may be deleted when all of these hold:

- no kept manifest names it;
- c is committed: a file of an epoch in flight is named by no manifest yet;
- no reader needs it. A reader with a lease on epoch n reads manifests from n on. Let m be the
  newest kept manifest that is not newer than n. A file with c <= m that m does not name was
  dropped before m, for good; a file with c > m might have come and gone since, and stays.

Cost: one listing of `runs/`, and one deletion for each file; called after each snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from millrace import failpoints
from millrace.state.manifest import Manifest
from millrace.state.names import RUNS, Entry, epoch_of
from millrace.state.root import Root
from millrace.state.run_file import forget


@dataclass(frozen=True, slots=True)
class Collected:
    """What was deleted."""

    names: tuple[str, ...]
    bytes: int


def collect(
    root: Root,
    *,
    keep: Collection[Manifest],
    temporary_before: float,
    outdated: Iterable[Entry] = (),
    oldest_lease_epoch: int | None = None,
) -> Collected:
    """Delete the run files, and those of `outdated`, that nobody needs; sweep left-overs.

    Parameters
    ----------
    keep
        The current manifest, which says what is committed, and those of kept snapshots.
    temporary_before
        Temporary files last written before this wall-clock time are left-overs.
    outdated
        Files of the log that a start needs no more; a commit among them may still be named
        for the runs that it carries.
    oldest_lease_epoch
        The least epoch that a reader has claimed; None if there is no reader.
    """
    named = frozenset().union(*(manifest.files() for manifest in keep))
    settled = _settled(keep, oldest_lease_epoch)
    runs = [entry for entry in root.list(f"{RUNS}/") if epoch_of(entry.name) is not None]
    doomed = [
        entry
        for entry in [*runs, *outdated]
        if entry.name not in named and (epoch_of(entry.name) or 0) <= settled
    ]
    failpoints.reach("collect.before")
    for entry in doomed:
        root.delete(entry.name)
        failpoints.reach("collect.between")
    doomed += root.sweep(temporary_before)
    forget(root, keep=named)
    failpoints.reach("collect.after")
    return Collected(tuple(entry.name for entry in doomed), sum(entry.size for entry in doomed))


def _settled(keep: Collection[Manifest], leased: int | None) -> int:
    """Give the last epoch whose unnamed files nobody can come to need."""
    epochs = (manifest.epoch for manifest in keep)
    return max((epoch for epoch in epochs if leased is None or epoch <= leased), default=-1)
