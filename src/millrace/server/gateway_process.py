"""A gateway process: an HTTP server on a socket that it inherits."""

from __future__ import annotations

import gc
import socket
import sys
from contextlib import ExitStack
from functools import partial

import uvicorn
from fastapi import FastAPI

from millrace.server.console.guards import Signpost
from millrace.server.fan_out import FanOut
from millrace.server.gateway import make_app
from millrace.server.options import ServerOptions
from millrace.server.service import Service

GRACE_SECONDS = 5
SWITCH_SECONDS = 0.001
"""How long a thread that reads for somebody may keep the interpreter from those who ask."""
GARBAGE = (20_000, 20, 20)
"""After how many objects the youngest are looked through, and how often before those older."""


class Server(uvicorn.Server):
    """Tells subscribers before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, fan_out: FanOut) -> None:
        super().__init__(config)
        self._fan_out = fan_out

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin; what is there by then stays, and is not looked through for garbage again.

        What comes later, such as thousands of subscribers, is looked through seldom: that takes a
        quarter of a second, in which nobody is told anything.
        """
        await super().startup(sockets)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GARBAGE)
        sys.setswitchinterval(SWITCH_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let all who follow queries go, then do what is usual."""
        self._fan_out.end("stopping")
        await super().shutdown(sockets)


def run_gateway(options: ServerOptions, listener: int, *, console: int | None = None) -> None:
    """Serve HTTP until told to stop; the console too, on its socket if it has one of its own."""
    app = make_app(
        options.root,
        token_path=options.token_path,
        limits=options.limits,
        demo=options.demo,
        functions=options.functions,
        extend=partial(_add_console, options, console),
    )
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        ws_max_size=1 << 20,
        ssl_certfile=None if options.tls_cert is None else str(options.tls_cert),
        ssl_keyfile=None if options.tls_key is None else str(options.tls_key),
    )
    server = Server(config, app.state.gate.service.fan_out)
    handles = [listener] if console is None else [listener, console]
    with ExitStack() as stack:
        server.run(sockets=[stack.enter_context(socket.socket(fileno=each)) for each in handles])


def _add_console(
    options: ServerOptions, console: int | None, app: FastAPI, service: Service
) -> None:
    """Serve the console here, or lead to where it is."""
    if not options.console:
        return
    if options.console_port is not None:
        app.add_middleware(Signpost, base="/console", port=options.console_port)
    if options.console_port is None or console is not None:
        from millrace.server.console.mount import add_console  # noqa: PLC0415  slow to import
        from millrace.server.console.served import Served  # noqa: PLC0415

        asked = Served(service, app.state.gate, app.state.measured)
        add_console(app, asked, secure=options.tls_cert is not None)
