"""The way in: who has no token stays outside, and nobody is led elsewhere."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest
from fastapi import FastAPI

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


class Client:
    """Makes requests of the way in, each with what cookies there are."""

    def __init__(self) -> None:
        self.app, self.cookies = FastAPI(), httpx.Cookies()
        add_login(self.app, Console(cast(Asked, OneToken()), "/console", secure=True))

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def made() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url="https://testserver", cookies=self.cookies
            ) as client:
                answer = await client.request(method, f"/console{path}", **more)
                self.cookies = client.cookies
                return answer

        return asyncio.run(made())


@pytest.fixture
def client() -> Client:
    return Client()


def sent(client: Client, token: str, place: str = "") -> httpx.Response:
    return client.request("POST", "/login", data={"token": token, "next": place})


def test_a_token_that_is_known_becomes_a_cookie_that_scripts_cannot_read(
    client: Client,
) -> None:
    answer = sent(client, "right", "/console/plan")

    assert answer.status_code == 303
    assert answer.headers["location"] == "/console/plan"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" in cookie


def test_a_token_that_is_not_known_is_refused(client: Client) -> None:
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
def test_nobody_is_led_elsewhere(client: Client, place: str) -> None:
    assert sent(client, "right", place).headers["location"] == "/console/"


def test_the_place_to_go_to_is_escaped(client: Client) -> None:
    hostile = '/console/"><script>alert(1)</script>'
    page = client.request("GET", "/login", params={"next": hostile})

    assert "<script>alert(1)" not in page.text


def test_to_log_out_forgets_the_cookie(client: Client) -> None:
    sent(client, "right")

    client.request("POST", "/logout")

    assert COOKIE not in client.cookies
