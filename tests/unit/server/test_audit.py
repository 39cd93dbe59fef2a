"""The audit log: no line is lost, torn or told twice."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millrace.errors import StoreError
from millrace.server.audit import AUDIT, Audit, entries
from millrace.server.principals import Principal

WHO = Principal("acme", "writer", "t1")


def told(root: Path) -> list[str]:
    return [each["text"] for each in entries(root, tenant=None, last=100)]


@pytest.mark.parametrize("fails", ["write", "fsync"])
def test_a_line_that_could_not_be_written_comes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    audit, real = Audit(tmp_path), getattr(os, fails)
    audit.write(WHO, "add", text="first")
    failures = iter([True])

    def failing(descriptor: int, *data: bytes) -> object:
        if next(failures, False):
            if data:
                real(descriptor, data[0][:10])
            raise OSError(28, "No space left on device")
        return real(descriptor, *data)

    monkeypatch.setattr(os, fails, failing)
    with pytest.raises(StoreError, match="the audit log cannot be written"):
        audit.write(WHO, "add", text="second")
    audit.write(WHO, "add", text="third")
    audit.close()

    assert told(tmp_path) == ["first", "second", "third"]


def test_a_write_that_stops_in_the_middle_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit, real = Audit(tmp_path), os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))

    audit.write(WHO, "add", text="first")
    audit.write(WHO, "add", text="second")
    audit.close()

    assert told(tmp_path) == ["first", "second"]


def test_a_torn_last_line_is_passed_over(tmp_path: Path) -> None:
    audit = Audit(tmp_path)
    audit.write(WHO, "add", text="first")
    audit.close()
    file = tmp_path / AUDIT / "000000000000"
    file.write_bytes(file.read_bytes() + b'{"at": "2026-')
    while_torn = told(tmp_path)

    again = Audit(tmp_path)
    again.write(WHO, "add", text="second")
    again.close()

    assert while_torn == ["first"]
    assert told(tmp_path) == ["first", "second"]
