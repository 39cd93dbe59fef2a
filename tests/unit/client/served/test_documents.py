"""The samples of the documents, run against a server."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

import millrace
from millrace.testing.server_process import ServerProcess

ROOT = Path(__file__).parents[4]


def samples(page: str) -> list[str]:
    text = (ROOT / page).read_text()
    return [
        each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "connect" in each
    ]


@pytest.fixture
def trades(server: ServerProcess) -> None:
    """The stream that samples speak of, with a row."""
    with millrace.connect(server.url) as client:
        client.stream(
            "trades", "symbol text, price double, ts timestamp", time="ts", retain="1 hour"
        )


@pytest.mark.parametrize(
    "sample",
    [*samples("docs/client.md"), *samples("README.md")],
    ids=["blocking", "asyncio", "readme"],
)
def test_a_sample_runs(
    server: ServerProcess, trades: None, sample: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = sample.replace("http://localhost:8642", server.url)
    runs = runs.replace('token="..."', "token=None").replace("changes()", "changes(timeout=2)")
    names: dict[str, object] = {"millrace": millrace}

    exec(compile(runs, "sample", "exec"), names)
    if "client.push" in sample:
        ends = time.monotonic() + 10
        with millrace.connect(server.url) as client:
            while not client.sql("SELECT * FROM big").rows() and time.monotonic() < ends:
                time.sleep(0.05)
            assert client.sql("SELECT symbol FROM big").rows() == [{"symbol": "ACME"}]

    made = names.get("client")
    if isinstance(made, millrace.Client):
        made.close()
    capsys.readouterr()


def test_every_call_of_a_client_is_in_the_document() -> None:
    text = (ROOT / "docs/client.md").read_text()
    calls = [name for name in dir(millrace.Client) if not name.startswith("_") and name != "url"]

    assert [name for name in calls if not re.search(rf"`[^`]*\b{name}\b", text)] == []
