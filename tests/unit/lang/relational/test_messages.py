"""What a user reads when a relational query is refused: the whole message, held in messages.txt.

Rewrite the file with `BLESS=1 pytest tests/unit/lang/relational/test_messages.py`, and read it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.lang.errors import LanguageError
from millrace.lang.relational.bound import BoundRelation

Bind = Callable[[str], BoundRelation]

FILE = Path(__file__).parent / "messages.txt"
BREAK = "\n====\n"
CODES = "001 002 003 004 010 011 012 013 014 020 021 030 031 032 040 050 070"  # 015 is a warning


def message(text: str, bind: Bind) -> str:
    try:
        bind(text)
    except LanguageError as error:
        return f"{error.code} at {error.line}:{error.column}\n{error}"
    return "no error"


def cases() -> list[tuple[str, str]]:
    blocks = FILE.read_text(encoding="utf-8").rstrip("\n").split(BREAK)
    return [(text, told) for text, _, told in (each.partition("\n----\n") for each in blocks)]


@pytest.mark.skipif(bool(os.environ.get("BLESS")), reason="the file is rewritten")
@pytest.mark.parametrize(("text", "told"), cases())
def test_a_message_says_what_where_and_what_to_do(text: str, told: str, bind: Bind) -> None:
    assert message(text, bind) == told


def test_messages_keep_the_rules_of_the_house(bind: Bind) -> None:
    for text, _ in cases():
        code, first, *rest = message(text, bind).split("\n")

        assert re.fullmatch(r"CQL\d{3} at \d+:\d+", code)
        assert not re.search(r"\b(invalid|illegal|unable|sqlglot)\b|#\d", first, re.IGNORECASE)
        assert not first.endswith(".")
        assert re.fullmatch(r" *\d+ \|.*", rest[0])
        assert re.fullmatch(r" +\| +\^+", rest[1])
        for line in rest[2:]:
            assert re.fullmatch(r"  (detail|hint): .*[.?]", line), line


def test_every_code_has_a_message() -> None:
    told = {told[3:6] for _, told in cases()}

    assert set(CODES.split()) <= told


@pytest.mark.skipif(not os.environ.get("BLESS"), reason="only rewrites the file")
def test_bless(bind: Bind) -> None:
    blocks = [f"{text}\n----\n{message(text, bind)}" for text, _ in cases()]
    FILE.write_text(BREAK.join(blocks) + "\n", encoding="utf-8")
