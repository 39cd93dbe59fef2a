"""Leaves of expressions: columns, constants and parameters, and the types that casts name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from sqlglot import exp

from millrace.errors import SchemaError
from millrace.lang import constants
from millrace.lang.errors import LanguageError, Span, quoted
from millrace.lang.notes import Notes, Origin
from millrace.lang.refusals import only
from millrace.lang.scope import listed
from millrace.lang.trees import span_of
from millrace.plan.expressions import Column, Expression, Literal, Parameter, Scalar
from millrace.plan.nearest import nearest
from millrace.schema import type_name, type_named

_LONGER_TYPES = {
    "double precision": "double",
    "timestamptz": "timestamp",
    "timestamp with time zone": "timestamp",
}


class Names(Protocol):
    """What columns are called: one stream's, or those of all that stands in a FROM."""

    def column(self, node: exp.Column, /) -> str:
        """Return the exact name of the column that a node means, or raise."""
        ...


class Leaves:
    """Translates the leaves of one query's expressions, and notes where they were written."""

    def __init__(
        self,
        scope: Names,
        parameters: Mapping[str, str],
        source: str,
        notes: Notes | None = None,
    ) -> None:
        self.notes = Notes() if notes is None else notes
        self._scope, self._source = scope, source
        self._parameters = parameters
        self._numbers = {name: number for number, name in enumerate(parameters)}

    def _column(self, node: exp.Column) -> Expression:
        only(node, self._source, "this", "table", "db", "catalog")
        if isinstance(node.this, exp.Star):
            raise self._fault(node, '"*" is not allowed here', hint="Name the column.")
        return Column(self._scope.column(node))

    def _literal(self, node: exp.Literal) -> Expression:
        span = span_of(node)
        value = node.this if node.is_string else self._number(node)
        return self.notes.at(Literal(value), span, Origin(span.first))

    def _number(self, node: exp.Literal) -> Scalar:
        try:
            return constants.number_of(node.this)
        except constants.NotOfTypeError as cause:
            raise self._fault(node, f'"{node.this}" {cause}', code="CQL032") from cause

    def _hex(self, node: exp.HexString) -> Expression:
        span = span_of(node)
        return self.notes.at(
            Literal(self._converted(node.this, "binary", span)), span, Origin(span.first)
        )

    def _constant(self, node: exp.Boolean | exp.Null) -> Expression:
        return Literal(bool(node.this) if isinstance(node, exp.Boolean) else None)

    def _parameter(self, node: exp.Placeholder) -> Parameter:
        name = node.name if node.this else ""
        hits = [each for each in self._parameters if each.casefold() == name.casefold()]
        if name in hits:
            hits = [name]
        if len(hits) != 1:
            known = f"The parameters are {listed(self._parameters)}." if self._parameters else ""
            raise self._fault(
                node,
                f'parameter ":{name}" does not exist' if name else "a parameter needs a name",
                code="CQL002",
                detail=known,
                hint=nearest(name, list(self._parameters)) if known else "Write a constant here.",
            )
        kind = self._parameters[hits[0]]
        return Parameter(self._numbers[hits[0]], kind.removesuffix("[]"), kind.endswith("[]"))

    def _single(self, node: exp.Placeholder) -> Expression:
        found = self._parameter(node)
        if found.many:
            raise self._fault(
                node,
                f'parameter ":{node.name}" is a set',
                code="CQL030",
                hint=f"A set stands alone in IN: write IN (:{node.name}).",
            )
        return found

    def _type(self, node: exp.Expr) -> str:
        span = span_of(node)
        text = " ".join(self._source[span.first : span.stop].lower().split())
        try:
            return type_name(type_named(_LONGER_TYPES.get(text, text)))
        except SchemaError as cause:
            raise self._fault(
                node, cause.message, code="CQL033", detail=cause.detail, hint=cause.hint
            ) from cause

    def _converted(self, text: str, kind: str, span: Span) -> Scalar:
        try:
            return constants.converter(kind)(text)
        except constants.NotOfTypeError as cause:
            raise LanguageError(
                f"{quoted(self._source, span)} {cause}",
                source=self._source,
                span=span,
                code="CQL032",
                hint=constants.hint_for(kind),
            ) from cause

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
            message, source=self._source, span=span_of(node), code=code, detail=detail, hint=hint
        )
