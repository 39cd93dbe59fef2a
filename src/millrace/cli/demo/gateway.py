"""The console beside the demonstration: a gateway that reads the same root, on loopback.

It is a process of its own, so it is there before the first driver, while one is dead, and until the
end. Without the packages of the server there is none, and the demonstration goes on as it would.
"""

from __future__ import annotations

import os
import subprocess
import sys
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from millrace.errors import StoreError

if TYPE_CHECKING:
    import socket

    from millrace.server.options import ServerOptions

NEEDED = ("fastapi", "nicegui", "uvicorn")
STOP_SECONDS = 10.0


class Gateway:
    """The process, and the address at which it serves the console."""

    def __init__(self, base: Path) -> None:
        from millrace.server.options import ServerOptions
        from millrace.server.supervisor import address_of

        options = ServerOptions(base / "engine", demo=True, local=True)
        options.root.mkdir(exist_ok=True)
        with _bound(options) as listener:
            self.address = address_of(options, listener)
            number = str(listener.fileno())
            with (base / "gateway.log").open("ab") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "millrace.server.process", "gateway", options.to_json(),
                     number, "0"],
                    stdout=log,
                    stderr=log,
                    pass_fds=[listener.fileno()],
                    start_new_session=True,
                )  # fmt: skip

    def close(self) -> None:
        """End the process."""
        from millrace.server.supervisor import end_process

        end_process(self._process, STOP_SECONDS)


def open_gateway(base: Path) -> Gateway | None:
    """Start the gateway, if what it needs is installed."""
    if any(find_spec(each) is None for each in NEEDED):
        return None
    return Gateway(base)


def show_in_browser(address: str) -> None:
    """Open the console in a browser, where there is a screen to show one on."""
    if sys.platform == "darwin" or any(os.environ.get(e) for e in ("DISPLAY", "WAYLAND_DISPLAY")):
        webbrowser.open(address)


def _bound(options: ServerOptions) -> socket.socket:
    """Take the usual port, or a free one if it is taken."""
    from dataclasses import replace

    from millrace.server.supervisor import bound

    try:
        return bound(options)
    except StoreError:
        return bound(replace(options, port=0))
