"""A new query: written, checked while it is written, explained, tried on history, registered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from fastapi import Request
from fastapi.responses import Response
from nicegui import ui

from millrace.errors import MillraceError, PlanError
from millrace.server.console.asked import Who
from millrace.server.console.editor import Editor
from millrace.server.console.frame import Console, Live, button, frame
from millrace.server.console.parts import (
    box,
    card,
    empty,
    properties,
    refusal,
    skeleton,
    table,
    text,
)
from millrace.server.console.settings import POLICIES
from millrace.server.console.units import print_number, print_span

EXAMPLE = "SELECT *\nFROM {stream}\nWHERE "


def add_new_query(console: Console) -> None:
    """Add the page."""

    @ui.page("/queries/new")
    async def new_query(request: Request, sql: str = "", name: str = "") -> Response | None:
        who = await console.visitor(request)
        if who is None:
            return console.to_login(request)
        with frame(console, who, request, "/queries", "New query") as live:
            with box("div", "mr-head"):
                text("a", "Queries", "mr-crumb", href=console.link("/queries"))
                text("h1", "New query")
            NewQuery(console, live, who, sql, name)
        return None


class NewQuery:
    """The editor with its buttons; below it what was answered, beside it what can be read."""

    def __init__(self, console: Console, live: Live, who: Who, sql: str, name: str) -> None:
        self._console, self._live, self._who = console, live, who
        with box("div", "mr-split"):
            with box("div", "mr-col"):
                with card("CQL", "Ctrl Enter explains it"):
                    self._editor = Editor(sql, check=self._check, run=self.explain)
                    self._options = _Options(name)
                    with box("div", "mr-row").style("margin-top: 16px"):
                        button("Register", self.register, "primary")
                        button("Explain", self.explain)
                        button("Dry run", self.dry_run)
                self._answer = box("div")
            with card("Streams"):
                self._streams = box("div", "mr-col")
        live.every(self._list, 30.0)

    async def _check(self, written: str) -> object:
        return await self._live.asked.explain(self._who, written)

    async def explain(self) -> None:
        """Say how the query would run."""
        with self._answering("How it would run"):
            answer = await self._asked(self._live.asked.explain(self._who, self._editor.value))
            if answer is not None:
                text("pre", answer, "mr-pre mr-code")

    async def dry_run(self) -> None:
        """Say what the query would have answered."""
        history = self._options.history or "10 minutes"
        with self._answering(f"What it would have answered in the last {history}"):
            asked = self._live.asked.dry_run(self._who, self._editor.value, history)
            answer = await self._asked(asked)
            if answer is not None:
                _tried(answer)

    async def register(self) -> None:
        """Register the query, and go to its page."""
        with self._answering("Registering"):
            asked = self._registered()
            made = await self._asked(asked)
            if made is not None:
                name = str(made.get("name") or made["id"])
                self._console.go("/query", name)

    async def _registered(self) -> dict[str, Any]:
        options = self._options.said()
        return await self._live.asked.register(self._who, self._editor.value, **options)

    def _answering(self, title: str) -> Any:  # noqa: ANN401  a context manager of card's
        self._answer.clear()
        with self._answer:
            made = card(title)
        return _Inside(self._answer, made)

    async def _asked(self, asked: Any) -> Any:  # noqa: ANN401  whatever is asked for
        waiting = skeleton(80)
        try:
            answer = await asked
        except MillraceError as error:
            waiting.delete()
            if getattr(error, "position", None):
                self._editor.refuse(error)
                self._answer.clear()
            else:
                refusal(error)
            return None
        waiting.delete()
        self._editor.accept()
        return answer

    async def _list(self) -> None:
        streams = await self._live.asked.streams(self._who)
        self._streams.clear()
        with self._streams:
            if not streams:
                empty("water", "No streams", "There is nothing to ask of yet.")
            for each in streams:
                with box("div"):
                    text("b", each["name"])
                    properties((column["name"], column["type"]) for column in each["columns"])


class _Inside:
    """Enters a place and a card in it; what is made then is in the card."""

    def __init__(self, place: ui.element, made: Any) -> None:  # noqa: ANN401
        self._place, self._made = place, made

    def __enter__(self) -> None:
        self._place.__enter__()
        self._made.__enter__()

    def __exit__(self, *problem: object) -> None:
        self._made.__exit__(*problem)
        self._place.__exit__(*problem)


class _Options:
    """What is said of a query beside its text: what of its answers waits, and for how long."""

    def __init__(self, name: str) -> None:
        with box("div", "mr-fields").style("margin-top: 16px"):
            self._name = _field("Name", name, "chosen if empty")
            self._history = _field("History", "", "such as 10 minutes")
            self._partial = ui.checkbox("less history will do").props("dense")
            with self._partial:
                ui.tooltip("Where less is retained than the history that is asked for.")
            self._ttl = _field("Ends after", "", "never")
            self._retain = _field("Answers kept for", "", "such as 1 hour")
            self._keep = _field("or so many of them", "", "10,000")
            choices = {"": "as suits the query", **POLICIES}
            self._policy = ui.select(choices, value="", label="How answers are kept")
            self._policy.props("outlined dense").style("width: 100%")

    @property
    def history(self) -> str:
        """How far back the query is to see."""
        return str(self._history.value or "").strip()

    def said(self) -> dict[str, Any]:
        """Return the options that were given."""
        keep = str(self._keep.value or "").strip().replace(",", "")
        if keep and not keep.isdecimal():
            raise PlanError(
                f'"{keep}" is not a number of answers', hint="Write a whole number, such as 10,000."
            )
        return {
            "name": _said(self._name),
            "history": self.history or None,
            "partial": bool(self._partial.value),
            "retain": _said(self._retain),
            "keep": int(keep) if keep else None,
            "policy": self._policy.value or None,
            "ttl": _said(self._ttl),
        }


def _said(field: ui.input) -> str | None:
    return str(field.value or "").strip() or None


def _field(label: str, value: str, hint: str) -> ui.input:
    made = ui.input(label, value=value, placeholder=hint).props("outlined dense stack-label")
    return made.style("width: 100%")


def _tried(answer: dict[str, Any]) -> None:
    partial = " in the part that was read" if answer.get("partial") else ""
    took = print_span(answer["seconds"])
    words = f"{print_number(answer['results'])} results{partial}, found in {took}"
    text("p", words).style("margin: 0 0 12px")
    sample = answer.get("sample") or []
    if sample:
        rows = sample if isinstance(sample, pa.Table) else pa.Table.from_pylist(sample)
        table(rows, "some of the results")
    else:
        empty("inbox", "No results", "No row of that time satisfies the query.")
