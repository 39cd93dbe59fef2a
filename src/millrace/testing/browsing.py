"""A browser and a server for it to look at: for tests of the console, and for its pictures.

The browser is the Chromium of the machine. Where there is none it is installed: by apt, where that
may be done, or else by Playwright.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

NAMES = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 120.0
SYMBOLS = ("ACME", "BOLT", "CRUX", "DYNE", "EMIT")

SCRIPT = """\
CREATE STREAM trades (id bigint, symbol text, price double, size bigint, ts timestamp)
  TIMESTAMP BY ts DELAY 1 second RETAIN 10 minutes FROM push();
CREATE STREAM quotes (symbol text, bid double, ask double, ts timestamp)
  TIMESTAMP BY ts FROM push();
CREATE TABLE limits (symbol text, most double);
INSERT INTO limits VALUES ('ACME', 120.0), ('BOLT', 110.0);
CREATE QUERY dear AS SELECT symbol, price, ts FROM trades WHERE price > 130;
CREATE QUERY acme_blocks AS SELECT * FROM trades WHERE symbol = 'ACME' AND size > 2000;
CREATE QUERY per_symbol AS
  SELECT symbol, count(*) AS n, avg(price) AS mean FROM trades [RANGE 10 SECONDS] GROUP BY symbol;
CREATE QUERY highest AS
  SELECT symbol, max(price) AS high FROM trades [RANGE 1 MINUTE] WHERE size > 100 GROUP BY symbol;
CREATE QUERY over_limit AS
  SELECT t.symbol, t.price, l.most FROM trades [NOW] t, limits l
  WHERE t.symbol = l.symbol AND t.price > l.most;
CREATE QUERY TEMPLATE alerts (sym text, low double) AS
  SELECT * FROM trades WHERE symbol = :sym AND price > :low;
"""


def find_chromium() -> str | None:
    """Return the path of a Chromium; None leaves it to Playwright."""
    found = next((path for each in NAMES if (path := shutil.which(each))), None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(
                ["apt-get", "-q", *command], check=False, env=environment, capture_output=True
            )
        found = shutil.which("chromium")
    if found is None:
        command = [sys.executable, "-m", "playwright", "install", "chromium"]
        subprocess.run(command, check=True, capture_output=True)
    return found


@contextmanager
def served(root: Path, *, demo: bool = True, gateways: int = 1) -> Iterator[str]:
    """Serve a root in processes of its own, without Spark; yield its address."""
    root.mkdir(parents=True, exist_ok=True)
    file = root.parent / f"{root.name}.sql"
    file.write_text(SCRIPT)
    command = [sys.executable, "-m", "millrace.cli.main", "serve", str(file), "--local"]
    command += ["--root", str(root), "--port", "0", "--trigger", "200ms"]
    command += ["--gateways", str(gateways)]
    command += ["--demo"] if demo else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None, "it is piped"
            first = process.stdout.readline()
            assert first.startswith("serving "), first
            address = first.split()[1]
            _await_ready(address)
            yield address
        finally:
            process.terminate()
            process.wait(60)


def _await_ready(address: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            if httpx.get(f"{address}/v1/health", timeout=5).json()["engine"] == "up":
                return
        except (httpx.HTTPError, KeyError, ValueError):
            pass
        time.sleep(0.1)
    message = f"no engine at {address} after {START_SECONDS:.0f} seconds"
    raise TimeoutError(message)


class Market:
    """Pushes trades and quotes until it is closed; the first push is waited for."""

    def __init__(self, address: str, *, rows: int = 100, token: str = "") -> None:
        self._client = httpx.Client(
            base_url=address,
            timeout=120,
            headers={"authorization": f"Bearer {token}"} if token else {},
        )
        self._rows, self._next = rows, 0
        self._random = random.Random(7)
        self._closing = threading.Event()
        self.push()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def push(self) -> None:
        """Push some rows that are as old as now, a few of them late."""
        now, chance = time.time(), self._random
        trades = []
        for _ in range(self._rows):
            self._next += 1
            late = 5.0 if chance.random() < 0.003 else 0.0
            trades.append(
                {
                    "id": self._next,
                    "symbol": chance.choice(SYMBOLS),
                    "price": round(100 + chance.gauss(0, 15), 2),
                    "size": 10 * int(chance.expovariate(1 / 90)),
                    "ts": _spelt(now - chance.uniform(0, 0.2) - late),
                }
            )
        quotes = [
            {"symbol": each, "bid": 99 + chance.random(), "ask": 100 + chance.random(),
             "ts": _spelt(now)}
            for each in SYMBOLS
        ]  # fmt: skip
        for stream, rows in (("trades", trades), ("quotes", quotes)):
            self._client.post(f"/v1/streams/{stream}/rows", json=rows).raise_for_status()

    def close(self) -> None:
        """Push no more."""
        self._closing.set()
        self._thread.join()
        self._client.close()

    def __enter__(self) -> Market:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        while not self._closing.wait(0.25):
            try:
                self.push()
            except httpx.HTTPError:
                self._closing.wait(1.0)  # the server is busy, or ends


def launched(playwright: Any) -> Any:  # noqa: ANN401  Playwright's own types
    """Start the browser."""
    return playwright.chromium.launch(
        executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"]
    )


def _spelt(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
