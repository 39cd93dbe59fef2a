"""What a family means: each of its queries is its text with the constants written in.

A query is alive from its birth to its end. It sees the elements from its birth on, and tells what
a query of its own would that began at that instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millrace.plan.relations import StreamOf
from millrace.testing.oracle.relations import Definition, Element


@dataclass(frozen=True, slots=True)
class Member:
    """A query of a family: its id, its parameters, and when it is alive."""

    qid: int
    values: tuple[Any, ...]
    birth: int
    end: int


def told_by(member: Member, stream: StreamOf, definition: Definition) -> list[Element]:
    """Return what a query tells, in order; `definition` has all elements."""
    seen = {
        name: [each for each in some if each[0] >= member.birth]
        for name, some in definition.streams.items()
    }
    alone = Definition(
        definition.declared,
        seen,
        definition.tables,
        begin=member.birth,
        parameters=dict(enumerate(member.values)),
        functions=definition.functions,
    )
    return alone.stream(stream, member.end - 1)
