"""Statements, cut out of what is typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.cli.shell.pieces import cut, pieces
from millrace.lang.errors import LanguageError
from millrace.lang.lexical import statements

PARTS = st.sampled_from(
    ["SELECT 1", ";", "'a;b'", '"n;m"', "-- c;\n", "/* ; */", "/* /* ; */ ; */", " ", "\n", "''"]
)


@given(st.lists(PARTS, max_size=8).map(" ".join))
def test_it_cuts_where_the_language_does(text: str) -> None:
    try:
        spans = [text[span.first : span.stop] for span in statements(text)]
    except LanguageError:
        return
    empty = {"", *(each for each in spans if not _has_words(each))}

    found = [piece.text for piece in pieces(text)]

    assert [each for each in found if each not in empty and _has_words(each)] == [
        each for each in spans if each not in empty
    ]


def _has_words(text: str) -> bool:
    return any(word in text.replace("/* ; */", "") for word in ("SELECT", "'", '"n'))


@pytest.mark.parametrize("text", ["SELECT 'a;", 'SELECT "a;', "SELECT /* ;", "SELECT 1", "-- ;"])
def test_what_has_not_ended_is_left(text: str) -> None:
    assert cut(text) == ([], text)


def test_a_statement_keeps_its_place() -> None:
    text = "SHOW STREAMS;\n\n  SELECT 1;"

    _, second = pieces(text)

    assert second.placed_in(text) == "\n\n  SELECT 1"


def test_nothing_is_no_statement() -> None:
    assert pieces(" ;; -- nothing\n ; ") == []
