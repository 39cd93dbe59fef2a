"""Mounting the console into a gateway's application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from millrace.server.console.asked import Asked
from millrace.server.console.frame import ICON, Console
from millrace.server.console.login import add_login
from millrace.server.console.new_query import add_new_query
from millrace.server.console.overview import add_overview
from millrace.server.console.plan import add_plan
from millrace.server.console.queries import add_queries
from millrace.server.console.query import add_query
from millrace.server.console.sysstream import add_sysstream

PAGES = (add_overview, add_plan, add_queries, add_new_query, add_query, add_sysstream)

POLICY = (
    "default-src 'self' data: blob:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; connect-src 'self'; frame-ancestors 'none'; "
    "base-uri 'self'; form-action 'self'"
)
"""Nothing is loaded from elsewhere, and nobody may frame it. Vue makes functions of templates."""


def add_console(
    app: FastAPI, asked: Asked, *, base: str = "/console", secure: bool = False
) -> None:
    """Serve the console under `base`, once in a process: NiceGUI has one application."""
    console = Console(asked, base, secure)
    add_login(app, console)
    for add in PAGES:
        add(console)

    @app.get("/", include_in_schema=False)
    async def root() -> Response:
        return RedirectResponse(f"{base}/")

    @app.middleware("http")
    async def guarded(
        request: Request, go_on: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        answer = await go_on(request)
        if request.url.path.startswith(base):
            answer.headers["Content-Security-Policy"] = POLICY
            answer.headers["X-Content-Type-Options"] = "nosniff"
            answer.headers["Referrer-Policy"] = "same-origin"
        return answer

    ui.run_with(
        app,
        mount_path=base,
        title="millrace",
        favicon=ICON,
        dark=None,
        language="en-US",
        show_welcome_message=False,
    )
