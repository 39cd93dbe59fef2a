"""Lifting literals, judged by sqlglot's tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from millrace.lang.lift import Lifted, lift, places
from millrace.testing.oracle import lifting

NUMBERS = st.sampled_from(
    ["1", "007", "1.5", "1.", ".5", "1e5", "1.5E-3", "2e+7", "10s", "1e", "5.5.5"]
)
TEXTS = st.sampled_from(["'a'", "'it''s'", "''", "'1 /* -- \"'", "' IN (1, 2) '", "N'x'", "e'x'"])
NAMES = st.sampled_from(["a", "t1", "x5y", '"q 5"', '"d""q"', "été", "IN", "SELECT", "NULL", "a.b"])
SIGNS = st.sampled_from([*"(),=<>+-*/%[]", "::", "<=", "||", "<>"])
SPACE = st.sampled_from(["", " ", "  ", "\n", "\t", " -- 5 '\n", "/* 7 /* 8 */ ' */"])
BYTES = st.sampled_from(["X'00ff'", "x''", "X'0'", "0x1F"])


@st.composite
def a_list(draw: st.DrawFn) -> str:
    members = draw(st.lists(st.sampled_from(["1", "-2", "- 3", "4.5", "6e1", "'a'", "NULL", "b"])))
    space = draw(SPACE)
    return f" {draw(st.sampled_from(['IN', 'in', 'NOT IN']))}{space}({', '.join(members)}{space})"


SOUP = st.lists(st.one_of(NUMBERS, TEXTS, NAMES, SIGNS, SPACE, BYTES, a_list()), max_size=14)


@given(SOUP.map("".join))
@example("a IN (1, -2.5, 3e0)")
@example("X'00'X'11'")
@example("1.5.5 .5a a.5 .5.5")
@example("1e5-2e+7+1e5")  # sqlglot alone reads 1e5-2 as one number
def test_lifts_the_literals_of_the_tokenizer(text: str) -> None:
    assume(lifting.well_formed(text))

    lifted = lift(text)

    if not lifted.skeleton.startswith("\2"):  # nothing was lifted, which is always right
        found = lifting.flat(lifted)
        assert lifting.within(found, lifting.literals(text))
        assert lifting.within(lifting.literals(text, alone=True), found)


@given(SOUP.map("".join))
@example("a IN (1, -2.5, 3e0)")
@example("a IN (- 3)")
def test_putting_the_literals_back_gives_the_same_tokens(text: str) -> None:
    assume(lifting.well_formed(text) and '"' not in text)

    lifted = lift(text)

    assume(not lifted.skeleton.startswith("\2"))
    assert lifting.tokens(lifting.substituted(lifted)) == lifting.tokens(text)


@given(SOUP.map("".join))
def test_places_are_where_the_literals_are_written(text: str) -> None:
    assume(lifting.well_formed(text))

    lifted = lift(text)

    for place, literal in zip(places(text), lifted.literals, strict=True):
        written = text[place.first : place.stop]
        members = literal if isinstance(literal, tuple) else (literal,)
        assert lifting.literals(written) == [each.removeprefix("-") for each in members]
        assert place.many == isinstance(literal, tuple)


@pytest.mark.parametrize(
    ("text", "lifted"),
    [
        ("a  =\n1", Lifted("a = \0i", ("1",))),
        ("a = -1", Lifted("a = -\0i", ("1",))),
        ("a IN (1)", Lifted("a IN (\0I)", (("1",),))),
        ("a IN (1, 2.5)", Lifted("a IN (\0D)", (("1", "2.5"),))),
        ("a IN (1, 2e1, -3)", Lifted("a IN (\0F)", (("1", "2e1", "-3"),))),
        ("a in ('x', 'y')", Lifted("a in (\0S)", (("x", "y"),))),
        ("a IN (1, 'x')", Lifted("a IN (\0i, \0s)", ("1", "x"))),
        ("a IN (1, NULL)", Lifted("a IN (\0i, NULL)", ("1",))),
        ("plain(1, 2)", Lifted("plain(\0i, \0i)", ("1", "2"))),
        ("s [RANGE 10 SECONDS]", Lifted("s [RANGE \0i SECONDS]", ("10",))),
        ("a::decimal(10,2)", Lifted("a::decimal(\0i,\0i)", ("10", "2"))),
        ("X'00ff' = b", Lifted("\0x = b", ("00ff",))),
        ('"a 1" = 1', Lifted('\1 = \0i"a 1"', ("1",))),
        ("TRUE AND NULL", Lifted("TRUE AND NULL", ())),
    ],
)
def test_skeletons(text: str, lifted: Lifted) -> None:
    assert lift(text) == lifted


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "a = 1.0"),  # the kind of a literal belongs to the skeleton
        ("a = 1", "a = '1'"),
        ("a = 1", "a = -1"),
        ('"a" = 1', '"b" = 1'),
        ("a = \0i", "a = 1"),  # a mark cannot be forged
        ('\1 = 1"x"', '"x" = 1'),
        ("\2a", "a"),
    ],
)
def test_different_texts_have_different_skeletons(one: str, other: str) -> None:
    assert lift(one).skeleton != lift(other).skeleton
