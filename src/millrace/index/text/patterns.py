"""LIKE patterns: which literal text must stand in every text that one accepts.

LIKE cuts into the pieces between its wildcards. One piece and no `_` is the whole truth; else the
longest piece is a *needle*: necessary, not sufficient.

    pattern        needle              exact
    order-7        equals   order-7    yes
    %timeout%      contains timeout    yes
    /api/%/users   suffix   /users     no, the longest of two

Invariant: a needle may be weak or missing, never wrong. To ignore case is to search for ASCII
letters only, in lower-cased text (`index.text.automaton` says why that is sound); other characters
end a run.

Cost: 100,000 patterns take 0.02 s when exact, 0.05 s when not, 0.3 s when all have escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Literal as OneOf
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.kernels.arrays import Bools, Bytes

Kind: TypeAlias = OneOf["contains", "prefix", "suffix", "equals"]
KINDS: tuple[Kind, ...] = ("contains", "prefix", "suffix", "equals")
"""By the numbers that the kernel gives them."""

_WILD = re.compile("[%_]+")
# What stands for an escaped % or _ while a pattern is cut, and for an escape of nothing.
_SHOWN, _DANGLING = {0xE000: "%", 0xE001: "_"}, "\ue002"
_STANDS = {"%": "\ue000", "_": "\ue001", "": _DANGLING}
_HIDDEN = re.compile("[\ue000-\ue002]")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


class LikeForm(NamedTuple):
    """The longest piece of a pattern, where it must stand, and whether that is all it says."""

    kind: Kind
    text: str
    exact: bool
    pieces: tuple[tuple[Kind, str], ...]

    @property
    def stem(self) -> str:
        """The text before the first wildcard."""
        kind, text = self.pieces[0] if self.pieces else ("contains", "")
        return text if kind in ("prefix", "equals") else ""


class LikeForms(NamedTuple):
    """Kind (a number, see `KINDS`), needle, exactness and stem of each of many patterns."""

    kinds: Bytes
    texts: pa.Array
    exact: Bools
    stems: pa.Array

    @property
    def whole(self) -> Bools:
        """Which patterns have no wildcard, and are equalities."""
        chosen: Bools = self.exact & (self.kinds == KINDS.index("equals"))
        return chosen

    @property
    def prefix(self) -> Bools:
        """Which patterns are a text and %, and nothing more."""
        chosen: Bools = self.exact & (self.kinds == KINDS.index("prefix"))
        return chosen


def read_like(pattern: str, escape: str | None = None) -> LikeForm:
    """Take a LIKE pattern apart; without `escape` no character but % and _ is special.

    Examples
    --------
    >>> read_like("/api/%/users")[:3]
    ('suffix', '/users', False)
    """
    plain = _plain(pattern, escape)
    parts = [part.translate(_SHOWN) if plain != pattern else part for part in _WILD.split(plain)]
    if len(parts) == 1:
        return LikeForm("equals", parts[0], True, (("equals", parts[0]),))
    pieces: list[tuple[Kind, str]] = [("contains", part) for part in parts[1:-1] if part]
    if parts[0]:
        pieces.insert(0, ("prefix", parts[0]))
    if parts[-1]:
        pieces.append(("suffix", parts[-1]))
    kind, text = longest(pieces)
    return LikeForm(kind, text, len(pieces) < 2 and "_" not in plain, tuple(pieces))


def read_likes(patterns: pa.Array, escape: str | None = None) -> LikeForms:
    """Take many patterns apart, as `read_like` does; NULL is not exact and has no text."""
    escaped = _mask(pc.match_substring(patterns, escape)) if escape else np.zeros(0, np.bool_)
    plain = patterns
    if escaped.any():
        spelt = [_plain(each, escape) for each in patterns.filter(escaped).to_pylist()]
        plain = pc.replace_with_mask(patterns, pa.array(escaped), pa.array(spelt, patterns.type))
    texts = pc.utf8_trim(plain, "%")
    first, last = _mask(pc.starts_with(plain, "%")), _mask(pc.ends_with(plain, "%"))
    kinds = (3 - 2 * last - first).astype(np.uint8)  # with both ends open 0, contains
    stems = pc.if_else(pa.array(first), pa.scalar("", texts.type), texts)
    hard = _mask(pc.match_substring_regex(texts, "[%_]"))
    if hard.any():
        kinds[hard], longest_parts, heads = _longest_parts(plain.filter(hard))
        texts = pc.replace_with_mask(texts, pa.array(hard), longest_parts)
        stems = pc.replace_with_mask(stems, pa.array(hard), heads)
    if escaped.any():
        texts = pc.if_else(pa.array(escaped), _shown(texts), texts)
        stems = pc.if_else(pa.array(escaped), _shown(stems), stems)
    return LikeForms(kinds, texts, _mask(patterns.is_valid()) & ~hard, stems)


def longest(pieces: Iterable[tuple[Kind, str]]) -> tuple[Kind, str]:
    """Return the longest piece, or the empty one, which stands in any text."""
    return max(pieces, key=lambda piece: len(piece[1]), default=("contains", ""))


def ascii_runs(pieces: Iterable[tuple[Kind, str]]) -> list[tuple[Kind, str]]:
    """Return the pieces in lower case and cut at what is not ASCII."""
    runs: list[tuple[Kind, str]] = []
    for kind, text in pieces:
        if text.isascii():
            runs.append((kind, text.lower()))
        else:
            runs += [("contains", run.lower()) for run in _NOT_ASCII.split(text) if run]
    return runs


def _longest_parts(patterns: pa.Array) -> tuple[Bytes, pa.Array, pa.Array]:
    """Cut patterns that have wildcards inside; return kinds, first longest parts, first parts."""
    cuts = pc.split_pattern(pc.replace_substring(patterns, "_", "%"), "%")
    parts, offsets = cuts.flatten(), cuts.offsets.to_numpy()
    starts, counts = offsets[:-1], np.diff(offsets)
    lengths = pc.utf8_length(parts).to_numpy()
    longest = np.maximum.reduceat(lengths, starts)
    candidates = np.flatnonzero(lengths == np.repeat(longest, counts))
    owners = np.repeat(np.arange(counts.size), counts)[candidates]
    chosen = candidates[np.unique(owners, return_index=True)[1]]
    kinds = np.select([longest == 0, chosen == starts, chosen == offsets[1:] - 1], [0, 1, 2], 0)
    return kinds.astype(np.uint8), parts.take(chosen), parts.take(starts)


def _mask(values: pa.Array) -> Bools:
    mask: Bools = pc.fill_null(values, False).to_numpy(zero_copy_only=False)
    return mask


def _plain(pattern: str, escape: str | None) -> str:
    """Return the pattern with other characters for escaped ones, or _ if nothing can be said.

    A pattern that ends with the escape matches nothing, and `_` is right about that too.
    """
    if not escape or escape not in pattern:
        return pattern
    plain = _escapes(escape).sub(_hide, pattern)
    hopeless = len(escape) > 1 or _HIDDEN.search(pattern) or plain.endswith(_DANGLING)
    return "_" if hopeless else plain


@cache
def _escapes(escape: str) -> re.Pattern[str]:
    return re.compile(re.escape(escape) + "(.?)", re.DOTALL)


def _hide(escaped: re.Match[str]) -> str:
    return _STANDS.get(escaped[1], escaped[1])


def _shown(texts: pa.Array) -> pa.Array:
    return pc.replace_substring(pc.replace_substring(texts, "\ue000", "%"), "\ue001", "_")
