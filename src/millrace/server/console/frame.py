"""The frame of every page: who may see it, the bar on top, the theme, and keys that lead on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse, Response
from nicegui import ui

from millrace.errors import MillraceError
from millrace.server.console.asked import Asked, Who
from millrace.server.console.parts import Text, attributed, box, refusal, text

COOKIE = "millrace_token"
THEME = "millrace_theme"
REFRESH_SECONDS = 2.0

LOGO = (
    '<svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" '
    'stroke-linecap="round" aria-hidden="true"><circle cx="12" cy="10" r="6.5"/>'
    '<path d="M12 3.5v13M5.5 10h13M7.4 5.4l9.2 9.2M16.6 5.4l-9.2 9.2M2 20.5c2.5 0 2.5-1.5 5-1.5'
    's2.5 1.5 5 1.5 2.5-1.5 5-1.5 2.5 1.5 5 1.5"/></svg>'
)
ICON = LOGO.replace("currentColor", "#2f80ed").replace(
    "<svg", '<svg xmlns="http://www.w3.org/2000/svg"'
)
PLACES = (
    ("/", "Overview"),
    ("/plan", "Plan"),
    ("/queries", "Queries"),
    ("/costs", "Costs"),
    ("/sysstream", "SysStream"),
)
KEYS = (
    ("g o", "Overview"),
    ("g p", "Plan"),
    ("g q", "Queries"),
    ("g c", "Costs"),
    ("g s", "SysStream"),
    ("/", "search for a query"),
    ("n", "new query"),
    ("t", "light or dark"),
    ("Ctrl Enter", "in an editor: run, or explain"),
    ("?", "this list"),
)


@dataclass(frozen=True, slots=True)
class Console:
    """The console of a gateway: whom it asks, and where it is mounted."""

    asked: Asked
    base: str = "/console"
    secure: bool = False

    async def visitor(self, request: Request) -> Who | None:
        """Return who visits: by the cookie, or anybody in a demonstration on loopback."""
        return await self.asked.who(request.cookies.get(COOKIE, ""))

    def to_login(self, request: Request) -> Response:
        """Send a visitor to the way in, and back here afterwards."""
        here = quote(f"{request.url.path}?{request.url.query}", safe="")
        return RedirectResponse(f"{self.base}/login?next={here}", status_code=303)

    def go(self, path: str, *parts: str) -> None:
        """Lead the browser to a page; NiceGUI puts the place of the console before it."""
        ui.navigate.to(self.link(path, *parts).removeprefix(self.base))

    def link(self, path: str, *parts: str) -> str:
        """Return an address in the console; parts are quoted, whatever they hold."""
        return f"{self.base}{path}" + "".join(f"/{quote(each, safe='')}" for each in parts)


@lru_cache
def asset(name: str) -> str:
    """Return the text of a file beside this one."""
    return files("millrace.server.console").joinpath(name).read_text("utf-8")


@contextmanager
def frame(console: Console, who: Who, request: Request, here: str, title: str) -> Iterator[Live]:
    """Draw the frame; what is made inside is the page. Yields what keeps the page alive."""
    ui.page_title(f"{title} · millrace")
    ui.dark_mode({"dark": True, "light": False}.get(request.cookies.get(THEME, "")))
    ui.add_css(asset("console.css"))
    ui.colors(primary="#0a5fc2")
    script = asset("console.js")
    ui.add_body_html(f'<script data-base="{console.base}">{script}</script>')
    with box("header", "mr-top"):
        with box("a", "mr-brand", href=f"{console.base}/"):
            ui.html(LOGO, sanitize=False)
            text("span", "millrace")
        with box("nav", "mr-nav", aria_label="pages"):
            for path, name in PLACES:
                current = "page" if path == here else None
                text("a", name, href=f"{console.base}{path}", aria_current=current)
        box("div", "mr-spring")
        with box("div", "mr-side"):
            state = text("span", "connecting", "mr-chip", role="status")
            text("span", f"{who.name} ({who.role})", "mr-who mr-note")
            _help()
            _theme()
            if request.cookies.get(COOKIE):
                _logout(console)
    with box("main", "mr-main") as main:
        trouble = box("div").style("display: none")
        yield Live(console.asked, who, state, trouble)
    ui.skip_link("Skip to the page", target=main)


class Live:
    """What keeps a page current: it asks again and again, and says when that fails."""

    def __init__(self, asked: Asked, who: Who, state: Text, trouble: ui.element) -> None:
        self.asked, self.who, self._state, self._trouble = asked, who, state, trouble

    def every(
        self, refresh: Callable[[], Awaitable[None]], seconds: float = REFRESH_SECONDS
    ) -> None:
        """Refresh the page now, and again and again."""

        async def guarded() -> None:
            try:
                await refresh()
            except MillraceError as error:
                self.failed(error)
            else:
                self.fine()

        ui.timer(seconds, guarded)

    def fine(self) -> None:
        """Say that all is well."""
        self._state.text = "live"
        self._state.classes("good", remove="bad")
        self._trouble.style("display: none")

    def failed(self, error: MillraceError) -> None:
        """Say what is wrong; the page keeps what it has."""
        self._state.text = "not answering"
        self._state.classes("bad", remove="good")
        self._trouble.clear()
        with self._trouble:
            refusal(error)
        self._trouble.style("display: block")


def button(words: str, act: Callable[[], object], kind: str = "plain", icon: str = "") -> ui.button:
    """Make a button; `kind` is primary, plain, danger or quiet."""
    made = ui.button(words, on_click=act, icon=icon or None, color=None)
    return made.props("unelevated no-caps").classes(f"mr-{kind}")


def icon_button(icon: str, words: str, act: Callable[[], object] | None = None) -> ui.button:
    """Make a button that shows only an icon; its words are told to who cannot see it."""
    made = ui.button(icon=icon, on_click=act, color=None).classes("mr-quiet").props("flat dense")
    with made:
        ui.tooltip(words)
    return attributed(made, {"aria_label": words})


def _theme() -> None:
    icon_button("contrast", "light or dark").on("click", js_handler="() => millraceTheme()")


def _help() -> None:
    with ui.dialog() as dialog, ui.card():
        text("h2", "Keys", "mr-title")
        with box("div", "mr-keys"):
            for keys, words in KEYS:
                with box("span"):
                    for each in keys.split():
                        text("kbd", each)
                text("span", words)
        button("Close", dialog.close)
    attributed(icon_button("keyboard", "keys", dialog.open), {"id": "mr-help"})


def _logout(console: Console) -> None:
    with box("form", method="post", action=f"{console.base}/logout"):
        made = text("button", "Log out", "q-btn mr-quiet", type="submit")
        made.style("background: none; border: 0; cursor: pointer; font: inherit")
