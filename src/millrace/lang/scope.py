"""Which column a name means: the streams of a FROM, under the names that they have there.

Names are looked up without regard to case unless they are quoted; an exact match wins; two
columns that match equally are ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from millrace.lang.errors import LanguageError
from millrace.lang.trees import span_of
from millrace.plan.nearest import nearest
from millrace.schema import Schema


@dataclass(frozen=True, slots=True)
class Scope:
    """One stream, the name that the query gives it, and the text that speaks of it."""

    stream: str
    alias: str
    schema: Schema
    source: str

    def column(self, node: exp.Column) -> str:
        """Return the exact name of the column that a node means, or raise."""
        identifier = node.this
        if node.args.get("table") is not None:
            self.check_table(node)
        if not isinstance(identifier, exp.Identifier):
            raise self._fault(identifier, "a column was expected here", code="CQL070")
        hits = matches(identifier, self.schema.names)
        if len(hits) == 1:
            return hits[0]
        if hits:
            raise self._fault(
                identifier,
                f'column "{identifier.name}" is ambiguous',
                code="CQL003",
                detail=f"It may be {listed(hits, 'or')}.",
                hint="Write the name in double quotes, exactly.",
            )
        raise self._fault(
            identifier,
            f'column "{identifier.name}" does not exist'
            + (f' in stream "{self.stream}"' if self.stream else ""),
            code="CQL002",
            detail=f"The columns are {listed(self.schema.names)}.",
            hint=nearest(identifier.name, list(self.schema.names)),
        )

    def check_table(self, node: exp.Column) -> None:
        """Raise unless the qualifier of a column is the stream, by the name it has here."""
        table = node.args["table"]
        if node.args.get("db") is not None:
            raise self._fault(node, "a column has at most one qualifier", code="CQL070")
        if not matches(table, [self.alias]):
            raise self._fault(
                table,
                f'"{table.name}" is not in FROM',
                code="CQL001",
                detail=f'FROM has "{self.alias}".',
                hint=nearest(table.name, [self.alias]),
            )

    def _fault(
        self, node: exp.Expr, message: str, *, code: str, detail: str = "", hint: str = ""
    ) -> LanguageError:
        span = span_of(node)
        return LanguageError(
            message, source=self.source, span=span, code=code, detail=detail, hint=hint
        )


def stream_of(table: exp.Table, streams: Mapping[str, Schema], source: str) -> str:
    """Return the exact name of the stream that a table in FROM means, or raise."""
    identifier = table.this
    if not isinstance(identifier, exp.Identifier) or table.args.get("db") is not None:
        raise LanguageError(
            "a stream was expected here", source=source, span=span_of(table), code="CQL001"
        )
    hits = matches(identifier, streams)
    if len(hits) == 1:
        return hits[0]
    if hits:
        raise LanguageError(
            f'stream "{identifier.name}" is ambiguous',
            source=source,
            span=span_of(identifier),
            code="CQL003",
            detail=f"It may be {listed(hits, 'or')}.",
            hint="Write the name in double quotes, exactly.",
        )
    raise LanguageError(
        f'stream "{identifier.name}" does not exist',
        source=source,
        span=span_of(identifier),
        code="CQL001",
        detail=f"The streams are {listed(streams)}." if streams else "There are no streams.",
        hint=nearest(identifier.name, list(streams)),
    )


def matches(identifier: exp.Identifier, names: Iterable[str]) -> list[str]:
    """Return the names that an identifier may mean."""
    names = list(names)
    if identifier.name in names:
        return [identifier.name]
    if identifier.args.get("quoted"):
        return []
    folded = identifier.name.casefold()
    return [each for each in names if each.casefold() == folded]


def listed(names: Iterable[str], last: str = "and") -> str:
    """Return names as a sentence lists them, at most twenty.

    >>> listed(["a", "b", "c"])
    '"a", "b" and "c"'
    """
    quoted = [f'"{each}"' for each in names]
    if len(quoted) > 20:
        return ", ".join(quoted[:20]) + f" and {len(quoted) - 20} more"
    return f" {last} ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)
