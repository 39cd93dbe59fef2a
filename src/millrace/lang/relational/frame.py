"""Frames: what stands in a FROM, under which names, and what a column's name means there.

A name is looked up in the innermost query first, then in those around it. Without regard to case
unless it is quoted; an exact match wins; two that match equally are ambiguous. Columns that USING
makes one are one, unless a qualifier says which is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from millrace.lang.errors import LanguageError, Span
from millrace.lang.scope import listed, matches
from millrace.lang.trees import span_of
from millrace.plan.nearest import nearest


@dataclass(frozen=True, slots=True)
class Visible:
    """A column as a query may write it, and its name in the plan."""

    name: str
    column: str


@dataclass(frozen=True, slots=True)
class Item:
    """One thing in a FROM; `stream` is the declared stream that it is, if it is one."""

    alias: str
    what: str
    columns: tuple[Visible, ...]
    stream: str | None = None

    @property
    def shown(self) -> str:
        """The item in a message."""
        return f'{self.what} "{self.alias}"' if not self.alias.startswith("#") else self.what


@dataclass(frozen=True, slots=True)
class Merged:
    """A column that USING made of several."""

    name: str
    column: str
    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class Frame:
    """The items of a FROM, and the frame around the query.

    If the query is grouped, `keys` are the columns that its subqueries may name.
    """

    source: str
    items: tuple[Item, ...] = ()
    merged: tuple[Merged, ...] = ()
    outer: Frame | None = None
    keys: frozenset[str] | None = None

    def column(self, node: exp.Column) -> str:
        """Return the column of the plan that a node means, or raise."""
        if not isinstance(node.this, exp.Identifier):
            raise self._fault(node, "a column was expected here")
        if node.args.get("db") is not None:
            raise self._fault(node, "a column has at most one qualifier")
        found = self._qualified(node) if node.args.get("table") else self._plain(node)
        if found is None:
            raise self._unknown(node)
        return found

    def own(self, identifier: exp.Identifier) -> bool:
        """Say whether a name without a qualifier is a column of this FROM."""
        return bool(_hits(identifier, self.visible()))

    def visible(self) -> list[Visible]:
        """Return the columns that `*` means: what USING merged first, then the items' own."""
        merged = [Visible(each.name, each.column) for each in self.merged]
        members = frozenset[str]().union(*(each.members for each in self.merged))
        own = [each for item in self.items for each in item.columns]
        return merged + [each for each in own if each.column not in members]

    def item(self, identifier: exp.Identifier) -> Item | None:
        """Return the item of a name, or None."""
        hits = matches(identifier, [each.alias for each in self.items])
        if len(hits) > 1:
            raise self._fault(identifier, f'"{identifier.name}" is ambiguous', code="CQL003")
        return next((each for each in self.items if [each.alias] == hits), None)

    def required_item(self, identifier: exp.Identifier) -> Item:
        """Return the item of a name, or raise."""
        found = self.item(identifier)
        if found is None:
            raise self._not_in_from(identifier)
        return found

    def _qualified(self, node: exp.Column) -> str | None:
        item = self.item(node.args["table"])
        if item is None:
            return None if self.outer is None else self.outer._from_inside(node)
        hits = _hits(node.this, item.columns)
        if not hits:
            raise self._no_column(
                node.this, [each.name for each in item.columns], f" in {item.shown}"
            )
        self._check_single(node.this, [each.name for each in hits])
        return hits[0].column

    def _plain(self, node: exp.Column) -> str | None:
        hits = _hits(node.this, self.visible())
        if not hits:
            return None if self.outer is None else self.outer._from_inside(node)
        self._check_single(node.this, [self._written(each) for each in hits])
        return hits[0].column

    def _from_inside(self, node: exp.Column) -> str | None:
        """Look up a column for a subquery; a grouped query has only its keys to offer."""
        found = self._qualified(node) if node.args.get("table") else self._plain(node)
        own = any(each.column == found for item in self.items for each in item.columns)
        if found is not None and own and self.keys is not None and found not in self.keys:
            raise ungrouped(node.name, self.source, span_of(node))
        return found

    def _check_single(self, identifier: exp.Identifier, hits: Sequence[str]) -> None:
        if len(hits) > 1:
            distinct = len(set(hits)) == len(hits)
            raise self._fault(
                identifier,
                f'column "{identifier.name}" is ambiguous',
                code="CQL003",
                detail=f"It may be {listed(hits, 'or')}.",
                hint="Write the name with its qualifier, or in double quotes." if distinct else "",
            )

    def _written(self, column: Visible) -> str:
        """Return a column with its item's name before it, as it may be written."""
        for item in self.items:
            if column in item.columns and not item.alias.startswith("#"):
                return f"{item.alias}.{column.name}"
        return column.name

    def _unknown(self, node: exp.Column) -> LanguageError:
        if node.args.get("table"):
            return self._not_in_from(node.args["table"])
        known = list(dict.fromkeys(each.name for frame in self._all() for each in frame.visible()))
        items = [item for frame in self._all() for item in frame.items]
        where = f" in {items[0].shown}" if len(items) == 1 else ""
        return self._no_column(node.this, known, where)

    def _no_column(
        self, identifier: exp.Identifier, known: Sequence[str], where: str
    ) -> LanguageError:
        return self._fault(
            identifier,
            f'column "{identifier.name}" does not exist{where}',
            code="CQL002",
            detail=f"The columns are {listed(known)}.",
            hint=nearest(identifier.name, known),
        )

    def _not_in_from(self, identifier: exp.Identifier) -> LanguageError:
        aliases = [each.alias for frame in self._all() for each in frame.items]
        shown = [each for each in aliases if not each.startswith("#")]
        return self._fault(
            identifier,
            f'"{identifier.name}" is not in FROM',
            code="CQL001",
            detail=f"FROM has {listed(shown)}." if shown else "",
            hint=nearest(identifier.name, shown) or self._hidden(identifier),
        )

    def _hidden(self, identifier: exp.Identifier) -> str:
        """Say what a stream is called here if its own name was written."""
        items = [item for frame in self._all() for item in frame.items]
        for item in items:
            if item.stream is not None and matches(identifier, [item.stream]):
                return f'It is called "{item.alias}" here.'
        return ""

    def _all(self) -> Iterator[Frame]:
        frame: Frame | None = self
        while frame is not None:
            yield frame
            frame = frame.outer

    def _fault(
        self,
        node: exp.Expr,
        message: str,
        *,
        code: str = "CQL070",
        detail: str = "",
        hint: str = "",
    ) -> LanguageError:
        return LanguageError(
            message, source=self.source, span=span_of(node), code=code, detail=detail, hint=hint
        )


def ungrouped(name: str, source: str, span: Span) -> LanguageError:
    """Return the refusal of a column that a group has many values of."""
    return LanguageError(
        f'column "{name}" is not grouped',
        source=source,
        span=span,
        code="CQL030",
        detail="A group has one row in the answer and may have many values of it.",
        hint=f"Add it to GROUP BY, or aggregate it: max({name}).",
    )


def _hits(identifier: exp.Identifier, columns: Sequence[Visible]) -> list[Visible]:
    exact = [each for each in columns if each.name == identifier.name]
    if exact or identifier.args.get("quoted"):
        return exact
    folded = identifier.name.casefold()
    return [each for each in columns if each.name.casefold() == folded]
