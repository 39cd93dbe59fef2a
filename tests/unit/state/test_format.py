"""Roots that earlier versions of the format wrote, and what they must still hold."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from millrace.state.fence import Fence
from millrace.state.posix_root import PosixRoot
from millrace.state.run_store import RunStore
from millrace.state.store import scan

DATA = Path(__file__).parents[2] / "data"


def plain(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)


def said(store: RunStore) -> dict[str, Any]:
    """Everything that a root says, as the JSON beside it was written."""
    manifest = store.manifest
    stores = manifest.stores.items()
    found = {
        "epoch": manifest.epoch,
        "term": manifest.term,
        "digest": manifest.digest,
        "facts": dict(manifest.facts),
        "queues": [name for name, each in stores if each.queue],
        "schemas": {name: each.schema.to_string() for name, each in stores},
        "rows": {name: scan(store.root, each).to_pylist() for name, each in stores},
    }
    document: dict[str, Any] = json.loads(json.dumps(found, default=plain))
    return document


@pytest.mark.parametrize("version", ["root-v1"])
def test_a_root_of_an_earlier_version_holds_what_it_held(version: str, tmp_path: Path) -> None:
    shutil.copytree(DATA / version, tmp_path / version)
    root = PosixRoot(tmp_path / version, durable=False)
    fence = Fence.acquire(root, who="test")

    found = said(RunStore.open(root, fence))

    assert found == json.loads((DATA / f"{version}.json").read_text())
    fence.release()


@pytest.mark.parametrize("version", ["root-v1"])
def test_it_exercises_snapshots_inline_runs_merged_files_and_queues(version: str) -> None:
    root = PosixRoot(DATA / version)

    assert root.list("snapshots/")
    assert root.list("runs/")
    assert len(root.list("commits/")) > 5
    assert json.loads((DATA / f"{version}.json").read_text())["queues"]
