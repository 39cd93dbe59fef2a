"""Refusals are the errors that the same call raises in the process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.client.faults import refusal
from millrace.client.reply import Received, Reply
from millrace.client.request import Request
from millrace.errors import (
    AccessError,
    ExceededError,
    LostAnswersError,
    MillraceError,
    NameTakenError,
    PlanError,
    UnknownNameError,
    UnreachableError,
)
from millrace.lang.errors import LanguageError


def refused(status: int, text: str = "", **error: Any) -> MillraceError:
    body = Received(json.dumps({"error": error}).encode())
    return refusal(Reply(status, {}, body), Request("POST", "/v1/sql", text=text))


@pytest.mark.parametrize("kind", [PlanError, UnknownNameError, NameTakenError])
def test_the_code_says_the_class(kind: type[MillraceError]) -> None:
    error = refused(422, code=kind.code, message="no", detail="Because.", hint="Do.")

    assert type(error) is kind
    assert (error.message, error.detail, error.hint) == ("no", "Because.", "Do.")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("unauthorized", AccessError),
        ("forbidden", AccessError),
        ("rate", ExceededError),
        ("limit", ExceededError),
        ("too_large", ExceededError),
        ("unavailable", UnreachableError),
    ],
)
def test_codes_of_servers_have_classes_too(code: str, kind: type[MillraceError]) -> None:
    error = refused(400, code=code, message="no")

    assert type(error) is kind
    assert error.code == code


def test_a_place_is_shown_under_the_text() -> None:
    text = "SELECT symbol,\n  prise FROM trades"
    error = refused(
        400,
        text,
        code="CQL010",
        message='column "prise" does not exist',
        position={"line": 2, "column": 3},
        hint='Did you mean "price"?',
    )

    assert isinstance(error, LanguageError)
    assert (error.code, error.line, error.column) == ("CQL010", 2, 3)
    assert str(error) == (
        'column "prise" does not exist\n'
        "  2 |   prise FROM trades\n"
        "    |   ^^^^^\n"
        '  hint: Did you mean "price"?'
    )


def test_an_error_of_another_kind_shows_its_place_too() -> None:
    error = refused(409, "DROP QUERY big", code="plan", message="in use",
                    position={"line": 1, "column": 12})  # fmt: skip

    assert type(error) is PlanError
    assert "|            ^^^" in str(error)


@pytest.mark.parametrize("position", [None, {"line": 9, "column": 1}, {"line": 1, "column": 99}])
def test_a_place_that_is_not_in_the_text_does_no_harm(position: object) -> None:
    assert refused(400, "x", code="plan", message="no", position=position).message == "no"


def test_answers_that_are_gone_say_where_to_go_on() -> None:
    error = refused(410, code="store", message="gone", cursor="c-17")

    assert isinstance(error, LostAnswersError)
    assert error.oldest == "c-17"


@pytest.mark.parametrize("body", [b"", b"<html>502</html>", b"[]", b'{"error": "x"}'])
def test_what_a_proxy_says_is_an_error_as_well(body: bytes) -> None:
    error = refusal(Reply(502, {}, Received(body)), Request("GET", "/"))

    assert error.message == "the server answered 502"


def test_a_code_that_is_not_known_is_kept() -> None:
    error = refused(418, code="teapot", message="short and stout")

    assert type(error) is MillraceError
    assert error.code == "teapot"
