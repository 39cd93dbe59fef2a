"""Questions of pages: in threads of their own, and no faster than a token may ask."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from millrace.server.console import served as module
from millrace.server.console.served import Served as Console
from millrace.server.quotas import Quota, RateError
from millrace.testing.serving import Served

TEXT = "SELECT name FROM sysstream"


def test_a_page_asks_beside_requests_and_at_the_rate_of_its_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    answered = module._answered

    def watched(*asked: Any) -> Any:
        threads.append(threading.current_thread().name)
        return answered(*asked)

    monkeypatch.setattr(module, "_answered", watched)
    with Served(tmp_path / "root", demo=False) as served:
        served.tokens.limit("hasty", Quota(requests_per_second=1))
        token = served.tokens.add("reader", "hasty")[0]
        console = Console(served.service, served.app.state.gate, served.app.state.measured)

        async def ask_often() -> None:
            who = await console.who(token)
            assert who is not None
            for _ in range(40):
                await console.sql(who, TEXT)

        with pytest.raises(RateError):
            asyncio.run(ask_often())

    assert threads
    assert all(name.startswith("millrace-console") for name in threads)
