"""The way in: who has no token stays outside, and nobody is led elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from millrace.server.console.asked import Asked
from millrace.server.console.frame import COOKIE, Console
from millrace.server.console.login import add_login


@dataclass(frozen=True)
class Somebody:
    name: str = "ada"
    role: str = "reader"
    tenant: str = "acme"


class OneToken:
    async def who(self, token: str) -> Somebody | None:
        return Somebody() if token == "right" else None


@pytest.fixture
def client() -> TestClient:
    app = FastAPI()
    add_login(app, Console(cast(Asked, OneToken()), "/console", secure=True))
    return TestClient(app, base_url="https://testserver")


def sent(client: TestClient, token: str, place: str = "") -> Any:
    data = {"token": token, "next": place}
    return client.post("/console/login", data=data, follow_redirects=False)


def test_a_token_that_is_known_becomes_a_cookie_that_scripts_cannot_read(
    client: TestClient,
) -> None:
    answer = sent(client, "right", "/console/plan")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/console/plan"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" in cookie


def test_a_token_that_is_not_known_is_refused(client: TestClient) -> None:
    answer = sent(client, "wrong")

    assert answer.status_code == 401
    assert "this token is not known" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "place",
    [
        "https://elsewhere.example/",
        "//elsewhere.example",
        "/console//elsewhere.example",
        "/console/\\elsewhere.example",
        "/v1/queries",
        "javascript:alert(1)",
        "",
    ],
)
def test_nobody_is_led_elsewhere(client: TestClient, place: str) -> None:
    assert sent(client, "right", place).headers["location"] == "/console/"


def test_the_place_to_go_to_is_escaped(client: TestClient) -> None:
    page = client.get("/console/login", params={"next": '/console/"><script>alert(1)</script>'})

    assert "<script>alert(1)" not in page.text


def test_to_log_out_forgets_the_cookie(client: TestClient) -> None:
    sent(client, "right")

    client.post("/console/logout", follow_redirects=False)

    assert COOKIE not in client.cookies
