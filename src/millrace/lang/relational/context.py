"""What the parts of one binding share: what exists, the text, and the names that are made up.

A view is another text with positions of its own, so whatever speaks of a text holds `Text`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from millrace.errors import MillraceError
from millrace.lang.binder import Bound, placed
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.notes import Notes
from millrace.lang.queries import Parsed
from millrace.lang.relational.frame import Frame
from millrace.lang.settle import Settler
from millrace.lang.trees import CqlWindow, span_of
from millrace.plan.bind import bind_expression
from millrace.plan.expressions import Column, Expression, walk
from millrace.plan.nodes import Selection
from millrace.plan.relation_types import Declared
from millrace.plan.relations import Relation, StreamOf
from millrace.plan.typing import require_boolean
from millrace.schema import Column as Field
from millrace.schema import Columns

_NAME = re.compile(r'"(#\d+|[^"\s]+\.[^"\s]+)"')  # of the plan, which no user has written


@dataclass(frozen=True, slots=True)
class View:
    """A query under a name, and the names of its columns if they are not its own."""

    query: Parsed
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Caution:
    """Something that is allowed and probably not meant."""

    code: str
    message: str
    source: str
    span: Span
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """A relation and the columns that its rows have, in order."""

    plan: Relation
    columns: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query is: a relation, and if it was made a stream, that stream of it."""

    rows: Rows
    stream: StreamOf | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A text, its named parameters, and where its nodes were written."""

    source: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    notes: Notes = field(default_factory=Notes)

    def fault(
        self,
        node: exp.Expr | Span,
        message: str,
        *,
        code: str = "CQL070",
        detail: str = "",
        hint: str = "",
    ) -> LanguageError:
        """Return the refusal of a part of the text."""
        span = span_of(node) if isinstance(node, exp.Expr) else node
        return LanguageError(
            message, source=self.source, span=span, code=code, detail=detail, hint=hint
        )


class Shared:
    """What all texts of one binding share."""

    def __init__(
        self, declared: Declared, views: Mapping[str, View], times: Mapping[str, str]
    ) -> None:
        self.declared, self.views, self.times = declared, views, times
        self.cautions: list[Caution] = []
        self.defaults: dict[int, CqlWindow] = {}
        self.streamed: set[int] = set()
        self.opened: list[str] = []
        self.known_views: dict[str, Answer] = {}
        self.shown: dict[str, str] = {}
        self._n_names = 0

    def name(self) -> str:
        """Return a name that nobody can write, unique within the plan."""
        self._n_names += 1
        return f"#{self._n_names}"


BindQuery: TypeAlias = Callable[[exp.Expr, "Environment"], Answer]


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a query stands: its text, the names of WITH before it, and the query around it.

    `around` are the columns of that query, which a correlated subquery may name; `bind` binds a
    query within a query.
    """

    shared: Shared
    text: Text
    bind: BindQuery
    named: Mapping[str, Answer] = field(default_factory=dict)
    outer: Frame | None = None
    around: tuple[Field, ...] = ()

    def inside(self, frame: Frame, rows: Rows) -> Environment:
        """Return the environment of a subquery of a query with these columns."""
        return replace(self, outer=frame, around=self.visible(rows.columns))

    def visible(self, columns: Iterable[Field]) -> tuple[Field, ...]:
        """Return columns, and those of the queries around that they do not hide."""
        own = tuple(columns)
        names = {each.name for each in own}
        return own + tuple(each for each in self.around if each.name not in names)

    def pin(self, *nodes: Expression | None) -> None:
        """Keep the constants of expressions: a query of other constants is another query."""
        for node in nodes:
            for each in () if node is None else walk(node):
                self.text.notes.pin(each)

    def made_up(self, node: exp.Expr) -> str:
        """Return a name for what a node computes; messages show the text of the node."""
        name = self.shared.name()
        text = quoted(self.text.source, span_of(node))
        self.shared.shown[name] = f"({text})" if isinstance(node, exp.Query) else text
        return name

    def caution(self, code: str, node: exp.Expr, message: str, hint: str) -> None:
        """Warn of a part of the text."""
        caution = Caution(code, message, self.text.source, span_of(node), hint)
        self.shared.cautions.append(caution)

    def settled(
        self, raw: Expression, rows: Rows, *, lists: bool = False
    ) -> tuple[Expression, pa.DataType]:
        """Give types to the constants of an expression over rows, check it, and say its type.

        A list is only ever passed on: `lists` lets a column of lists through.
        """
        schema = Columns(self.visible(rows.columns))
        text, functions = self.text, self.shared.declared.functions
        try:
            if not (lists and isinstance(raw, Column)):
                self._check_lists(raw, schema)
            settler = Settler(schema, functions, text.notes, text.source)
            node, found = bind_expression_or_list(settler.settle(raw), schema, self)
        except MillraceError as cause:
            raise self.placed(cause, schema) from cause
        return node, found

    def condition(self, raw: Expression, rows: Rows) -> Expression:
        """Settle a condition over rows."""
        node, found = self.settled(raw, rows)
        try:
            require_boolean(node, found)
        except MillraceError as cause:
            raise self.placed(cause, Columns(rows.columns)) from cause
        return node

    def placed(self, cause: MillraceError, schema: Columns) -> LanguageError:
        """Return an error of the plan with the place in the text that it is about."""
        text = self.text
        names = tuple(text.parameters)
        cause.message = _NAME.sub(self._shown, cause.message)
        return placed(cause, Bound(Selection("", ()), schema, text.notes, text.source, names))

    def _shown(self, found: re.Match[str]) -> str:
        alias, _, column = found[1].partition(".")
        return self.shared.shown.get(found[1], column if alias.startswith("#") else found[1])

    def _check_lists(self, raw: Expression, schema: Columns) -> None:
        for each in walk(raw):
            if isinstance(each, Column) and pa.types.is_list(schema.type_of(each.name)):
                span = self.text.notes.span(each) or Span(0, 0)
                hint = "Select it alone."
                raise self.text.fault(span, "a list is not computed with", code="CQL032", hint=hint)


def bind_expression_or_list(
    node: Expression, schema: Columns, env: Environment
) -> tuple[Expression, pa.DataType]:
    """Let the plan's own binder check an expression; a column may be a list."""
    if isinstance(node, Column):
        return node, schema.type_of(node.name)
    return bind_expression(node, schema, env.shared.declared.functions)
