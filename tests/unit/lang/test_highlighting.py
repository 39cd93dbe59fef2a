"""Colours: every text is coloured whole, and every word of the language is known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pygments.token import Comment, Error, Keyword, Name, Number, String

from millrace.lang.cursor import RESERVED
from millrace.lang.highlighting import FUNCTIONS, KEYWORDS, CqlLexer
from millrace.operators import functions

PIECES = st.sampled_from(
    ["SELECT ", "'", '"', "--", "/*", "*/", "\n", "1e5", "[RANGE 1", ":x", "X'0g", "é", ";", "\\"]
)


@given(st.lists(PIECES | st.text(max_size=3)).map("".join))
def test_any_text_is_coloured_without_an_error(text: str) -> None:
    tokens = list(CqlLexer(stripnl=False, ensurenl=False).get_tokens_unprocessed(text))

    assert "".join(word for _, _, word in tokens) == text
    assert all(kind is not Error for _, kind, _ in tokens)


def test_words_have_their_colours() -> None:
    text = "SELECT count(*), :low FROM t [RANGE 5 minutes] WHERE a = 'it''s' -- why"

    found = {word: kind for kind, word in CqlLexer().get_tokens(text)}

    assert found["SELECT"] is Keyword
    assert found["count"] is Name.Function
    assert found[":low"] is Name.Variable.Instance
    assert found["minutes"] is Keyword.Pseudo
    assert found["5"] is Number
    assert found["'it''s'"] is String.Single
    assert found["-- why"] is Comment.Single
    assert found["a"] is Name


def test_every_reserved_word_is_a_keyword() -> None:
    assert not RESERVED - KEYWORDS


def test_every_function_is_known() -> None:
    assert not set(functions.FUNCTIONS) - FUNCTIONS
