"""The run store: the current manifest, and the four things an engine does with it.

    open      the newest readable snapshot and the commits after it
    commit    one exclusive creation of `commits/<epoch>`; small runs travel inside it
    snapshot  the whole manifest, every 64 epochs
    collect   delete what no kept manifest names

Cost: a commit is one file and two syncs; opening does not depend on the number of rows.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Self

import pyarrow as pa

from millrace.errors import CorruptionError
from millrace.state.container import Container, pack
from millrace.state.fence import Fence
from millrace.state.garbage import Collected, collect
from millrace.state.lease import held
from millrace.state.log import Log
from millrace.state.manifest import Delta, Manifest, apply, commit_name
from millrace.state.names import SNAPSHOTS, numbered
from millrace.state.root import Root
from millrace.state.run import pack_runs

TEMPORARY_SECONDS = 3_600.0


class RunStore:
    """What is committed in a root, for the one engine that may commit."""

    def __init__(self, root: Root, fence: Fence, manifest: Manifest) -> None:
        self.root = root
        self.fence = fence
        self.manifest = manifest
        self._log = manifest_log(root)
        self._snapshots: dict[int, Manifest] = {}

    @classmethod
    def open(cls, root: Root, fence: Fence) -> Self:
        """Load the newest manifest of `root`."""
        return cls(root, fence, load_manifest(root))

    def commit(self, delta: Delta, inline_runs: Mapping[str, pa.Table] | None = None) -> Manifest:
        """Make `delta` durable and give the manifest after it.

        Parameters
        ----------
        inline_runs
            Small runs to store in the commit file. Pieces of `delta` name them as
            `pieces_of(commit_name(delta.epoch), inline_runs)` describes them.

        Raises
        ------
        FencedError
            A newer engine has taken the root, or has committed this epoch. Nothing changed.
        """
        assert delta.term == self.fence.term, "a commit carries the term of its engine"
        manifest = apply(self.manifest, delta)
        self.fence.check()
        self._log.append(delta.epoch, pack_runs(inline_runs or {}, delta.to_json()))
        self.manifest = manifest
        return manifest

    def snapshot_if_due(self) -> bool:
        """Write the whole manifest if 64 epochs have passed since the last time."""
        due = self.manifest.epoch >= 0 and self._log.due(self.manifest.epoch)
        if due:
            self.fence.check()
            self._log.snapshot(self.manifest.epoch, pack(self.manifest.to_json(), ()))
        return due

    def collect_garbage(
        self, *, now: float | None = None, temporary_seconds: float = TEMPORARY_SECONDS
    ) -> Collected:
        """Delete the files that neither a kept manifest nor a reader needs."""
        self.fence.check()
        now = time.time() if now is None else now
        leases = held(self.root, now)
        return collect(
            self.root,
            keep=[self.manifest, *self._kept()],
            temporary_before=now - temporary_seconds,
            outdated=self._log.outdated(),
            oldest_lease_epoch=min((lease.epoch for lease in leases), default=None),
        )

    def _kept(self) -> list[Manifest]:
        """Load the kept snapshots, each once; a damaged one names nothing."""
        numbers, known = self._log.kept_snapshots(), self._snapshots
        self._snapshots = {each: known[each] for each in numbers if each in known}
        for number in numbers:
            if number not in known:
                with contextlib.suppress(CorruptionError):
                    container = Container.open(self.root, numbered(SNAPSHOTS, number))
                    self._snapshots[number] = _restore(container)
        return [*self._snapshots.values()]


def load_manifest(root: Root) -> Manifest:
    """Give the newest manifest of a root, as an engine or a reader with a lease finds it."""
    return manifest_log(root).load()[1]


def manifest_log(root: Root) -> Log[Manifest]:
    """Give the log of manifests of a root."""
    return Log(root, Manifest(), _restore, _fold)


def read_delta(root: Root, epoch: int) -> Delta:
    """Give what the commit of `epoch` changed, if its file is still kept."""
    return _delta(Container.open(root, commit_name(epoch)))


def _restore(snapshot: Container) -> Manifest:
    return Manifest.from_json(snapshot.meta)


def _fold(manifest: Manifest, commit: Container) -> Manifest:
    return apply(manifest, _delta(commit))


def _delta(commit: Container) -> Delta:
    return Delta.from_json(commit.meta["meta"])
