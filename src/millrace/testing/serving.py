"""A server in this process, for tests: an engine in a thread, and a gateway's app.

with Served(tmp_path) as served:
    served.sql("CREATE STREAM …")
    served.post("/v1/streams/trades/rows", json=[…])
    served.await_epoch(lambda: served.get("/v1/queries/big/results").json()["rows"])
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import httpx
import uvicorn
from httpx import Response

from millrace.server.engine_process import run_engine
from millrace.server.gateway import make_app
from millrace.server.gateway_process import Server
from millrace.server.limits import Limits
from millrace.server.options import ServerOptions
from millrace.server.service import Service
from millrace.server.supervisor import bound
from millrace.server.tokens import Tokens
from millrace.server.wire import socket_path

PATIENCE_SECONDS = 30.0
TRIGGER = 10_000

STREAM = (
    "CREATE STREAM trades (symbol text, price double, ts timestamp) "
    "TIMESTAMP BY ts RETAIN 1 hour FROM push()"
)


class Served:
    """An engine and a gateway on one root."""

    def __init__(
        self,
        root: Path,
        *,
        limits: Limits | None = None,
        demo: bool = True,
        **options: Any,  # noqa: ANN401  those of ServerOptions
    ) -> None:
        settings = {"trigger": TRIGGER}
        self.options = ServerOptions(root, local=True, demo=demo, settings=settings, **options)
        if limits is not None:
            self.options = replace(self.options, limits=limits)
        self.root = root
        self.tokens = Tokens(self.options.token_path)
        self._stack = ExitStack()
        self._stop = threading.Event()
        self._engine: threading.Thread | None = None
        self.failure: BaseException | None = None

    def __enter__(self) -> Self:
        self.start_engine()
        self.app = make_app(
            self.root,
            token_path=self.options.token_path,
            limits=self.options.limits,
            demo=self.options.demo,
            functions=self.options.functions,
        )
        self.service: Service = self.app.state.gate.service
        self._start_gateway()
        self.client = self._stack.enter_context(httpx.Client(base_url=self.url, timeout=60.0))
        self.until(lambda: self.service.link.up)
        return self

    def _start_gateway(self) -> None:
        """Serve HTTP in a thread, on a free port."""
        listener = bound(replace(self.options, port=0))
        self.port = int(listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(self.app, log_config=None, timeout_graceful_shutdown=2)
        server = Server(config, self.service.fan_out)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        self._stack.callback(listener.close)
        self._stack.callback(thread.join)
        self._stack.callback(setattr, server, "should_exit", True)
        self.until(lambda: server.started)

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self.stop_engine()

    def start_engine(self) -> None:
        """Start the engine in a thread, and wait until it can be reached."""
        self._stop = threading.Event()
        self._engine = threading.Thread(target=self._run, name="engine", daemon=True)
        self._engine.start()
        self.until(lambda: socket_path(self.root).exists() or self.failure is not None)
        if self.failure is not None:
            raise self.failure

    def stop_engine(self) -> None:
        """Stop it in good order."""
        self._stop.set()
        if self._engine is not None:
            self._engine.join()

    def request(self, method: str, path: str, token: str = "", **more: Any) -> Response:  # noqa: ANN401  as httpx
        """Make a request, as the operator or with a token."""
        headers = {**more.pop("headers", {})}
        if token:
            headers["authorization"] = f"Bearer {token}"
        return self.client.request(method, path, headers=headers, **more)

    def get(self, path: str, token: str = "", **more: Any) -> Response:  # noqa: ANN401  as httpx
        """Get something."""
        return self.request("GET", path, token, **more)

    def post(self, path: str, token: str = "", **more: Any) -> Response:  # noqa: ANN401  as httpx
        """Post something."""
        return self.request("POST", path, token, **more)

    def sql(self, text: str, token: str = "") -> list[dict[str, Any]]:
        """Do statements, which must succeed."""
        answer = self.post("/v1/sql", token, json={"sql": text})
        assert answer.status_code == 200, answer.text
        outcomes: list[dict[str, Any]] = answer.json()["outcomes"]
        return outcomes

    def push(self, rows: list[dict[str, Any]], stream: str = "trades", token: str = "") -> Response:
        """Push rows."""
        return self.post(f"/v1/streams/{stream}/rows", token, json=rows)

    def results(self, query: str, n_rows: int, token: str = "") -> list[dict[str, Any]]:
        """Return the answers of a query when there are so many."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            nonlocal found
            found = self.get(f"/v1/queries/{query}/results", token).json()["rows"]
            return len(found) >= n_rows

        self.until(there)
        return found

    def until(self, true: Callable[[], object]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not true():
            assert time.monotonic() < deadline, "it took too long"
            time.sleep(0.01)

    def _run(self) -> None:
        try:
            run_engine(self.options, self._stop)
        except BaseException as error:
            self.failure = error


def trade(symbol: str, price: float, second: int = 0) -> dict[str, Any]:
    """Return a row of the stream that tests push into."""
    return {
        "symbol": symbol,
        "price": price,
        "ts": f"2026-01-31T12:{second // 60:02}:{second % 60:02}Z",
    }
