"""Printing: three parts of an error, with and without colours."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from millrace.cli.terminal import ASCII, UNICODE, glyphs_for, make_console, print_error
from millrace.errors import StoreError

ERROR = StoreError("the disk is away", detail="It was there at noon.", hint="Look for it.")


def test_an_error_has_its_parts_each_on_a_line() -> None:
    out = io.StringIO()

    print_error(ERROR, Console(file=out))

    assert out.getvalue() == (
        "error: the disk is away\n  detail: It was there at noon.\n  hint: Look for it.\n"
    )


def test_a_terminal_gets_colours_unless_asked_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = make_console()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = make_console()

    assert not coloured.no_color
    assert plain.no_color


def test_glyphs_follow_the_encoding() -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    assert glyphs_for(Console(file=narrow)) is ASCII
    assert glyphs_for(Console(file=io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))) is UNICODE


def test_every_ascii_glyph_is_ascii() -> None:
    assert all(getattr(ASCII, name).isascii() for name in ASCII.__slots__)
