"""Text can be read: the contrast of colours by the formula of WCAG 2, in both themes."""

from __future__ import annotations

import re

import pytest

from millrace.server.console.frame import asset
from millrace.server.console.graphs import AXIS

THEMES = {"light": ":root {", "dark": "body.body--dark {"}
ON_SURFACES = [
    (text, place)
    for text in ("text", "muted", "faint", "accent")
    for place in ("bg", "surface", "raised")
]
TOLD = [("good", "good-soft"), ("warn", "warn-soft"), ("bad", "bad-soft"), ("bad", "surface"),
        ("text", "bad-soft"), ("on-accent", "accent")]  # fmt: skip


def colours(theme: str) -> dict[str, str]:
    css = asset("console.css")
    begin = css.index(THEMES[theme])
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", css[begin : css.index("}", begin)]))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.03928 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    less, more = sorted((luminance(one), luminance(other)))
    return (more + 0.05) / (less + 0.05)


@pytest.mark.parametrize("theme", THEMES)
def test_text_stands_out(theme: str) -> None:
    known = colours(theme)

    weak = [pair for pair in ON_SURFACES + TOLD if contrast(*(known[each] for each in pair)) < 4.5]

    assert weak == []


@pytest.mark.parametrize("theme", THEMES)
def test_axes_stand_out_in_both_themes(theme: str) -> None:
    assert contrast(AXIS, colours(theme)["surface"]) >= 4.0


def test_black_on_white_is_as_the_formula_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
