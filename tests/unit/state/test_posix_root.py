"""The POSIX root where a file system can fail it."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from millrace.errors import StoreError, StoreFullError
from millrace.state.posix_root import PosixRoot


def everything(root: PosixRoot) -> list[str]:
    return sorted(path.name for path in root.path.rglob("*") if path.is_file())


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_leaves_nothing_behind(
    posix: PosixRoot, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "write", full)
    for put in (posix.put, posix.put_if_absent):
        with pytest.raises(StoreFullError, match='no room is left for file "runs/a"') as caught:
            put("runs/a", b"seven b")
        assert "7 bytes" in caught.value.detail
        assert isinstance(caught.value.__cause__, OSError)

    assert everything(posix) == []


def test_a_failing_sync_is_an_error_and_creates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = PosixRoot(tmp_path / "root")
    root.put("runs/a", b"")

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(StoreError, match='writing file "runs/b"') as caught:
        root.put_if_absent("runs/b", b"x")

    assert not isinstance(caught.value, StoreFullError)
    assert everything(root) == ["a"]


def test_a_file_is_synced_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = PosixRoot(tmp_path / "root")
    root.put("runs/first", b"")
    steps: list[str] = []

    def recorded(step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: object) -> object:
            steps.append(step)
            return real(*arguments)

        return record

    for step in ("fsync", "link"):
        monkeypatch.setattr(os, step, recorded(step, getattr(os, step)))

    root.put_if_absent("runs/a", b"x")

    assert steps == ["fsync", "link", "fsync"]


def test_temporary_files_are_never_listed_and_are_swept_when_old(posix: PosixRoot) -> None:
    posix.put("runs/a", b"x")
    left_over = posix.path / "runs" / ".tmp-1-abc"
    left_over.write_bytes(b"torn")

    assert [entry.name for entry in posix.list("")] == ["runs/a"]
    assert posix.sweep(time.time() - 3600) == []
    assert [entry.name for entry in posix.sweep(time.time() + 1)] == ["runs/.tmp-1-abc"]
    assert everything(posix) == ["a"]


def test_a_directory_in_the_way_is_told(posix: PosixRoot) -> None:
    posix.put("runs/a", b"x")

    with pytest.raises(StoreError, match='writing file "runs"'):
        posix.put("runs", b"y")


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[PosixRoot]:
    """A real file system of 64 kB, where the machine lets us mount one."""
    place = tmp_path / "tiny"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    yield PosixRoot(place)
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_is_really_full(tiny: PosixRoot) -> None:
    tiny.put("runs/a", bytes(10_000))

    with pytest.raises(StoreFullError, match="no room is left"):
        tiny.put_if_absent("runs/b", bytes(100_000))

    assert everything(tiny) == ["a"]
    assert tiny.put_if_absent("runs/b", bytes(10_000))
