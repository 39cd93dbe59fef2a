"""The console beside the demonstration: there before any engine is, and gone at the end."""

from __future__ import annotations

import time
from pathlib import Path

import httpx
import pytest

from millrace.cli.demo import gateway
from millrace.cli.demo.gateway import open_gateway


def answer(address: str) -> httpx.Response:
    for _ in range(600):
        try:
            return httpx.get(f"{address}/console/", timeout=30)
        except httpx.TransportError:
            time.sleep(0.1)
    message = f"nothing answers at {address}"
    raise TimeoutError(message)


def test_the_console_is_served_without_an_engine_until_it_is_closed(tmp_path: Path) -> None:
    opened = open_gateway(tmp_path)
    assert opened is not None

    try:
        page = answer(opened.address)
    finally:
        opened.close()

    assert opened.address.startswith("http://127.0.0.1:")
    assert page.status_code == 200
    assert "millrace" in page.text
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{opened.address}/console/")


def test_without_the_packages_of_the_server_there_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "NEEDED", ("no_such_package",))

    assert open_gateway(tmp_path) is None
