r"""Regular expressions: which literal text must stand in every text that one matches.

A regex is read into parts, each the few strings that it matches, exactly, or strings of which one
is required in whatever it matches. A sequence multiplies neighbours while they are few; what is
optional or unknown ends a run, and the run with the longest shortest string is kept:

    (foo|bar)baz?      {foo, bar} x {ba} x {'', z}    ->    barba fooba

Invariant: a needle may be weak or missing, never wrong. What the reader does not know (\pL, \Q,
octal) gives no needles. Where case is ignored, only ASCII letters are needles, in lower case.

Cost: 10 to 40 µs a regex.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

_MOST_ALTERNATIVES, _MOST_PRODUCTS, _LONGEST, _DEEPEST = 256, 64, 64, 50
_PLAIN = re.compile(r"[^\\^$.|?*+()\[{]+")
_GROUP = re.compile(r"\(\?(?:P?<[A-Za-z0-9_]+>|([imsU]*)(?:-[imsU]+)?([:)]))")
_REPEAT = re.compile(r"(?:([*+?])|\{([0-9]{1,4})(,?)([0-9]{0,4})\})(\??)")
_CONTROLS = dict(zip("nrtfva", "\n\r\t\f\v\a", strict=True))


class RegexForm(NamedTuple):
    """Literals of which any match contains one (none if unknown), lower-cased if case does."""

    literals: tuple[str, ...]
    ignore_case: bool


class _Part(NamedTuple):
    """What a piece of a regex matches, exactly, or else strings of which one is required."""

    exact: frozenset[str] | None
    required: frozenset[str] | None

    @property
    def needed(self) -> frozenset[str]:
        """Strings of which one must stand in any match."""
        return self.exact or self.required or frozenset([""])


_NOTHING, _UNKNOWN = _Part(frozenset([""]), None), _Part(None, None)


class _Foreign(Exception):  # noqa: N818 - not an error: the regex is left without needles
    """The reader does not know this syntax."""


class _Folds(Exception):  # noqa: N818 - not an error: the regex is read again
    """The regex asks for case to be ignored."""


def required_literals(regex: str) -> list[str]:
    """Return strings one of which stands in any text that matches; [] if unknown.

    They are lower-cased, to be found in lower-cased text, if the regex ignores case anywhere.

    Examples
    --------
    >>> required_literals("(foo|bar)baz?"), required_literals("(?i)Disk +FULL")
    (['barba', 'fooba'], ['disk '])
    """
    return list(read_regex(regex).literals)


def read_regex(regex: str, *, ignore_case: bool = False) -> RegexForm:
    """Find the literals that a regex (RE2's) requires, and whether it ignores case."""
    try:
        needed = _Reader(regex, fold=ignore_case).read()
    except _Folds:
        return read_regex(regex, ignore_case=True)
    except _Foreign:
        return RegexForm((), ignore_case)
    least = {each for each in needed if not any(one in each for one in needed if one != each)}
    return RegexForm(() if "" in least else tuple(sorted(least)), ignore_case)


class _Reader:
    """One pass over a regex, by recursive descent."""

    def __init__(self, regex: str, *, fold: bool) -> None:
        self._regex, self._at, self._fold, self._depth = regex, 0, fold, 0

    def read(self) -> frozenset[str]:
        part = self._alternatives()
        if self._at < len(self._regex):
            raise _Foreign
        return part.needed

    def _next(self) -> str:
        return self._regex[self._at : self._at + 1]

    def _take(self) -> str:
        if self._at >= len(self._regex):
            raise _Foreign
        self._at += 1
        return self._regex[self._at - 1]

    def _alternatives(self) -> _Part:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Foreign
        parts = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            parts.append(self._sequence())
        self._depth -= 1
        if len(parts) == 1:
            return parts[0]
        united = frozenset[str]().union(*(part.needed for part in parts))
        if len(united) > _MOST_ALTERNATIVES:
            return _UNKNOWN
        exact = all(part.exact for part in parts)
        return _Part(united, None) if exact else _Part(None, united)

    def _sequence(self) -> _Part:
        parts: list[_Part] = []
        while self._next() not in ("", "|", ")"):
            atoms = self._atoms()
            parts += atoms[:-1]
            parts += self._repeated(atoms[-1])
        return _joined(parts)

    def _atoms(self) -> list[_Part]:
        """Read one thing that can be repeated, and ordinary characters before it."""
        if plain := _PLAIN.match(self._regex, self._at):
            stop = plain.end()
            if stop - self._at > 1 and _REPEAT.match(self._regex, stop):
                stop -= 1
            text, self._at = self._regex[self._at : stop], stop
            if text.isascii() or not self._fold:
                return [_one_of([text.lower() if self._fold else text])]
            return [self._literal(character) for character in text]
        match self._take():
            case "(":
                return [self._group()]
            case "[":
                return [self._set()]
            case ".":
                return [_UNKNOWN]
            case "^" | "$":
                return [_NOTHING]
            case "\\":
                return [self._escape()]
            case "{":
                return [self._literal("{")]
            case _:
                raise _Foreign

    def _literal(self, character: str) -> _Part:
        if self._fold and not character.isascii():
            return _UNKNOWN
        return _one_of([character.lower() if self._fold else character])

    def _group(self) -> _Part:
        if self._next() == "?":
            head = _GROUP.match(self._regex, self._at - 1)
            if head is None:
                raise _Foreign
            self._at = head.end()
            if "i" in (head[1] or "") and not self._fold:
                raise _Folds
            if head[2] == ")":
                if _REPEAT.match(self._regex, self._at):
                    raise _Foreign  # RE2 repeats what stands before the flags
                return _NOTHING
        part = self._alternatives()
        if self._take() != ")":
            raise _Foreign
        return part

    def _escape(self) -> _Part:
        character = self._take()
        if character in "AbBz":
            return _NOTHING
        if character in "dDsSwW":
            return _UNKNOWN
        return self._literal(_escaped(character))

    def _set(self) -> _Part:
        """Read the rest of a [set]; a small one is its characters, any other is unknown."""
        members: set[str] | None = set()
        if self._next() == "^":
            self._at, members = self._at + 1, None
        start = self._at
        while self._next() != "]" or self._at == start:
            low = high = self._member()
            if self._next() == "-" and self._regex[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                high = self._member()
            small = low and high and 0 <= ord(high) - ord(low) < 8
            if members is not None:
                codes = range(ord(low), ord(high) + 1) if small else ()
                members = members.union(map(chr, codes)) if small else None
        self._at += 1
        if members is None or len(members) > 8 or (self._fold and not "".join(members).isascii()):
            return _UNKNOWN
        return _one_of([each.lower() if self._fold else each for each in members])

    def _member(self) -> str:
        """Read a character of a set, or "" for a class of them."""
        character = self._take()
        if character == "[" and self._next() == ":":
            raise _Foreign
        if character != "\\":
            return character
        character = self._take()
        return "" if character in "dDsSwW" else _escaped(character)

    def _repeated(self, part: _Part) -> list[_Part]:
        count = _REPEAT.match(self._regex, self._at)
        if count is None:
            return [part]
        self._at = count.end()
        if _REPEAT.match(self._regex, self._at):
            raise _Foreign
        if count[1] == "?" and part.exact:
            return [_Part(part.exact | {""}, None)]
        least = {"*": 0, "?": 0, "+": 1}[count[1]] if count[1] else int(count[2])
        fixed = count[1] is None and (not count[3] or count[2] == count[4]) and least <= 16
        return [part] * min(least, 16) + ([] if fixed else [_UNKNOWN])


def _escaped(character: str) -> str:
    """Return the character that an escape stands for, outside a set or in one."""
    if character in _CONTROLS:
        return _CONTROLS[character]
    if character.isalnum() or not character.isascii():
        raise _Foreign
    return character


def _one_of(texts: Sequence[str]) -> _Part:
    return _Part(frozenset(texts), None)


def _joined(parts: Sequence[_Part]) -> _Part:
    """Multiply neighbours while they are few; keep the best run where that ends."""
    run, best, whole = frozenset([""]), frozenset([""]), True
    for part in parts:
        if part.exact and _multiplies(run, part.exact):
            run = frozenset(map("".join, product(run, part.exact)))
        else:
            best, whole = max(best, run, part.required or best, key=_worth), False
            run = part.exact or frozenset([""])
    return _Part(run, None) if whole else _Part(None, max(best, run, key=_worth))


def _multiplies(left: frozenset[str], right: frozenset[str]) -> bool:
    n_products = len(left) * len(right)
    few = n_products <= max(_MOST_PRODUCTS, len(left), len(right))
    return few and max(map(len, left)) + max(map(len, right)) <= _LONGEST


def _worth(texts: frozenset[str]) -> tuple[int, int]:
    return min(len(text.encode()) for text in texts), -len(texts)
