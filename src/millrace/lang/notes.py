"""What is known of the nodes of an expression beside what they mean: where they were written.

Nodes of plans are values: they carry no positions, so that equal expressions are equal. While a
text is translated, this table remembers by identity where each node was written, and of each
constant which literal of the text it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from millrace.lang.errors import Span
from millrace.plan.expressions import Expression

Node = TypeVar("Node", bound=Expression)


@dataclass(frozen=True, slots=True)
class Origin:
    """The literal of the text that a constant was: where it began, and whether - came before."""

    first: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Typed:
    """The type that a constant was given by what it stands beside.

    With a `floor` it depends on the literal: an exact number keeps the digits behind its point,
    at least so many; a text beside a date is a date if it looks like one, else a timestamp.
    """

    name: str
    floor: int | None = None


class Notes:
    """Spans and origins of nodes, by identity; it keeps the nodes, so that these stay unique."""

    def __init__(self) -> None:
        self._kept: list[Expression] = []
        self._spans: dict[int, Span] = {}
        self._origins: dict[int, Origin] = {}
        self._types: dict[int, Typed] = {}

    def at(self, node: Node, span: Span, origin: Origin | None = None) -> Node:
        """Note where a node was written, and of a constant which literal it was."""
        self._kept.append(node)
        self._spans[id(node)] = span
        if origin is not None:
            self._origins[id(node)] = origin
        return node

    def instead(self, old: Expression, new: Node) -> Node:
        """Note that a node stands for another one."""
        if new is not old and id(old) in self._spans:
            self.at(new, self._spans[id(old)], self._origins.get(id(old)))
        return new

    def span(self, node: object) -> Span | None:
        """Return where a node was written, if that is known."""
        return self._spans.get(id(node))

    def origin(self, node: Expression) -> Origin | None:
        """Return which literal of the text a constant was, or None if it must stay as it is."""
        return self._origins.get(id(node))

    def settle(self, node: Node, typed: Typed) -> Node:
        """Note the type that a constant was given."""
        self._types[id(node)] = typed
        return node

    def typed(self, node: Expression) -> Typed | None:
        """Return the type that a constant was given."""
        return self._types.get(id(node))

    def pin(self, node: Expression) -> None:
        """Forget which literal a constant was: it belongs to the shape of the query."""
        self._origins.pop(id(node), None)
