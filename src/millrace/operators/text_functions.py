"""Functions of texts. Positions and lengths count characters (code points), from 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from millrace.operators.cast import cast
from millrace.operators.compare import as_type
from millrace.operators.text_slices import Characters, character_at, slice_rows
from millrace.operators.vectors import Datum, Vector, by_distinct, elementwise, masked, vector
from millrace.plan.patterns import regex_fault
from millrace.plan.types import BIGINT, BOOLEAN, TEXT, kind_of

LONGEST_PADDING = 10_000
"""To more characters than this, lpad, rpad and repeat return NULL."""


def texts(*data: Datum) -> tuple[Datum, ...]:
    """Return arguments as texts: one that is a bare NULL has no type yet."""
    return tuple(as_type(each, TEXT) for each in data)


def length(text: Datum) -> Datum:
    """Count characters."""
    return pc.utf8_length(*texts(text)).cast(BIGINT)


def octet_length(text: Datum) -> Datum:
    """Count bytes."""
    return pc.binary_length(text if kind_of(text.type) == "binary" else as_type(text, TEXT)).cast(
        BIGINT
    )


def unary(kernel: Callable[[Datum], Datum]) -> Callable[[Datum], Datum]:
    """Make a function of one text from one of Arrow's."""
    return lambda text: kernel(*texts(text))


def trimming(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    """Make a function that takes characters off the ends of texts, spaces unless told."""

    def trim(text: Datum, characters: Datum | None = None) -> Datum:
        chosen = pa.scalar(" ") if characters is None else characters
        return by_distinct(_trim, *texts(text, chosen), result=TEXT)

    def _trim(rows: pa.Array, characters: str) -> pa.Array:
        return kernel(rows, characters=characters) if characters else rows

    return trim


def searching(kernel: Callable[..., Datum]) -> Callable[..., Datum]:
    """Make a function that tests texts for another text."""
    return lambda text, part: by_distinct(
        lambda rows, each: kernel(rows, pattern=each), *texts(text, part), result=BOOLEAN
    )


def strpos(text: Datum, part: Datum) -> Datum:
    """Return where the other text is found first, 0 if nowhere."""
    return by_distinct(_find, *texts(text, part), result=BIGINT)


def _find(rows: pa.Array, part: str) -> pa.Array:
    found = vector(pc.find_substring(rows, pattern=part).cast(BIGINT))
    at = character_at(rows, np.maximum(found.values, 0)) + 1
    mask = None if found.valid is None else ~found.valid
    return pa.array(np.where(found.values < 0, 0, at), BIGINT, mask=mask)


def replace(text: Datum, part: Datum, other: Datum) -> Datum:
    """Replace a text wherever it is found in another."""

    def change(rows: pa.Array, old: str, new: str) -> pa.Array:
        return pc.replace_substring(rows, pattern=old, replacement=new) if old else rows

    return by_distinct(change, *texts(text, part, other), result=TEXT)


def concat(*parts: Datum) -> Datum:
    """Join values as texts; NULL counts as an empty one."""
    return pc.binary_join_element_wise(
        *(cast(each, TEXT) for each in parts), "", null_handling="replace", null_replacement=""
    )


def concat_ws(separator: Datum, *parts: Datum) -> Datum:
    """Join values as texts with another text between them; those that are NULL are left out."""
    between, found, *others = (cast(each, TEXT) for each in (separator, *parts))
    for each in others:  # what Arrow's own joining skips may be a whole row
        found = pc.coalesce(pc.binary_join_element_wise(found, each, between), found, each)
    return masked(pc.coalesce(found, ""), pc.is_null(between))


def _numbers(datum: Datum) -> Vector:
    return vector(as_type(datum, BIGINT))


def _valid(*vectors: Vector, rows: pa.Array) -> NDArray[np.bool_]:
    valid = rows.is_valid().to_numpy(zero_copy_only=False)
    for each in vectors:
        valid = valid if each.valid is None else valid & each.valid
    return np.asarray(valid)


def substring(text: Datum, first: Datum, n_characters: Datum | None = None) -> Datum:
    """Return the characters from a position on, as many as told; NULL if fewer than none.

    Positions before the first character count too: substring('abc', 0, 2) is 'a'.
    """
    if n_characters is None:
        n_characters = pa.scalar(2**42, BIGINT)

    def cut(rows: pa.Array, starts: pa.Array, counts: pa.Array) -> pa.Array:
        begin, count = _numbers(starts), _numbers(counts)
        valid = _valid(begin, count, rows=rows) & (count.values >= 0)
        low = np.clip(begin.values, -(2**40), 2**40) - 1
        return slice_rows(rows, low, low + np.clip(count.values, 0, 2**42), valid)

    return elementwise(cut, *texts(text), first, n_characters)


def left(text: Datum, n_characters: Datum) -> Datum:
    """Return so many characters from the left; below zero, all but so many."""

    def cut(rows: pa.Array, counts: pa.Array) -> pa.Array:
        count = _numbers(counts)
        stop = np.where(count.values < 0, Characters.of(rows).lengths + count.values, count.values)
        return slice_rows(rows, np.zeros_like(stop), stop, _valid(count, rows=rows))

    return elementwise(cut, *texts(text), n_characters)


def right(text: Datum, n_characters: Datum) -> Datum:
    """Return so many characters from the right; below zero, all but so many."""

    def cut(rows: pa.Array, counts: pa.Array) -> pa.Array:
        count, lengths = _numbers(counts), Characters.of(rows).lengths
        limited = np.clip(count.values, -(2**40), 2**40)
        first = np.where(limited < 0, -limited, lengths - limited)
        return slice_rows(rows, first, lengths, _valid(count, rows=rows))

    return elementwise(cut, *texts(text), n_characters)


def repeat(text: Datum, n_times: Datum) -> Datum:
    """Return a text so many times."""

    def write(rows: pa.Array, counts: pa.Array) -> pa.Array:
        count = _numbers(counts)
        lengths = np.maximum(Characters.of(rows).lengths, 1)
        valid = _valid(count, rows=rows) & (count.values <= LONGEST_PADDING // lengths)
        times = np.where(valid, np.maximum(count.values, 0), 0)
        return pc.binary_repeat(rows, pa.array(times, mask=~valid))

    return elementwise(write, *texts(text), n_times)


def padding(*, before: bool) -> Callable[..., Datum]:
    """Make a function that fills texts up to a length, and cuts longer ones."""

    def pad(text: Datum, n_characters: Datum, filler: Datum | None = None) -> Datum:
        given = pa.scalar(" ") if filler is None else filler
        return elementwise(fill, *texts(text), n_characters, *texts(given))

    def fill(rows: pa.Array, counts: pa.Array, fillers: pa.Array) -> pa.Array:
        count, width = _numbers(counts), Characters.of(fillers).lengths
        valid = _valid(count, rows=rows) & (count.values <= LONGEST_PADDING)
        valid &= fillers.is_valid().to_numpy(zero_copy_only=False)
        wanted = np.where(valid, np.maximum(count.values, 0), 0)
        missing = np.maximum(wanted - Characters.of(rows).lengths, 0)
        repeats = np.where(valid, -(-missing // np.maximum(width, 1)), 0)
        space = slice_rows(
            pc.binary_repeat(fillers, pa.array(repeats)), np.zeros_like(wanted), missing, valid
        )
        body = slice_rows(rows, np.zeros_like(wanted), wanted, valid)
        return pc.binary_join_element_wise(*((space, body) if before else (body, space)), "")

    return pad


def split_part(text: Datum, separator: Datum, number: Datum) -> Datum:
    """Return one of the parts between separators, from 1 or from the end from -1; else ''."""

    def cut(rows: pa.Array, between: pa.Array, numbers: pa.Array) -> pa.Array:
        parts = by_distinct(_split, rows, between, result=pa.list_(TEXT))
        count = _numbers(numbers)
        return _elements(parts, count.values, _valid(count, rows=rows))

    return elementwise(cut, *texts(text, separator), number)


def _split(rows: pa.Array, separator: str) -> pa.Array:
    if separator:
        return pc.split_pattern(rows, pattern=separator)
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, rows, mask=rows.is_null())


def _elements(parts: pa.Array, number: NDArray[Any], valid: NDArray[np.bool_]) -> pa.Array:
    valid = valid & parts.is_valid().to_numpy(zero_copy_only=False)
    offsets = parts.offsets.to_numpy()
    sizes = np.diff(offsets)
    number = np.clip(number, -(2**31), 2**31)
    at = np.where(number > 0, number - 1, sizes + number)
    inside = valid & (at >= 0) & (at < sizes) & (number != 0)
    places = pa.array(np.where(inside, offsets[:-1] + at, 0), mask=~inside)
    found = pc.fill_null(parts.values.take(places), "")
    return found if valid.all() else pc.if_else(pa.array(valid), found, pa.scalar(None, TEXT))


def regexp_replace(text: Datum, pattern: Datum, other: Datum, flags: Datum | None = None) -> Datum:
    """Replace the first match of a regular expression; every one with the flag g."""
    given = pa.scalar("") if flags is None else flags

    def change(rows: pa.Array, regex: str, new: str, options: str) -> pa.Array:
        if regex_fault(regex) is not None or not set(options) <= set("gi"):
            return pa.nulls(len(rows), TEXT)
        flagged = f"(?i){regex}" if "i" in options else regex
        most = None if "g" in options else 1
        try:
            return pc.replace_substring_regex(
                rows, pattern=flagged, replacement=new, max_replacements=most
            )
        except pa.ArrowInvalid:  # the replacement names a group that there is not
            return pa.nulls(len(rows), TEXT)

    return by_distinct(change, *texts(text, pattern, other, given), result=TEXT)


def regexp_extract(text: Datum, pattern: Datum, group: Datum | None = None) -> Datum:
    """Return what a regular expression, or a group of it, matches first; '' if nothing."""
    wanted = pa.scalar(0) if group is None else as_type(group, BIGINT)
    return by_distinct(_extract, *texts(text, pattern), wanted, result=TEXT)


def _extract(rows: pa.Array, regex: str, group: int) -> pa.Array:
    """Replace all of the text by the group; Arrow's own extraction knows named groups only."""
    if regex_fault(regex) is not None or not 0 <= group <= 8:
        return pa.nulls(len(rows), TEXT)
    whole = rf"\A(?s:.*?)({regex})(?s:.*)\z"
    try:
        found = pc.replace_substring_regex(rows, pattern=whole, replacement=rf"\{group + 1}")
    except pa.ArrowInvalid:
        return pa.nulls(len(rows), TEXT)
    return pc.if_else(pc.match_substring_regex(rows, pattern=regex), found, "")
