"""Texts of standing queries: what was asked, with the constants of each query in their places.

Queries of a family differ in constants alone, so the texts of a million are one text cut where
its parameters stand, and as many columns: they are joined by Arrow, not one by one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.feeds import Family, FeedSpec
from millrace.lang.words import value_text

_NUMBERED = re.compile(r"\$(\d+)")


def texts_of(feed: FeedSpec, family: Family, rows: pa.RecordBatch) -> pa.Array:
    """Return what each query of a family asks, a row of constants each.

    A query with a feed of its own was written by hand, and is told as it was written.
    """
    if feed.kind == "query" and feed.text:
        return pa.array([feed.text] * rows.num_rows, pa.string())
    text, places = _template(feed) if feed.kind == "template" else _selection(family)
    parts: list[pa.Array | str] = [text[0]]
    for number, literal in zip(places, text[1:], strict=True):
        parts += [_spelt(rows.column(f"p{number}")), literal]
    if len(parts) == 1:
        return pa.array([text[0]] * rows.num_rows, pa.string())
    return pc.binary_join_element_wise(*parts, "", null_handling="replace", null_replacement="NULL")


def _template(feed: FeedSpec) -> tuple[list[str], list[int]]:
    names = [name for name, _ in feed.parameters]
    pattern = re.compile(r"(?<![:\w]):(" + "|".join(map(re.escape, names)) + r")\b", re.IGNORECASE)
    folded = [name.casefold() for name in names]
    return _cut(pattern, feed.text, lambda found: folded.index(found.casefold()))


def _selection(family: Family) -> tuple[list[str], list[int]]:
    return _cut(_NUMBERED, str(family.selection), int)


def _cut(pattern: re.Pattern[str], text: str, number: object) -> tuple[list[str], list[int]]:
    """Cut a text where parameters stand; say which parameter stands at each cut."""
    assert callable(number), "a name becomes a number"
    pieces = pattern.split(text)
    return pieces[::2], [number(each) for each in pieces[1::2]]


def _spelt(column: pa.Array) -> pa.Array:
    """Spell constants as SQL does."""
    kind = column.type
    if pa.types.is_string(kind):
        doubled = pc.replace_substring(column, "'", "''")
        return pc.binary_join_element_wise("'", doubled, "'", "")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return column.cast(pa.string())
    return pa.array([_shown(each) for each in column.to_pylist()], pa.string())


def _shown(value: object) -> str:
    plain: object = tuple(value) if isinstance(value, Sequence) and not isinstance(
        value, str | bytes
    ) else value  # fmt: skip
    return value_text(plain)  # type: ignore[arg-type]
