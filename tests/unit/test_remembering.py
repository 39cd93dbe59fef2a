"""What is remembered of something, and for how long."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from millrace.remembering import remembered


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Thing:
    """Something that may go."""

    name: str


def test_a_function_is_called_once_for_equal_arguments() -> None:
    calls = list[tuple[str, int]]()

    @remembered
    def spelt(thing: Thing, times: int) -> str:
        calls.append((thing.name, times))
        return thing.name * times

    one, other = Thing("a"), Thing("b")

    found = [spelt(one, 2), spelt(Thing("a"), 2), spelt(other, 2), spelt(one, 3), spelt(one, 2)]

    assert found == ["aa", "aa", "bb", "aaa", "aa"]
    assert calls == [("a", 2), ("b", 2), ("a", 3)]


def test_what_is_gone_is_forgotten() -> None:
    calls = list[str]()

    @remembered
    def spelt(thing: Thing) -> list[str]:
        calls.append(thing.name)
        return [thing.name]

    for _ in range(3):
        spelt(Thing("a"))
        gc.collect()

    assert calls == ["a"] * 3
