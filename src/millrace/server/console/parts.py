"""The parts that pages are made of: cards, tiles, tables, words of state, what to say of nothing.

Text from outside (names, cells, messages) only ever goes into the text of an element or into a
property of one, which the browser does not read as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import TypeVar

import pyarrow as pa
from nicegui import ui
from nicegui.elements.mixins.text_element import TextElement

from millrace.errors import MillraceError
from millrace.server.console.units import print_cell, print_value

Made = TypeVar("Made", bound=ui.element)
NONE = 'class="none"'
UNKNOWN = "\N{EN DASH}"
STATES = {"running": "good", "paused": "warn", "suspended": "bad", "failing": "bad"}


class Text(TextElement):
    """An element that holds nothing but text, which can be changed."""

    def __init__(self, tag: str, words: str) -> None:
        super().__init__(tag=tag, text=words)


def text(tag: str, words: str, classes: str = "", **attributes: object) -> Text:
    """Make an element that holds nothing but text."""
    made = Text(tag, words).classes(classes)
    return attributed(made, attributes)


def box(tag: str, classes: str = "", **attributes: object) -> ui.element:
    """Make an element that holds others."""
    return attributed(ui.element(tag).classes(classes), attributes)


def attributed(element: Made, attributes: Mapping[str, object]) -> Made:
    """Give attributes to an element; `aria_label` stands for `aria-label`, None for none."""
    for name, value in attributes.items():
        if value is not None:
            element.props[name.rstrip("_").replace("_", "-")] = value
    return element


@contextmanager
def card(title: str, note: str = "") -> Iterator[ui.element]:
    """Make a card; yield the row of its head, for buttons. What is made inside is its body."""
    with box("section", "mr-card", aria_label=title):
        with box("div", "mr-cardhead") as head:
            text("h2", title, "mr-title")
            if note:
                text("span", note, "mr-note")
        yield head


class Tile:
    """A figure with its label, its unit, and a remark."""

    def __init__(self, label: str) -> None:
        with box("div", "mr-tile", role="group", aria_label=label) as self._box:
            text("div", label, "mr-label")
            with box("div", "mr-figure"):
                self._figure = text("span", UNKNOWN)
                self._unit = text("span", "", "mr-unit")
            self._note = text("div", " ", "mr-note")

    def show(
        self, value: float | None, unit: str = "", note: str = "", *, alarm: bool = False
    ) -> None:
        """Show a value; None is not known."""
        figure, _, word = (UNKNOWN, "", "") if value is None else _parted(value, unit)
        self._figure.text, self._unit.text, self._note.text = figure, word, note or " "
        self._box.classes(add="mr-alarm" if alarm else "", remove="" if alarm else "mr-alarm")


def chip(state: str, words: str = "") -> Text:
    """Show a state as a word with a dot of its colour."""
    return text("span", words or state, f"mr-chip {STATES.get(state, '')}")


def moment(instant: str | None) -> None:
    """Show an instant (ISO 8601) as how long ago it was; the browser keeps it current."""
    if instant is None:
        text("span", UNKNOWN, "mr-note")
        return
    text("time", instant[:19].replace("T", " "), datetime=instant)


def empty(icon: str, title: str, words: str) -> ui.element:
    """Say that there is nothing, and what could be done."""
    with box("div", "mr-empty") as made:
        attributed(ui.icon(icon), {"aria_hidden": "true"})
        text("b", title)
        text("span", words)
    return made


def skeleton(height: int) -> ui.element:
    """Hold the place of something that is being fetched."""
    made = box("div", "mr-skeleton", role="status", aria_label="loading")
    return made.style(f"height: {height}px")


def refusal(error: MillraceError, excerpt: str = "") -> ui.element:
    """Show an error: the fact, where it is in a text, the detail, the hint."""
    with box("div", "mr-banner", role="alert") as made:
        text("b", error.message)
        if excerpt:
            text("pre", excerpt, "mr-pre")
        if error.detail:
            text("div", error.detail, "mr-detail")
        if error.hint:
            text("div", error.hint, "mr-detail")
    return made


def properties(pairs: Iterable[tuple[str, object]]) -> ui.element:
    """Show names and values in two columns."""
    with box("dl", "mr-props") as made:
        for name, value in pairs:
            text("dt", name)
            text("dd", value if isinstance(value, str) else print_cell(value))
    return made


class Rows:
    """An Arrow table on a page. It is one text of HTML, in which everything is escaped.

    An element for each cell would cost a hundred times as much, in the server and in the browser.
    """

    def __init__(self, caption: str) -> None:
        self._caption = caption
        with box("div", "mr-scroll", tabindex="0"):
            self._html = ui.html("", sanitize=False)

    def show(self, rows: pa.Table) -> None:
        """Show other rows."""
        spelt = table_html(rows, self._caption)
        if spelt != self._html.content:
            self._html.set_content(spelt)


def table(rows: pa.Table, caption: str) -> None:
    """Show an Arrow table that does not change."""
    Rows(caption).show(rows)


def table_html(rows: pa.Table, caption: str) -> str:
    """Spell a table as HTML; numbers stand right.

    >>> table_html(pa.table({"n": ["<i>"]}), "x").partition("<tbody>")[2]
    '<tr><td >&lt;i&gt;</td></tr></tbody></table>'
    """
    right = ['class="num"' if _numeric(each.type) else "" for each in rows.schema]
    heads = zip(rows.schema.names, right, strict=True)
    head = "".join(f'<th scope="col" {kind}>{escape(name)}</th>' for name, kind in heads)
    body = []
    for row in zip(*(each.to_pylist() for each in rows.columns), strict=True):
        cells = zip(row, right, strict=True)
        body.append("".join(_cell(value, kind) for value, kind in cells))
    lines = "".join(f"<tr>{each}</tr>" for each in body)
    return (
        f'<table class="mr-table" aria-label="{escape(caption)}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table>"
    )


def _cell(value: object, kind: str) -> str:
    return f"<td {kind or NONE if value is None else kind}>{escape(print_cell(value))}</td>"


def _numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _parted(value: float, unit: str) -> tuple[str, str, str]:
    """Part a printed value from its unit, so that the unit can be smaller."""
    printed = print_value(value, unit)
    whole = unit == "s" and printed.count(" ") > 1  # such as 1 min 15 s
    return (printed, "", "") if whole else printed.partition(" ")
