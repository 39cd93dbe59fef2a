"""A gateway process: an HTTP server on a socket that it inherits."""

from __future__ import annotations

import socket
from functools import partial

import uvicorn
from fastapi import FastAPI

from millrace.server.fan_out import FanOut
from millrace.server.gateway import make_app
from millrace.server.options import ServerOptions
from millrace.server.service import Service

GRACE_SECONDS = 5


class Server(uvicorn.Server):
    """Tells subscribers before it waits for connections to end."""

    def __init__(self, config: uvicorn.Config, fan_out: FanOut) -> None:
        super().__init__(config)
        self._fan_out = fan_out

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let all who follow queries go, then do what is usual."""
        self._fan_out.end("stopping")
        await super().shutdown(sockets)


def _add_console(options: ServerOptions, app: FastAPI, service: Service) -> None:
    from millrace.server.console.mount import add_console  # noqa: PLC0415  slow to import
    from millrace.server.console.served import Served  # noqa: PLC0415

    add_console(app, Served(service, app.state.gate), secure=options.tls_cert is not None)


def run_gateway(options: ServerOptions, listener: int) -> None:
    """Serve HTTP until told to stop."""
    app = make_app(
        options.root,
        token_path=options.token_path,
        limits=options.limits,
        demo=options.demo,
        extend=partial(_add_console, options) if options.console else None,
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
    with socket.socket(fileno=listener) as inherited:
        server.run(sockets=[inherited])
