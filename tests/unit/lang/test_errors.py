"""Excerpts: the line, the carets, and what is done about long and wide lines."""

from __future__ import annotations

import pytest

from millrace.lang.errors import WIDEST_EXCERPT, LanguageError, Span, excerpt, place, quoted


@pytest.mark.parametrize(
    ("source", "span", "shown"),
    [
        ("SELECT a", Span(7, 8), "  1 | SELECT a\n    |        ^"),
        ("a\nbb\nc", Span(2, 4), "  2 | bb\n    | ^^"),
        ("a\r\nbb\rc", Span(6, 7), "  3 | c\n    | ^"),
        ("ab", Span(2, 2), "  1 | ab\n    |   ^"),  # behind the end
        ("", Span(0, 0), "  1 |\n    | ^"),
        ("a = 'x\ny'", Span(4, 9), "  1 | a = 'x\n    |     ^^"),  # to the end of its line
        ("\ta", Span(1, 2), "  1 |  a\n    |  ^"),
        ("a\0b", Span(1, 2), "  1 | a\N{SYMBOL FOR NULL}b\n    |  ^"),
        ("'株式' x", Span(5, 6), "  1 | '株式' x\n    |        ^"),  # two cells each
        ("'e\u0301' x", Span(5, 6), "  1 | 'e\u0301' x\n    |     ^"),  # an accent has none
        ("\n" * 1233 + "x", Span(1233, 1234), "1234 | x\n     | ^"),
    ],
)
def test_carets_stand_below_what_is_meant(source: str, span: Span, shown: str) -> None:
    assert excerpt(source, span) == shown


@pytest.mark.parametrize("at", [0, 50, 100, 500, 993])
def test_a_long_line_is_cut_around_the_carets(at: int) -> None:
    source = "a" * at + " wrong " + "b" * (993 - at)

    line, carets = excerpt(source, Span(at + 1, at + 6)).split("\n")

    assert len(line) <= WIDEST_EXCERPT + len("  1 | ")
    assert line[carets.index("^") : carets.rindex("^") + 1] == "wrong"


def test_a_long_part_is_cut_too() -> None:
    line, carets = excerpt("x" * 1000, Span(100, 900)).split("\n")

    assert max(len(line), len(carets)) <= WIDEST_EXCERPT + len("  1 | ") + len("...")


def test_places_are_counted_from_one() -> None:
    assert [place("a\nb\r\nc", at) for at in (0, 1, 2, 5)] == [(1, 1), (1, 2), (2, 1), (3, 1)]


def test_what_a_message_quotes_is_short_and_on_one_line() -> None:
    assert quoted("a\n  b", Span(0, 5)) == "a b"
    assert len(quoted("x" * 100, Span(0, 100))) == 60


def test_an_error_is_message_excerpt_detail_and_hint() -> None:
    error = LanguageError(
        "it\nis wrong", source="ab cd", span=Span(3, 5), code="CQL001", detail="D.", hint="H."
    )

    assert (error.message, error.code, error.line, error.column) == ("it is wrong", "CQL001", 1, 4)
    assert str(error) == "it is wrong\n  1 | ab cd\n    |    ^^\n  detail: D.\n  hint: H."
