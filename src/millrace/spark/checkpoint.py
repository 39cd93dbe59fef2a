"""Spark's checkpoint, which lives inside the root: identities of epochs, and its repair.

Spark writes its offset log without syncing it to disk. Our own log of decisions is synced and
holds a copy of each epoch's offsets; so what a power cut took from Spark's log is put back
before the query starts, and an epoch that was decided is the same epoch after it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote

from millrace.engine.decision import Decision, Identity
from millrace.engine.epoch import Engine
from millrace.engine.inprocess import QUERY as IN_PROCESS
from millrace.errors import IdentityError
from millrace.spark.control import SOURCE_NAME as CONTROL
from millrace.state.manifest import Manifest
from millrace.state.root import Root

DIRECTORY = "checkpoint"


class Checkpoint:
    """The directory in which Spark keeps its logs for our query."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self.path = Path(unquote(root.uri.removeprefix("file://"))) / DIRECTORY

    def identity(self, epoch: int) -> Identity:
        """Return which input Spark has chosen for an epoch; its file exists when we are called."""
        offsets = (self.path / "offsets" / str(epoch)).read_text()
        digest = hashlib.sha256(offsets.encode()).hexdigest()
        return Identity(self.query_id(), epoch, digest, offsets)

    def quiet(self, identity: Identity) -> bool:
        """Say whether an epoch has no rows: no source but the control source has moved."""
        before = self.path / "offsets" / str(identity.epoch - 1)
        try:
            return _positions(before.read_text()) == _positions(identity.offsets)
        except FileNotFoundError:
            return False

    def splits(self, epoch: int, names: Collection[str]) -> dict[str, int]:
        """Return up to which split some sources of files are read when an epoch is done.

        A source that is new is not among them, and none is before the first epoch.
        """
        if epoch < 0:
            return {}
        lines = _positions((self.path / "offsets" / str(epoch)).read_text())
        named = (line.partition(":") for line in lines)
        return {name: json.loads(spelt)["splits"] for name, _, spelt in named if name in names}

    def query_id(self) -> str:
        """Return Spark's id of the query, which is new if the checkpoint is."""
        return str(json.loads((self.path / "metadata").read_text())["id"])

    def make_fit(self, engine: Engine) -> None:
        """Repair the checkpoint; refuse to start if it does not fit the root's history."""
        manifest = engine.manifest
        known = manifest.facts.get("query")
        ours = known not in (None, IN_PROCESS)
        if ours and not (self.path / "metadata").exists():
            raise IdentityError(
                "Spark's checkpoint is missing from the root",
                detail=f"The root has {manifest.epoch + 1} epochs of query {known}; without the "
                "checkpoint Spark would number new input as old, and it would be skipped.",
                hint=f'Restore "{self.path}" from a copy taken with the root, or start over with '
                "an empty root.",
            )
        self.repair(manifest)
        if ours:
            engine.committed(self.identity(manifest.epoch))

    def repair(self, manifest: Manifest) -> list[int]:
        """Put back what a power cut took from Spark's logs; return the epochs put back.

        Offsets that were decided upon are in our own log. A commit of Spark's that is empty is
        removed: Spark then calls that epoch again, and it is known to be committed.
        """
        if not self.path.exists():
            return []
        for path in (self.path / "commits").glob("[0-9]*"):
            if path.stat().st_size == 0:
                _remove(path)
        newest = {each.identity.epoch: each.identity for each in self._logged()}
        repaired = []
        for epoch, identity in newest.items():
            self._restore_metadata(identity.query)
            path = self.path / "offsets" / str(epoch)
            whole = path.exists() and path.stat().st_size > 0
            if epoch >= manifest.epoch - 1 and identity.offsets and not whole:
                path.parent.mkdir(parents=True, exist_ok=True)
                _remove(path)
                path.write_text(identity.offsets)
                repaired.append(epoch)
        return repaired

    def _logged(self) -> list[Decision]:
        """Return all logged decisions, for each epoch the newest attempt last."""
        found = [Decision.read(self._root, each.name) for each in self._root.list("epochs/")]
        return sorted(found, key=lambda each: (each.identity.epoch, each.attempt))

    def _restore_metadata(self, query: str) -> None:
        path = self.path / "metadata"
        if path.exists() and path.stat().st_size == 0:
            _remove(path)
            path.write_text(json.dumps({"id": query}))


def _remove(path: Path) -> None:
    """Remove a file of Spark's with its checksum."""
    path.unlink(missing_ok=True)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _positions(offsets: str) -> list[str]:
    """Return the lines of an offsets file that tell the positions of sources of rows.

    Before them stand the version and a line about the batch itself.
    """
    return [line for line in offsets.splitlines()[2:] if not line.startswith(f"{CONTROL}:")]
