"""A demo lets in who is on this machine, and no page from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from millrace.server.local_only import refusal
from millrace.testing.serving import Served

ALL = "SELECT symbol FROM trades"


def test_a_demo_is_not_for_pages_from_elsewhere(served: Served) -> None:
    there = f"127.0.0.1:{served.port}"

    statuses = {
        (host, origin): served.get(
            "/v1/queries", headers={"host": host, **({"origin": origin} if origin else {})}
        ).status_code
        for host in (there, f"localhost:{served.port}", "evil.example", f"evil.example:{there}")
        for origin in ("", f"http://{there}", "http://evil.example", "null")
    }

    assert {key for key, status in statuses.items() if status == 200} == {
        (there, ""),
        (there, f"http://{there}"),
        (f"localhost:{served.port}", ""),
    }
    assert set(statuses.values()) == {200, 403}
    refused = served.get("/v1/queries", headers={"origin": "http://evil.example"})
    assert refused.json()["error"]["message"] == (
        'a demo is not for pages of "http://evil.example"'
    )


def test_a_demos_web_socket_is_not_for_pages_from_elsewhere(served: Served) -> None:
    served.post("/v1/queries", json={"sql": ALL, "name": "all_of_it"})
    address = f"ws://127.0.0.1:{served.port}/v1/queries/all_of_it/live"

    with (
        pytest.raises(InvalidStatus, match="403"),
        connect(address, origin=Origin("http://evil.example")),
    ):
        pass
    with connect(address):
        pass


def test_a_server_with_tokens_is_for_any_page_that_has_one(tmp_path: Path) -> None:
    with Served(tmp_path / "root", demo=False) as served:
        text, _ = served.tokens.add("reader")
        answer = served.get("/v1/queries", text, headers={"origin": "http://elsewhere.example"})

    assert answer.status_code == 200


@pytest.mark.parametrize("host", ["", "[::1", "0.0.0.0:1", "127.0.0.1.evil.example", "a:b:c"])
def test_what_is_not_this_machine_is_refused(host: str) -> None:
    error = refusal(host, None)

    assert error is not None
    assert error.message == f'a demo is not served as "{host}"'


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.2:1", "[::1]:8642"])
def test_this_machine_has_several_names(host: str) -> None:
    assert refusal(host, None) is None
    assert refusal(host, f"http://{host}") is None
