"""Bodies: of whom any is read at all, and how large it may be."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.server.limits import Limits
from millrace.testing.serving import STREAM, Served

MEGABYTE = 1 << 20


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("door") / "root", demo=False) as served:
        served.sql(STREAM, served.tokens.add("admin")[0])
        yield served


def answer_to_head(served: Served, path: str, n_bytes: int, token: str = "") -> str:
    """Return what is answered to a request of which only the head is sent."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json",
            f"Content-Length: {n_bytes}"]  # fmt: skip
    head += [f"Authorization: Bearer {token}"] if token else []
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        return connection.recv(1_000).decode().splitlines()[0]


@pytest.mark.parametrize(
    "path", ["/v1/sql", "/v1/queries", "/v1/queries/bulk", "/v1/tokens", "/v1/streams/trades/rows"]
)
@pytest.mark.parametrize("token", ["", "mr_wrong"])
def test_of_who_has_no_good_token_no_body_is_read(closed: Served, path: str, token: str) -> None:
    assert " 401 " in answer_to_head(closed, path, 5 * MEGABYTE, token)


def test_a_token_is_counted_once_a_request(closed: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    gate = closed.app.state.gate
    token, made = closed.tokens.add("reader", "counted")
    take = gate._rates.take

    def watched(name: str, *more: float) -> None:
        taken.append(name)
        take(name, *more)

    monkeypatch.setattr(gate._rates, "take", watched)
    assert closed.get("/v1/queries", token).status_code == 200

    assert taken == [made.id]


def test_only_rows_and_bulks_may_be_very_large(closed: Served) -> None:
    token = closed.tokens.add("admin")[0]
    rows = b" " * (11 * MEGABYTE) + b"[]"

    statement = answer_to_head(closed, "/v1/sql", 11 * MEGABYTE, token)
    pushed = closed.post("/v1/streams/trades/rows", token, content=rows)
    bulk = closed.post("/v1/queries/bulk", token, content=rows)

    assert " 413 " in statement
    assert pushed.status_code == 200
    assert bulk.status_code == 422


def test_a_body_that_does_not_say_its_length_is_too_large_all_the_same(tmp_path: Path) -> None:
    with Served(tmp_path / "root", limits=Limits(body_bytes=10_000)) as served:
        parts = iter([b'{"sql": "' + b" " * 6_000, b" " * 6_000 + b'"}'])

        answer = served.client.post(
            "/v1/sql", content=parts, headers={"content-type": "application/json"}
        )

    assert answer.status_code == 413
    assert answer.json()["error"]["message"].startswith("refused: limit 10000 bytes a body, now 1")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/queries/bulk", "pause"),
        ("/v1/queries/bulk", "resume"),
        ("/v1/queries/bulk", "drop"),
        ("/v1/queries/bulk", "add"),
        ("/v1/templates/none/drop", "ids"),
    ],
)
def test_a_request_names_no_more_queries_than_a_hundred_thousand(
    closed: Served, path: str, name: str
) -> None:
    token = closed.tokens.add("admin")[0]
    one = {"sql": ""} if name == "add" else 1

    answer = closed.post(path, token, json={name: [one] * 100_001})

    assert answer.status_code == 422, answer.text[:300]
    assert "at most 100000 items" in answer.json()["error"]["detail"]
