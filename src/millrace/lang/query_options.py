"""What is said of a query in `WITH (...)`: how far back it sees, what of its answers is kept.

    WITH (history = '1 hour', retain = '1 day', policy = 'lazy', ttl = '7 days')

A duration is a text, or written as in DELAY: `history = 1 hour`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from millrace.lang.cursor import Cursor
from millrace.lang.words import constant_text
from millrace.plan.nearest import nearest
from millrace.time import print_duration

POLICIES = ("lazy", "eager", "none")


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """The options of a query or a template; durations are in microseconds, None was not said.

    Parameters
    ----------
    history
        How far back before its birth a query sees rows that its streams retain.
    partial
        Whether it may see less of it than that, because less is retained.
    keep, retain, policy
        How many of its answers are kept, or for how long, and how.
    ttl
        How long the query lives.
    """

    history: int | None = None
    partial: bool = False
    keep: int | None = None
    retain: int | None = None
    policy: str | None = None
    ttl: int | None = None

    def __str__(self) -> str:
        values = ((each.name, getattr(self, each.name)) for each in fields(self))
        said = [(name, value) for name, value in values if value is not None and value is not False]
        return ", ".join(f"{name} = {_text(name, value)}" for name, value in said)


NOTHING_SAID = QueryOptions()


def _text(name: str, value: Any) -> str:  # noqa: ANN401  of any option
    if name in _DURATIONS:
        return constant_text(print_duration(value))
    return "true" if value is True else constant_text(value)


def query_options(cursor: Cursor) -> tuple[QueryOptions, bool]:
    """Read `WITH (...)` if it comes next; also whether a query may be `unbounded`."""
    if not cursor.accept("WITH"):
        return NOTHING_SAID, False
    found: dict[str, Any] = {}
    cursor.wrapped(lambda: _option(cursor, found))
    unbounded = found.pop("unbounded", False)
    return QueryOptions(**found), bool(unbounded)


def changed_option(cursor: Cursor, kind: str) -> QueryOptions:
    """Read `(policy = 'eager')`: what may be said otherwise of something that stands."""
    found: dict[str, Any] = {}
    changeable = "retain" if kind == "stream" else "policy"
    cursor.wrapped(lambda: _option(cursor, found, kind, changeable))
    return QueryOptions(**found)


def _option(
    cursor: Cursor, found: dict[str, Any], kind: str = "query", changeable: str = ""
) -> None:
    span = cursor.span
    name = cursor.name("option", reserved=True).lower()
    read = _OPTIONS.get(name)
    if changeable and name != changeable:
        cursor.fail(
            f'of a {kind} that stands "{name}" does not change',
            span=span,
            hint=f"Only its {changeable} does; drop it, and declare it anew.",
        )
    if read is None:
        known = sorted(_OPTIONS)
        cursor.fail(
            f'a query has no option "{name}"',
            span=span,
            hint=nearest(name, known) or f"The options are {', '.join(known)}.",
        )
    if name in found:
        cursor.fail(f'option "{name}" is given twice', span=span, code="CQL004")
    cursor.mark("option", name, span=span)
    cursor.expect("=")
    found[name] = read(cursor)


def _duration(word: str) -> Callable[[Cursor], int]:
    def read(cursor: Cursor) -> int:
        span = cursor.span
        micros = cursor.duration(word)
        if micros == 0:
            cursor.fail(f"{word} must be longer than 0", span=span, code="CQL013")
        return micros

    return read


def _rows(cursor: Cursor) -> int:
    token = cursor.token
    if token is None or not token.text.isdecimal():
        cursor.fail("keep must be a whole number of rows", code="CQL014")
    cursor.index += 1
    return int(token.text)


def _policy(cursor: Cursor) -> str:
    span = cursor.span
    found = cursor.text("a policy").lower()
    if found not in POLICIES:
        listed = ", ".join(f"'{each}'" for each in POLICIES)
        cursor.fail(
            f"'{found}' is not a policy for answers",
            span=span,
            hint=nearest(found, POLICIES) or f"The policies are {listed}.",
        )
    return found


def _true(cursor: Cursor) -> bool:
    if cursor.accept("TRUE"):
        return True
    if not cursor.accept("FALSE"):
        cursor.fail("TRUE or FALSE was expected here")
    return False


def _allowed(cursor: Cursor) -> bool:
    if not cursor.accept("ALLOWED"):
        cursor.fail('"ALLOWED" was expected here')
    return True


_DURATIONS = ("history", "retain", "ttl")
_OPTIONS: dict[str, Callable[[Cursor], Any]] = {
    **{each: _duration(each) for each in _DURATIONS},
    "keep": _rows,
    "policy": _policy,
    "partial": _true,
    "unbounded": _allowed,
}
