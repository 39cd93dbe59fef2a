"""What the shell offers to go on with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from millrace.cli.shell.completion import ShellCompleter
from millrace.cli.shell.names import Known, Names
from millrace.client.blocking import Wire
from millrace.client.client import Client
from millrace.client.patience import Patience

STREAMS = [
    {"name": "trades", "columns": [{"name": "symbol", "type": "text"}, {"name": "price"}]},
    {"name": "my quotes", "columns": [{"name": "bid"}, {"name": "symbol"}]},
    {"name": "third", "columns": [{"name": "order"}]},
]


def answer(request: httpx.Request) -> httpx.Response:
    what = request.url.path.rpartition("/")[2]
    if what == "queries":
        part = request.url.params.get("search", "")
        named = [each for each in ("big", "bigger", "small") if part in each]
        return httpx.Response(200, json={"queries": [{"name": each} for each in named]})
    listed: dict[str, list[dict[str, Any]]] = {
        "streams": STREAMS,
        "tables": [{"name": "limits", "columns": [{"name": "most"}]}],
        "templates": [{"name": "alert"}],
    }
    return httpx.Response(200, json={what: listed[what]})


@pytest.fixture(scope="module")
def completer() -> Iterator[ShellCompleter]:
    wire = Wire("http://mill.test", None, timeout=5, patience=Patience(attempts=1),
                transport=httpx.MockTransport(answer))  # fmt: skip
    with Client(wire) as client:
        names = Names(client)
        names._again.set()
        names._ask()
        assert names.known != Known()
        yield ShellCompleter(names)


def offered(completer: ShellCompleter, text: str) -> list[str]:
    return [each.text for each in completer.get_completions(Document(text), CompleteEvent())]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("SELECT * FROM tr", ["trades"]),
        ("select * from my", ['"my quotes"']),
        ('SELECT * FROM "my', ['"my quotes"']),
        ("SELECT * FROM bi", ["big", "bigger"]),
        ("SUBSCRIBE sm", ["small"]),
        ("INSERT INTO ", ["limits", "alert"]),
        ("SELECT pri", ["price"]),
        ("SELECT symbol FROM trades WHERE ", ["symbol", "price"]),
        ("SELECT ord", ['"order"']),
        ("SELECT * FROM trades [RA", ["RANGE"]),
        ("SELECT * FROM trades [range 5 mi", ["microsecond"]),
        ("\\wat", ["watch"]),
        ("\\d tr", ["trades"]),
        ("\\dq bigg", ["bigger"]),
        ("CRE", ["CREATE"]),
        ("cre", ["create"]),
    ],
)
def test_what_is_offered_first(completer: ShellCompleter, text: str, first: list[str]) -> None:
    assert offered(completer, text)[: len(first)] == first


def test_functions_are_offered_behind_columns(completer: ShellCompleter) -> None:
    assert "substring" in offered(completer, "SELECT su")
    assert offered(completer, "SELECT * FROM trades WHERE s")[0] == "symbol"


def test_a_server_that_is_away_is_no_completion() -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    wire = Wire("http://mill.test", None, timeout=5, patience=Patience(attempts=1),
                transport=httpx.MockTransport(away))  # fmt: skip
    with Client(wire) as client:
        names = Names(client)
        names._again.set()
        names._ask()

        assert offered(ShellCompleter(names), "SELECT * FROM b") == []
