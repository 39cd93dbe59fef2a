"""Mounting the console into a gateway's application."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from millrace.server.console.asked import Asked
from millrace.server.console.costs import add_costs
from millrace.server.console.frame import ICON, Console
from millrace.server.console.guards import Guarded
from millrace.server.console.login import add_login
from millrace.server.console.new_query import add_new_query
from millrace.server.console.overview import add_overview
from millrace.server.console.plan import add_plan
from millrace.server.console.queries import add_queries
from millrace.server.console.query import add_query
from millrace.server.console.sysstream import add_sysstream

PAGES = (
    add_overview,
    add_plan,
    add_queries,
    add_new_query,
    add_query,
    add_costs,
    add_sysstream,
)


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

    app.add_middleware(Guarded, base=base)
    ui.run_with(
        app,
        mount_path=base,
        title="millrace",
        favicon=ICON,
        dark=None,
        language="en-US",
        show_welcome_message=False,
    )
