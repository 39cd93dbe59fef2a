"""LIKE and regular expressions: what a needle promises, against the engine that runs them."""

from __future__ import annotations

import re
import time

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.index.text.patterns import KINDS, LikeForm, read_like, read_likes
from millrace.index.text.regexes import read_regex, required_literals
from millrace.operators.matching import like

LETTERS = "aAb%_!é\ue000"
PATTERNS = st.text(LETTERS, max_size=8)
TEXTS = st.text(LETTERS + "\u017fsSKk\u212a", max_size=8)


def stands(kind: str, needle: str, text: str) -> bool:
    match kind:
        case "contains":
            return needle in text
        case "prefix":
            return text.startswith(needle)
        case "suffix":
            return text.endswith(needle)
        case _:
            return text == needle


@given(PATTERNS, st.sampled_from([None, "!", "%", "_", "a"]), st.lists(TEXTS))
@example("a!", "!", ["a", "a!"])
@example("!%_", "!", ["%a", "%"])
def test_a_text_that_is_like_a_pattern_holds_all_its_pieces(
    pattern: str, escape: str | None, texts: list[str]
) -> None:
    form = read_like(pattern, escape)
    answers = like(pa.array([*texts, pattern]), pa.scalar(pattern), escape, ignore_case=False)

    for text, answer in zip([*texts, pattern], answers.to_pylist(), strict=True):
        if answer:
            assert all(stands(kind, piece, text) for kind, piece in form.pieces)
        if form.exact:
            assert bool(answer) == stands(form.kind, form.text, text)


@given(st.lists(st.none() | PATTERNS, max_size=12), st.sampled_from([None, "!", "%", "_"]))
def test_many_patterns_are_read_as_one_is(patterns: list[str | None], escape: str | None) -> None:
    forms = read_likes(pa.array(patterns, pa.string()), escape)
    texts, stems = forms.texts.to_pylist(), forms.stems.to_pylist()

    for row, pattern in enumerate(patterns):
        if pattern is None:
            assert (texts[row], bool(forms.exact[row])) == (None, False)
        else:
            form = read_like(pattern, escape)
            assert (KINDS[forms.kinds[row]], texts[row]) == (form.kind, form.text)
            assert (bool(forms.exact[row]), stems[row]) == (form.exact, form.stem)


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        ("order-7", LikeForm("equals", "order-7", True, (("equals", "order-7"),))),
        ("order%", LikeForm("prefix", "order", True, (("prefix", "order"),))),
        ("%%order", LikeForm("suffix", "order", True, (("suffix", "order"),))),
        ("%order%", LikeForm("contains", "order", True, (("contains", "order"),))),
        ("order_", LikeForm("prefix", "order", False, (("prefix", "order"),))),
        ("%", LikeForm("contains", "", True, ())),
        ("", LikeForm("equals", "", True, (("equals", ""),))),
    ],
)
def test_the_forms_of_like(pattern: str, form: LikeForm) -> None:
    assert read_like(pattern) == form


def test_of_several_pieces_the_longest_is_the_needle() -> None:
    pieces = (("prefix", "a"), ("contains", "bcd"), ("suffix", "e"))

    assert tuple(read_like("a%bcd%e")) == ("contains", "bcd", False, pieces)


def test_a_hundred_thousand_patterns_are_read_at_once() -> None:
    patterns = pa.array([f"%wo_rd{number}%" for number in range(100_000)])
    started = time.process_time()
    read_likes(patterns)

    assert time.process_time() - started < 1  # 0.05 s when nothing else runs


# ---- regular expressions -------------------------------------------------------------------------

SPECIAL = [r"\.", r"\d", r"\w", r"\b", "^", "$", ".", "[ab]", "[^a]", "[a-c]", "[]a]", r"[\]b-]"]
FLAGS = ["(?i)", "(?s)", "(?i:a)", "(?-i:B)", "(?:ab)", "(?P<n>b)", "(?i-s:K)"]
ODD = [
    "{",
    "}",
    "]",
    "a{,2}",
    "[[:alpha:]]",
    r"\x41",
    r"\Qa.b\E",
    r"\pL",
    r"\101",
    "[A-Ca]",
    "é",
    "\u017f",
]
COUNTS = ["*", "+", "?", "{2}", "{0,2}", "{1,}", "{2,3}", "*?", "+?", "??"]
ATOMS = st.sampled_from([*"aAbBsSkK", "ab", "Foo", "bar", *SPECIAL, *FLAGS, *ODD])
REGEXES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.builds("({}){}".format, inner, st.sampled_from(["", *COUNTS])),
        st.builds("{}{}".format, ATOMS, st.sampled_from(COUNTS)),
    ),
    max_leaves=8,
)
SAMPLES = st.text("aAbBcFfoOrsSkKé\u017f\u212a\u0130.{,2}] ", max_size=12)


def folded(text: str) -> str:
    """What `automaton` makes of a text in which case is ignored."""
    lowered: str = pc.utf8_lower(pa.scalar(text)).as_py()
    return lowered.replace("\u017f", "s")


def holds_one(regex: str, text: str, *, ignore_case: bool) -> bool:
    form = read_regex(regex, ignore_case=ignore_case)
    searched = folded(text) if form.ignore_case else text
    return not form.literals or any(literal in searched for literal in form.literals)


@given(REGEXES, st.lists(SAMPLES, min_size=1), st.booleans())
@example("(?i)disk", ["DIS\u212a", "di\u017fk"], False)
@example("[[:alpha:]]", ["a"], False)
@example("a{,2}", ["a{,2}"], False)
@example(r"\Qa|b\E", ["a|b"], False)
def test_what_re2_matches_holds_a_required_literal(
    regex: str,
    texts: list[str],
    ignore_case: bool,  # noqa: FBT001 - drawn
) -> None:
    try:
        matches = pc.match_substring_regex(pa.array(texts), regex, ignore_case=ignore_case)
    except pa.ArrowInvalid:
        return

    for text, match in zip(texts, matches.to_pylist(), strict=True):
        assert not match or holds_one(regex, text, ignore_case=ignore_case)


PLAIN = st.sampled_from([*"abAB", "ab", "Foo", "bar", *SPECIAL, "(?:ab)"])
SHARED = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=3).map("|".join),
        st.builds("({}){}".format, inner, st.sampled_from(["", *COUNTS])),
    ),
    max_leaves=8,
)


@given(st.data())
def test_a_text_made_to_match_holds_a_required_literal(data: st.DataObject) -> None:
    """With syntax that Python shares, Hypothesis writes texts that do match."""
    regex = data.draw(SHARED)
    try:
        compiled = re.compile(regex)
    except re.error:
        return
    text = data.draw(st.from_regex(compiled))

    assert holds_one(regex, text, ignore_case=False)


@pytest.mark.parametrize(
    ("regex", "literals"),
    [
        ("(foo|bar)baz?", ["barba", "fooba"]),
        ("disk (full|fault) on sd", ["disk fault on sd", "disk full on sd"]),
        ("user=[0-9]+ .*timeout", ["timeout"]),
        ("^GET /api/v[12]/", ["GET /api/v1/", "GET /api/v2/"]),
        (r"a\.b\.com$", ["a.b.com"]),
        ("(?i)Disk +FULL", ["disk "]),
        ("(?i)Straße", ["stra"]),
        ("Straße", ["Straße"]),
        ("(ab){3}", ["ababab"]),
        ("foo|.*", []),
        ("a*", []),
        ("", []),
        (r"foo\pL", []),
        ("(", []),
        ("|".join(f"word{number}" for number in range(300)), []),  # too many to be useful
    ],
)
def test_the_literals_of_a_regex(regex: str, literals: list[str]) -> None:
    assert required_literals(regex) == literals


@pytest.mark.parametrize(
    "regex", ["(" * 500 + "a" + ")" * 500, "(((ab){900}){900}){900}", "(a|b)" * 200, "a?" * 300]
)
def test_a_regex_that_could_explode_does_not(regex: str) -> None:
    assert all(len(literal) <= 64 for literal in required_literals(regex))


def test_a_repetition_behind_flags_gives_no_needle() -> None:
    """RE2 repeats what stands before the flags: here the r."""
    assert read_regex("error(?i)?").literals == ()
    assert read_regex("(?i)error").literals == ("error",)
