"""A gateway: the HTTP API over one service, as an ASGI app."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI

import millrace
from millrace.server.access import Gate
from millrace.server.body_limit import BodyLimit
from millrace.server.door import Door
from millrace.server.errors import add_handlers
from millrace.server.functions import read_functions, typed
from millrace.server.limits import Limits
from millrace.server.local_only import LocalOnly
from millrace.server.metrics import Measured, Timing
from millrace.server.routes import (
    audit,
    engine,
    health,
    live,
    queries,
    results,
    sql,
    streams,
    tables,
    templates,
    tokens,
)
from millrace.server.service import Service
from millrace.server.tokens import Tokens, token_file

_ABOUT = """\
Standing SQL queries over streams: push rows, register queries, read and follow their answers.

Send `Authorization: Bearer TOKEN` with every request. Timestamps are ISO 8601 in UTC; integers
beyond 2^53 and decimals are texts, and so are NaN and Infinity; binary is base 64.
"""

Extend = Callable[[FastAPI, Service], None]


def make_app(
    root: Path,
    *,
    token_path: Path | None = None,
    limits: Limits | None = None,
    demo: bool = False,
    functions: Path | None = None,
    extend: Extend | None = None,
) -> FastAPI:
    """Make the app of a gateway on a root.

    Parameters
    ----------
    demo
        Whether requests without a token are the operator's; only for servers that nobody else
        can reach.
    functions
        A file of functions that queries may call (`server.functions`).
    extend
        Adds what else is served, such as the console.
    """
    service = Service(root, limits, typed(read_functions(functions)))

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="Millrace",
        version=millrace.__version__,
        description=_ABOUT,
        lifespan=running,
        docs_url=None,
        redoc_url=None,
    )
    app.state.gate = Gate(service, Tokens(token_path or token_file(root)), demo=demo)
    app.state.measured = Measured(service)
    app.add_middleware(BodyLimit, largest=service.limits.body_bytes)
    app.add_middleware(Door, gate=app.state.gate)
    add_handlers(app)
    for noun in (results, streams, queries, health, live, tables, templates, sql, engine, audit,
                 tokens):  # fmt: skip  # in this order they are looked through
        app.include_router(noun.router)
    app.add_middleware(Timing, measured=app.state.measured)
    if demo:
        app.add_middleware(LocalOnly)
    if extend is not None:
        extend(app, service)
    return app
