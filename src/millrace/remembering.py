"""Remembering what was computed of something, for as long as that thing lives.

What follows from a query is asked in each epoch, of all that stand, and there may be a hundred
thousand. Remembered by number (`lru_cache`), those that are gone would be remembered as well.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

Of = TypeVar("Of")
More = ParamSpec("More")
Found = TypeVar("Found")


def remembered(
    function: Callable[Concatenate[Of, More], Found],
) -> Callable[Concatenate[Of, More], Found]:
    """Call a function once for each first argument, and for what else is given with it.

    Equal arguments are one; what was found is forgotten with the first that was given.

    >>> @remembered
    ... def spelt(numbers: frozenset[int], between: str) -> str:
    ...     return between.join(map(str, sorted(numbers)))
    >>> some = frozenset([2, 1])
    >>> spelt(some, ", ") is spelt(frozenset([1, 2]), ", ")
    True
    """
    known: WeakKeyDictionary[Of, dict[tuple[object, ...], Found]] = WeakKeyDictionary()

    @functools.wraps(function)
    def found(of: Of, /, *more: More.args, **named: More.kwargs) -> Found:
        mine = known.get(of)
        if mine is None:
            mine = known.setdefault(of, {})
        key = (more, *named.items())
        if key not in mine:
            mine[key] = function(of, *more, **named)
        return mine[key]

    return found
