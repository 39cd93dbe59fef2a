"""Settings that change at run time, in force from the next epoch on."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from millrace.errors import MillraceError
from millrace.server.console.asked import Who
from millrace.server.console.frame import Live, button
from millrace.server.console.parts import attributed, box, card, refusal, text

NAMES = {
    "trigger": "Trigger",
    "target": "Target of an epoch",
    "rows": "Rows of an epoch",
    "memory": "Memory budget",
    "backfill_rows": "Rows of histories",
    "keep_rejected": "Keep late rows and dead letters",
    "spread": "Spread over tasks",
    "shards": "Shards",
    "merging": "Merge runs",
    "access": "Access method",
    "backoff": "Backoff",
    "hops": "Hops of new plans",
    "bands": "New band joins by ranges",
    "again": "New plans read again",
}
POLICIES = {
    "lazy": "lazy: each row once, and whose it is",
    "eager": "eager: as rows of their own",
    "none": "none: found anew when asked",
}


def settings_card(live: Live, who: Who) -> None:
    """Show the settings, with fields for who may change them."""
    with card("Settings", "in force with the next epoch"):
        place = box("div", "mr-fields")

    async def fill() -> None:
        settings = await live.asked.settings(who)
        place.clear()
        with place:
            Form(live, who, settings)

    async def first() -> None:
        try:
            await fill()
        except MillraceError as error:
            with place:
                refusal(error)

    ui.timer(0.1, first, once=True)


class Form:
    """The fields of all settings, and a button that sends those that were changed."""

    def __init__(self, live: Live, who: Who, settings: list[dict[str, Any]]) -> None:
        self._live, self._who = live, who
        self._before = {each["name"]: each["value"] for each in settings}
        may = who.role == "admin" and not who.tenant
        self._fields = {each["name"]: _field(each) for each in settings}
        for field in self._fields.values():
            field.set_enabled(may)
        self._problem = box("div").style("grid-column: 1 / -1")
        if may:
            button("Change settings", self._send, "primary")
        else:
            text("span", "Only an administrator may change them.", "mr-note")

    async def _send(self) -> None:
        changes = {
            name: field.value
            for name, field in self._fields.items()
            if field.value != self._before[name]
        }
        self._problem.clear()
        if not changes:
            ui.notify("Nothing was changed.")
            return
        try:
            await self._live.asked.change_settings(self._who, changes)
        except MillraceError as error:
            with self._problem:
                refusal(error)
        else:
            self._before.update(changes)
            ui.notify("In force with the next epoch.")


def policy_choice(live: Live, who: Who, name: str, policy: str) -> None:
    """Let the answers of a query, or of a template, be kept in another way."""
    problem = box("div")

    async def change() -> None:
        problem.clear()
        try:
            await live.asked.set_policy(who, name, chosen.value)
        except MillraceError as error:
            with problem:
                refusal(error)
        else:
            ui.notify("In force with the next epoch.")

    chosen = ui.select(POLICIES, value=policy, label="how answers are kept")
    chosen.props("outlined dense").style("width: 100%; margin-top: 12px")
    chosen.on_value_change(change)


def _field(setting: dict[str, Any]) -> ui.input | ui.select:
    words = NAMES.get(setting["name"], setting["name"])
    choices = ["on", "off"] if setting["kind"] == "switch" else setting["choices"]
    if choices:
        made: ui.input | ui.select = ui.select(choices, value=setting["value"], label=words)
    else:
        made = ui.input(words, value=setting["value"])
    with made.props("outlined dense").style("width: 100%"):
        ui.tooltip(setting["about"])
    return attributed(made, {"aria_description": setting["about"]})
