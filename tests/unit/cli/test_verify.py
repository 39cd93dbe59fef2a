"""`millrace verify`: a byte that is flipped anywhere is found, and its file named."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.cli.main import main
from millrace.cli.verification import LOGS
from millrace.engine.registry import Registry
from millrace.state import log
from millrace.state.root import open_root
from millrace.state.run_store import load_manifest
from millrace.testing.registering import add_stream


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_good_root_is_called_good(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["verify", str(root)])

    said = capsys.readouterr().out
    assert status == 0
    assert said.startswith("ok  ")
    assert said.endswith("every checksum is right\n")


def test_an_engine_may_be_running(running: Path) -> None:
    assert main(["verify", str(running)]) == 0


def test_every_damaged_file_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checked = [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.relative_to(root).parts[0] in {*LOGS, "runs"}
    ]
    assert len(checked) > 6

    for path in checked:
        flip(path, at=path.stat().st_size // 2)
        status = main(["verify", str(root)])
        said = capsys.readouterr().out
        flip(path, at=path.stat().st_size // 2)

        assert status == 1
        assert f'"{path.relative_to(root)}"' in said
        assert "1 problem in" in said


def test_a_missing_file_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = min(load_manifest(open_root(root)).files())
    (root / name).unlink()

    status = main(["verify", str(root)])

    assert status == 1
    assert f'file "{name}" is missing' in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["newest catalog", "registry's newest snapshot"])
def test_a_missing_file_of_queries_is_named(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind != "newest catalog":
        monkeypatch.setattr(log, "EVERY", 1)
        registry = Registry.open(open_root(root))
        for number in range(8):
            registry.record([add_stream(f"s{number}")])
            registry.publish({})
        for path in (root / "catalogs").iterdir():
            path.unlink()
    name = max((root / "queries").iterdir())
    name.unlink()

    status = main(["verify", str(root)])

    said = capsys.readouterr().out
    assert status == 1
    assert f'file "queries/{name.name}" is missing' in said
    assert f"The {kind} names it." in said


def test_a_cursor_that_is_none_is_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = max((root / "cursors" / "parquet").iterdir())
    newest.write_bytes(b'{"version": 1')

    status = main(["verify", str(root)])

    assert status == 1
    assert f'file "cursors/parquet/{newest.name}" is not a cursor' in capsys.readouterr().out
