"""What a user reads when a statement is refused: the whole message, held in messages.txt.

Rewrite the file with `BLESS=1 pytest tests/unit/lang/test_messages.py`, and read it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

from millrace.lang.binder import bind_condition, bind_query
from millrace.lang.declarations import CreateQuery, CreateTemplate, DeleteRows, Read
from millrace.lang.errors import LanguageError
from millrace.lang.statements import parse
from millrace.schema import Schema

FILE = Path(__file__).parent / "messages.txt"
FUNCTIONS = {"score": pa.float64()}
BREAK = "\n====\n"


def message(script: str, streams: dict[str, Schema]) -> str:
    """Parse and bind every statement of a script, and return what is said about it."""
    try:
        for statement in parse(script):
            if isinstance(statement, Read | CreateQuery):
                bind_query(statement.query, streams, FUNCTIONS, relations=["limits"])
            elif isinstance(statement, CreateTemplate):
                given = dict(statement.parameters)
                bind_query(statement.query, streams, FUNCTIONS, given, relations=["limits"])
            elif isinstance(statement, DeleteRows):
                bind_condition(statement.where, {"low": "double", "_query": "text"})
    except LanguageError as error:
        return f"{error.code} at {error.line}:{error.column}\n{error}"
    return "no error"


def cases() -> list[tuple[str, str]]:
    blocks = FILE.read_text(encoding="utf-8").rstrip("\n").split(BREAK)
    return [(script, told) for script, _, told in (each.partition("\n----\n") for each in blocks)]


@pytest.mark.parametrize(("script", "told"), cases())
def test_a_message_says_what_where_and_what_to_do(
    script: str, told: str, streams: dict[str, Schema]
) -> None:
    if os.environ.get("BLESS"):
        pytest.skip("the file is rewritten")

    assert message(script, streams) == told


def test_messages_keep_the_rules_of_the_house(streams: dict[str, Schema]) -> None:
    for script, _ in cases():
        code, first, *rest = message(script, streams).split("\n")

        assert re.fullmatch(r"CQL\d{3} at \d+:\d+", code)
        assert not re.search(r"\b(invalid|illegal|unable|sqlglot)\b", first, re.IGNORECASE), first
        assert not first.endswith(".")
        assert re.fullmatch(r" *\d+ \|.*", rest[0])
        assert re.fullmatch(r" +\| +\^+", rest[1])
        for line in rest[2:]:
            assert re.fullmatch(r"  (detail|hint): .*[.?]", line), line


@pytest.mark.skipif(not os.environ.get("BLESS"), reason="only rewrites the file")
def test_bless(streams: dict[str, Schema]) -> None:
    blocks = [f"{script}\n----\n{message(script, streams)}" for script, _ in cases()]
    FILE.write_text(BREAK.join(blocks) + "\n", encoding="utf-8")
