"""The way in: a form that takes a token, and a cookie that holds it.

The cookie cannot be read by scripts, is sent to this site alone (SameSite=Strict) and only over TLS
where there is TLS. Without a token nobody comes in, but in a demonstration on loopback.
"""

from __future__ import annotations

from html import escape
from typing import Annotated
from urllib.parse import quote

from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from millrace.server.console.frame import COOKIE, ICON, LOGO, THEME, Console, asset

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Log in · millrace</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:image/svg+xml,{icon}"><style>{css}</style></head>
<body class="mr-login {theme}"><main class="mr-card"><form method="post" action="{base}/login">
<div class="mr-brand">{logo}<span>millrace</span></div>
{problem}
<label>Token<input name="token" type="password" autocomplete="current-password" required autofocus
 aria-describedby="about"></label>
<input type="hidden" name="next" value="{next}">
<button type="submit">Log in</button>
<span class="mr-note" id="about">Whoever runs the server makes tokens.</span>
</form></main></body></html>"""
_WRONG = """<div class="mr-banner" role="alert"><b>this token is not known</b>
It may have been revoked.</div>"""
AUTO = """<script>if (matchMedia("(prefers-color-scheme: dark)").matches)
document.body.classList.add("body--dark")</script>"""


def add_login(app: FastAPI, console: Console) -> None:
    """Add the routes of the way in and out."""

    @app.get(f"{console.base}/login", include_in_schema=False)
    async def form(request: Request, next: str = "") -> HTMLResponse:  # noqa: A002  as it is called in addresses
        return _page(console, request, next)

    @app.post(f"{console.base}/login", include_in_schema=False)
    async def log_in(
        request: Request,
        token: Annotated[str, Form()],
        next: Annotated[str, Form()] = "",  # noqa: A002
    ) -> Response:
        if not token or await console.asked.who(token) is None:
            return _page(console, request, next, problem=_WRONG, status=401)
        answer = RedirectResponse(_within(console, next), status_code=303)
        answer.set_cookie(
            COOKIE, token, path="/", httponly=True, samesite="strict", secure=console.secure
        )
        return answer

    @app.post(f"{console.base}/logout", include_in_schema=False)
    async def log_out() -> Response:
        answer = RedirectResponse(f"{console.base}/login", status_code=303)
        answer.delete_cookie(COOKIE, path="/")
        return answer


def _page(
    console: Console, request: Request, here: str, *, problem: str = "", status: int = 200
) -> HTMLResponse:
    theme = request.cookies.get(THEME, "")
    page = _PAGE.format(
        css=asset("console.css"),
        icon=quote(ICON),
        theme="body--dark" if theme == "dark" else "",
        base=console.base,
        logo=LOGO,
        problem=problem,
        next=escape(_within(console, here)),
    )
    return HTMLResponse(page + ("" if theme else AUTO), status_code=status)


def _within(console: Console, place: str) -> str:
    """Return a place to go to; one outside of the console is not gone to."""
    inside = place.startswith(f"{console.base}/") and "//" not in place and "\\" not in place
    return place if inside else f"{console.base}/"
