"""Search of columns: slices, chunks, widths; and ignoring case loses nothing that RE2 finds."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.index.text.automaton import build, build_one, find
from millrace.index.text.needles import Needle
from millrace.index.text.patterns import KINDS, Kind
from millrace.plan.patterns import quoted

ALPHABET = "aåbkKsSiI\u017f\u212a\u0130ß日"
TEXTS = st.text(ALPHABET, max_size=8)
COLUMNS = st.lists(st.none() | TEXTS, max_size=15)
NEEDLES = st.lists(st.tuples(st.text(ALPHABET, max_size=3), st.sampled_from(KINDS)), max_size=12)
FOLDED = st.lists(
    st.tuples(st.text("abksi", min_size=1, max_size=3), st.sampled_from(KINDS)), max_size=12
)
TYPES = st.sampled_from([pa.string(), pa.large_string(), pa.string_view()])


def pairs(automata: dict[tuple[str, bool], Any], key: tuple[str, bool], column: Any) -> list[Any]:
    if key not in automata:
        return []
    rows, needles = find(automata[key], column)
    return sorted(zip(rows.tolist(), needles.tolist(), strict=True))


def stands(kind: Kind, needle: str, text: str) -> bool:
    if kind == "contains":
        return needle in text
    if kind == "prefix":
        return text.startswith(needle)
    return text.endswith(needle) if kind == "suffix" else text == needle


@given(NEEDLES, COLUMNS, TYPES, st.integers(0, 5), st.integers(0, 5))
def test_finds_what_is_in_each_row_of_a_slice(
    needles: list[tuple[str, Kind]],
    texts: list[str | None],
    kind: pa.DataType,
    first: int,
    cut: int,
) -> None:
    automata = build([Needle("line", text, where) for text, where in needles])
    column = pa.array(texts, kind).slice(first)
    chunked = pa.chunked_array([column.slice(0, cut), column.slice(cut)], kind)

    expected = [
        (row, number)
        for row, text in enumerate(texts[first:])
        for number, (needle, where) in enumerate(needles)
        if text is not None and stands(where, needle, text)
    ]
    assert pairs(automata, ("line", False), column) == expected
    assert pairs(automata, ("line", False), chunked) == expected


@given(FOLDED, COLUMNS, st.integers(0, 5))
def test_ignoring_case_finds_all_that_re2_does(
    needles: list[tuple[str, Kind]], texts: list[str | None], first: int
) -> None:
    column = pa.array(texts, pa.string()).slice(first)
    found = set(
        pairs(
            build([Needle("line", text, kind, ignore_case=True) for text, kind in needles]),
            ("line", True),
            column,
        )
    )

    shapes = {"contains": "{}", "prefix": r"\A{}", "suffix": r"{}\z", "equals": r"\A{}\z"}
    for number, (needle, kind) in enumerate(needles):
        regex = shapes[kind].format(quoted(needle))
        answers = pc.match_substring_regex(column, regex, ignore_case=True).to_pylist()
        assert {(row, number) for row, answer in enumerate(answers) if answer} <= found


def test_no_character_folds_to_an_ascii_letter_unseen() -> None:
    """All of Unicode: what RE2 takes for a letter when it ignores case, the automaton finds."""
    column = pa.array([chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000])
    letters = [
        Needle("line", letter, "equals", ignore_case=True) for letter in string.ascii_lowercase
    ]
    rows, needles = find(build(letters)["line", True], column)

    for number, letter in enumerate(string.ascii_lowercase):
        alike = pc.match_substring_regex(column, letter, ignore_case=True).to_numpy(
            zero_copy_only=False
        )
        assert set(np.flatnonzero(alike)) <= set(rows[needles == number])


def test_numbers_of_needles_are_their_positions_in_the_whole_list() -> None:
    needles = [
        Needle("a", "xx"),
        Needle("b", "xx"),
        Needle("a", "xx", "equals"),
        Needle("a", "xx", ignore_case=True),
    ]
    automata = build(needles)

    assert set(automata) == {("a", False), ("b", False), ("a", True)}
    column = pa.array(["xx", "Xx"])
    assert pairs(automata, ("a", False), column) == [(0, 0), (0, 2)]
    assert pairs(automata, ("b", False), column) == [(0, 1)]
    assert pairs(automata, ("a", True), column) == [(0, 3), (1, 3)]


def test_needles_may_be_a_slice_of_a_column() -> None:
    texts = pa.array(["no", "disk", "full"]).slice(1)
    rows, needles = find(
        build_one(texts, np.array([0, 2], np.uint8)), pa.array(["disk full", "no"])
    )

    assert sorted(zip(rows.tolist(), needles.tolist(), strict=True)) == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([], pa.string()),
        pa.nulls(3, pa.string()),
        pa.chunked_array([], pa.string()),
        pa.array(["", ""]),
    ],
)
def test_columns_without_a_byte(column: pa.Array) -> None:
    automata = build([Needle("line", "disk"), Needle("line", "disk", "equals", ignore_case=True)])

    assert pairs(automata, ("line", False), column) == pairs(automata, ("line", True), column) == []


def test_a_dictionary_is_searched_as_the_text_it_stands_for() -> None:
    column = pa.array(["disk", "full", "disk"]).dictionary_encode()

    assert pairs(build([Needle("line", "disk")]), ("line", False), column) == [(0, 0), (2, 0)]
