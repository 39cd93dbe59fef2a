"""Places: the columns by which operators of a plan keep what they remember in its shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from millrace.operators.relational.join import Key
from millrace.plan.expressions import Cast, Column, Expression
from millrace.plan.placement import FIRST, Placing
from millrace.plan.relations import Join, Relation, Windowed


@dataclass(frozen=True, slots=True)
class Places:
    """Where rows are by which columns; without `placing`, one shard has them all."""

    placing: Placing | None

    def of(self, node: Relation, names: Iterable[str] | None = None) -> str | None:
        """Return the column of a relation, one of some names, that decides about the shard."""
        if self.placing is None:
            return None
        if self.placing.first(node):
            return FIRST
        found = self.placing.found(node)
        return min(found if names is None else found & frozenset(names))

    def window(self, node: Windowed) -> str | None:
        """Return the column of a stream, one by which a window counts rows, that decides."""
        if self.placing is None:
            return None
        ways = self.placing.below(node.stream)
        if any(way.first for way in ways):
            return FIRST
        return min(name for way in ways for name in way.found & frozenset(node.window.by))

    def everywhere(self, node: Join) -> tuple[str, str] | None:
        """Return which side of a join every shard has, and the column that places the other."""
        if self.placing is None:
            return None
        for side, each, other in (
            ("right", node.right, node.left),
            ("left", node.left, node.right),
        ):
            if self.placing.everywhere(each):
                place = self.of(other)
                assert place is not None, "a side that is not everywhere has a place"
                return side, place
        return None

    def key(self, node: Join, keys: Sequence[Key]) -> str | None:
        """Return which key of a join decides about the shard."""
        if self.placing is None:
            return None
        if self.placing.first(node):
            return FIRST
        left, right = self.placing.found(node.left), self.placing.found(node.right)
        for at, key in enumerate(keys):
            if _column(key.left) in left and _column(key.right) in right:
                return str(at)
        raise AssertionError("a join that is spread has a key by which its sides are")


def _column(node: Expression) -> str:
    """Return the name of a column, also of one that is cast to a wider integer."""
    node = node.operand if isinstance(node, Cast) else node
    return node.name if isinstance(node, Column) else ""
