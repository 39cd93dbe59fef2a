"""The needles of one column in one automaton, and the search of a column for all of them.

A column needs up to two automata, one of which ignores case. They are flat arrays: one process
builds them, others map the file.

Ignoring case is sound because of what RE2 (ILIKE, `~*`, `(?i)`) takes to be alike. It compares
character by character, by simple case folding. Needles that ignore case are ASCII, so all that
counts is what folds to an ASCII letter: that letter in both cases, and by Unicode two more,

    U+212A KELVIN SIGN      folds to k      utf8_lower makes it k
    U+017F LONG S           folds to s      utf8_lower leaves it: replaced here

The automaton itself takes ASCII letters as alike, so only a column that holds bytes above 127 is
lower-cased, and its long s replaced. Both work character by character, so what stood side by side
still does, and what stood at an end too. They may make *more* alike than RE2 does (U+0130, I WITH
DOT, becomes i), hence a needle that ignores case is a candidate, never proof.

Invariant: without case, the pairs found are exactly the pairs that there are; ignoring case, they
are all that RE2 would find, and perhaps more.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds_of

from millrace.index.text.needles import Needle
from millrace.index.text.patterns import KINDS
from millrace.kernels.aho_corasick import Automaton, build_automaton, scan_texts
from millrace.kernels.arrays import Bools, Bytes, Ints, Ints32

_LONG_S = "\u017f"
_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}


def build(needles: Sequence[Needle]) -> dict[tuple[str, bool], Automaton]:
    """Build the automata of all columns, by column and whether case is ignored.

    What `find` returns are positions in `needles`.
    """
    members: dict[tuple[str, bool], list[int]] = {}
    for number, needle in enumerate(needles):
        members.setdefault((needle.column, needle.ignore_case), []).append(number)
    automata = {}
    for (column, ignore_case), numbers in members.items():
        texts = pa.array([needles[number].text for number in numbers], pa.large_string())
        kinds = np.array([_NUMBERS[needles[number].kind] for number in numbers], np.uint8)
        automaton = build_one(texts, kinds, ignore_case=ignore_case)
        automaton["needles"] = np.array(numbers, np.int32)[automaton["needles"]]
        automata[column, ignore_case] = automaton
    return automata


def build_one(texts: pa.Array, kinds: Bytes, *, ignore_case: bool = False) -> Automaton:
    """Build the automaton of one column from texts and the numbers of their kinds in `KINDS`.

    What `find` returns are positions in `texts`, none of which is NULL. To ignore case, they have
    to be ASCII, in either case.
    """
    assert texts.null_count == 0, "a needle is a text"
    offsets, data = _buffers(texts)
    assert not (ignore_case and _beyond_ascii(offsets, data)), "only ASCII has a known lower case"
    automaton = build_automaton(offsets, data, kinds, ignore_case=ignore_case)
    automaton["ignore_case"] = np.array([ignore_case])
    return automaton


def find(automaton: Automaton, column: pa.Array | pa.ChunkedArray) -> tuple[Ints32, Ints32]:
    """Return the pairs (row, needle) that there are in a column of text, each once, unordered.

    The automaton is only read. A row that is NULL holds nothing, not even the empty needle.

    Examples
    --------
    >>> needles = [Needle("line", "disk"), Needle("line", "full", "suffix")]
    >>> rows, found = find(build(needles)["line", False], pa.array(["disk full", None, "fully"]))
    >>> sorted(zip(rows.tolist(), found.tolist()))
    [(0, 0), (0, 1)]
    """
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    all_rows, all_needles, first = [np.empty(0, np.int32)], [np.empty(0, np.int32)], 0
    for chunk in chunks:
        rows, needles = _find_in_chunk(automaton, chunk)
        all_rows.append(rows + np.int32(first))
        all_needles.append(needles)
        first += len(chunk)
    return np.concatenate(all_rows), np.concatenate(all_needles)


def _find_in_chunk(automaton: Automaton, chunk: pa.Array) -> tuple[Ints32, Ints32]:
    if not (kinds_of.is_string(chunk.type) or kinds_of.is_large_string(chunk.type)):
        chunk = chunk.cast(pa.large_string())
    offsets, data = _buffers(chunk)
    if automaton["ignore_case"][0] and _beyond_ascii(offsets, data):
        chunk = pc.replace_substring(pc.utf8_lower(chunk), _LONG_S, "s")
        offsets, data = _buffers(chunk)
    valid: Bools | None = None
    if chunk.null_count:
        valid = chunk.is_valid().to_numpy(zero_copy_only=False)
    return scan_texts(automaton, offsets, data, valid)


def _buffers(texts: pa.Array) -> tuple[Ints, Bytes]:
    """Return the offsets and bytes of an array or of a slice of one; the bytes are not copied."""
    if len(texts) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = texts.buffers()
    kind = np.int32 if kinds_of.is_string(texts.type) else np.int64
    positions = np.frombuffer(offsets, kind)[texts.offset : texts.offset + len(texts) + 1]
    characters = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return positions.astype(np.int64), characters


def _beyond_ascii(offsets: Ints, data: Bytes) -> bool:
    return bool(data[offsets[0] : offsets[-1]].max(initial=0) > 127)
