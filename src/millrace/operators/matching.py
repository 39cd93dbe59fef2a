"""Matching texts: LIKE and regular expressions, with one pattern or with one for each row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from millrace.operators.compare import as_type
from millrace.operators.vectors import Datum, by_distinct
from millrace.plan.patterns import Pieces, Wildcard, like_pieces, like_regex, regex_fault
from millrace.plan.types import BOOLEAN, TEXT


def like(operand: Datum, pattern: Datum, escape: str | None, *, ignore_case: bool) -> Datum:
    """Compare texts with a pattern of LIKE; one that is no pattern makes NULL."""

    def match(rows: pa.Array, text: str) -> pa.Array:
        pieces = like_pieces(text, escape)
        if pieces is None:
            return pa.nulls(len(rows), BOOLEAN)
        return (
            _by_regex(rows, like_regex(pieces), ignore_case)
            if ignore_case
            else _plain(rows, pieces)
        )

    return by_distinct(match, as_type(operand, TEXT), as_type(pattern, TEXT), result=BOOLEAN)


def _plain(rows: pa.Array, pieces: Pieces) -> pa.Array:
    """Match with the quickest kernel: most patterns need no regular expression."""
    match pieces:
        case ():
            return pc.equal(rows, "")
        case (str(text),):
            return pc.equal(rows, text)
        case (str(text), Wildcard.ANY):
            return pc.starts_with(rows, pattern=text)
        case (Wildcard.ANY, str(text)):
            return pc.ends_with(rows, pattern=text)
        case (Wildcard.ANY, str(text), Wildcard.ANY):
            return pc.match_substring(rows, pattern=text)
        case _:
            return _by_regex(rows, like_regex(pieces), ignore_case=False)


def matches(operand: Datum, pattern: Datum, *, ignore_case: bool) -> Datum:
    """Search texts for a regular expression; one that RE2 does not take makes NULL."""

    def match(rows: pa.Array, text: str) -> pa.Array:
        if regex_fault(text) is not None:
            return pa.nulls(len(rows), BOOLEAN)
        return _by_regex(rows, text, ignore_case)

    return by_distinct(match, as_type(operand, TEXT), as_type(pattern, TEXT), result=BOOLEAN)


def _by_regex(rows: pa.Array, pattern: str, ignore_case: bool) -> pa.Array:  # noqa: FBT001
    return pc.match_substring_regex(rows, pattern=pattern, ignore_case=ignore_case)
