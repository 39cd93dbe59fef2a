"""The automaton against `needle in text`, for every kind of needle and in both of its layouts."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.kernels import aho_corasick
from millrace.kernels.aho_corasick import (
    CONTAINS,
    PREFIX,
    SUFFIX,
    Automaton,
    build_automaton,
    scan_texts,
)
from millrace.kernels.arrays import Bytes, Ints

# Few letters: needles overlap, and are prefixes, suffixes and copies of each other.
FEW = st.binary(max_size=6).map(lambda text: bytes(97 + byte % 3 for byte in text))
TEXTS = FEW | st.lists(FEW, max_size=8).map(b"".join) | st.binary(max_size=20)
NEEDLES = st.lists(st.tuples(FEW | st.binary(max_size=4), st.integers(0, 3)), max_size=30)
ROWS = st.lists(st.none() | TEXTS, max_size=20)
DENSE = st.sampled_from([0, 64, 16 << 20])  # bytes: one state, a few, all


def packed(texts: list[bytes]) -> tuple[Ints, Bytes]:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return offsets, np.frombuffer(b"".join(texts), np.uint8)


def built(needles: list[tuple[bytes, int]], *, ignore_case: bool = False) -> Automaton:
    offsets, data = packed([text for text, _ in needles])
    kinds = np.array([kind for _, kind in needles], np.uint8)
    return build_automaton(offsets, data, kinds, ignore_case=ignore_case)


def found(automaton: Automaton, rows: list[bytes | None]) -> list[tuple[int, int]]:
    offsets, data = packed([row or b"" for row in rows])
    valid = np.array([row is not None for row in rows], np.bool_)
    known = None if valid.all() else valid
    pairs = scan_texts(automaton, offsets.astype(np.int32), data, known)
    return sorted(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))


def stands(needle: bytes, kind: int, text: bytes) -> bool:
    if kind == CONTAINS:
        return needle in text
    if kind == PREFIX:
        return text.startswith(needle)
    return text.endswith(needle) if kind == SUFFIX else text == needle


def expected(needles: list[tuple[bytes, int]], rows: list[bytes | None]) -> list[tuple[int, int]]:
    return [
        (row, number)
        for row, text in enumerate(rows)
        for number, (needle, kind) in enumerate(needles)
        if text is not None and stands(needle, kind, text)
    ]


@given(NEEDLES, ROWS, DENSE)
@example([(b"he", 0), (b"she", 0), (b"hers", 2), (b"", 3), (b"", 0)], [b"ushers", b"", None], 0)
@example([(bytes([byte]), 0) for byte in range(256)], [bytes(range(256))], 16 << 20)  # no class 0
def test_finds_what_is_in_the_text_and_each_pair_once(
    needles: list[tuple[bytes, int]], rows: list[bytes | None], n_bytes: int
) -> None:
    with patch.object(aho_corasick, "_DENSE_BYTES", n_bytes):
        automaton = built(needles)

    assert found(automaton, rows) == expected(needles, rows)


@given(NEEDLES, ROWS, DENSE)
def test_ignores_the_case_of_ascii_letters_only(
    needles: list[tuple[bytes, int]], rows: list[bytes | None], n_bytes: int
) -> None:
    with patch.object(aho_corasick, "_DENSE_BYTES", n_bytes):
        automaton = built([(needle.upper(), kind) for needle, kind in needles], ignore_case=True)
    lowered = [None if row is None else row.lower() for row in rows]
    mixed = [None if row is None else row[:2].upper() + row[2:] for row in rows]

    low = expected([(needle.lower(), kind) for needle, kind in needles], lowered)
    assert found(automaton, mixed) == low


def test_many_equal_needles_in_a_long_text_cost_one_visit_each() -> None:
    needles = [(b"a" * (number % 50 + 1), CONTAINS) for number in range(20_000)]
    automaton = built(needles)
    rows: list[bytes | None] = [b"a" * 20_000] * 3

    # Were each place to tell of all needles, this would be 1.2e9 visits.
    assert found(automaton, rows) == [(row, each) for row in range(3) for each in range(20_000)]


def test_more_states_than_are_dense_and_stretches_that_are_sorted_by_counting() -> None:
    random = np.random.default_rng(7)
    words = [bytes(random.integers(97, 123, size).tolist()) for size in random.integers(1, 9, 4000)]
    needles = [
        (word, int(kind)) for word, kind in zip(words, random.integers(0, 4, 4000), strict=True)
    ]
    rows: list[bytes | None] = [b" ".join(words[first : first + 3]) for first in range(0, 60, 3)]

    with patch.object(aho_corasick, "_DENSE_BYTES", 1 << 14):
        automaton = built(needles)

    assert automaton["shape"][1] < automaton["labels"].size
    assert found(automaton, rows) == expected(needles, rows)


def test_no_needles_and_no_rows() -> None:
    assert found(built([]), [b"text", None]) == []
    assert found(built([(b"text", CONTAINS)]), []) == []


def test_an_automaton_may_be_mapped_read_only(tmp_path: Path) -> None:
    needles = [(b"disk", 0), (b"full", 2), (b"disk full", 3), (b"di", 1)]
    for name, part in built(needles).items():
        np.save(tmp_path / f"{name}.npy", part)
    mapped = {path.stem: np.load(path, mmap_mode="r") for path in sorted(tmp_path.glob("*.npy"))}

    assert found(mapped, [b"disk full", b"full disk"]) == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    with pytest.raises(ValueError, match="read-only"):
        mapped["dense"][0] = 1
