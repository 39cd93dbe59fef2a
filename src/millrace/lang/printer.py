"""Printing a tree as text that parses to an equal tree; the only home of sqlglot's printers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.generator import Generator

from millrace.lang.trees import WINDOW, CqlWindow, XStream
from millrace.time import print_duration


class CqlPrinter(Generator):
    """sqlglot's printer for the base dialect, and the nodes of our own."""

    TRANSFORMS: ClassVar = {
        **Generator.TRANSFORMS,
        CqlWindow: lambda self, node: self.cqlwindow_sql(node),
        XStream: lambda self, node: self.xstream_sql(node),
        exp.RegexpLike: lambda self, node: self.binary(node, "~"),
        exp.RegexpILike: lambda self, node: self.binary(node, "~*"),
        exp.Pow: lambda self, node: self.binary(node, "^"),
        exp.HexString: lambda _, node: f"X'{node.this}'",
        exp.Dot: lambda self, node: self.dot_sql(node),
    }

    def cqlwindow_sql(self, node: CqlWindow) -> str:
        """Print a window with its brackets."""
        kind, size = node.args["kind"], node.args.get("size")
        if kind == "NOW":
            return "[NOW]"
        if kind == "BEGIN":
            return f"[{self.span_text(node)}]"
        show = print_duration if kind == "RANGE" else str
        by = (
            f"PARTITION BY {self.expressions(node, key='by', flat=True)} "
            if node.args.get("by")
            else ""
        )
        unit = "RANGE" if kind == "RANGE" else "ROWS"
        shown = "UNBOUNDED"
        if size is not None:
            shown = self._length(size, node.args.get("unit"), show)
        return f"[{by}{unit} {shown}{self._sliding(node, show)}]"

    def _sliding(self, node: CqlWindow, show: Callable[[int], str]) -> str:
        slide = node.args.get("slide")
        if slide is None:
            return ""
        return f" SLIDE {self._length(slide, node.args.get('slide_unit'), show)}"

    def _length(
        self, length: int | exp.Placeholder, unit: int | None, show: Callable[[int], str]
    ) -> str:
        """Print a length, or a parameter and the unit that it counts."""
        if not isinstance(length, exp.Placeholder):
            return show(length)
        counted = "" if unit in (None, 1) else f" {print_duration(unit).split()[1]}"
        return f"{self.placeholder_sql(length)}{counted}"

    def span_text(self, window: CqlWindow) -> str:
        """Print BEGIN and END without brackets."""
        since, until, lag = (window.args.get(each) for each in ("since", "until", "lag"))
        before = window.args.get("size")
        if since is None and before:
            begin = f"NOW - {self._length(before, window.args.get('unit'), print_duration)}"
        else:
            begin = _bound_text(since, 0)
        sliding = self._sliding(window, print_duration)
        return f"BEGIN {begin} END {_bound_text(until, lag)}{sliding}"

    def select_sql(self, node: exp.Select) -> str:
        """Print a SELECT and its BEGIN and END."""
        window = node.args.get(WINDOW)
        if window is None:
            return super().select_sql(node)
        bare = node.copy()
        bare.set(WINDOW, None)
        return f"{super().select_sql(bare)} {self.span_text(window)}"

    def dot_sql(self, node: exp.Dot) -> str:
        """Print a path; behind a number its dot stands apart, or it would be a fraction."""
        gap = " " if isinstance(node.this, exp.Literal) else ""
        return f"{self.sql(node, 'this')}{gap}.{self.sql(node, 'expression')}"

    def xstream_sql(self, node: XStream) -> str:
        """Print ISTREAM(...), around a query or a select list."""
        distinct = "DISTINCT " if node.args.get("distinct") else ""
        inner = self.sql(node, "this") or distinct + self.expressions(node, flat=True)
        every = node.args.get("every")
        ticking = f" EVERY {print_duration(every)}" if every is not None else ""
        return f"{node.args['kind']}({inner}){ticking}"

    def table_parts(self, node: exp.Table) -> str:
        """Print a table's name and the window behind it."""
        window = node.args.get(WINDOW)
        name = super().table_parts(node)
        return f"{name} {self.sql(window)}" if window is not None else name

    def subquery_sql(self, node: exp.Subquery, sep: str = " AS ") -> str:
        """Print a subquery, the window behind it, and its alias."""
        window = node.args.get(WINDOW)
        if window is None:
            return super().subquery_sql(node, sep)
        bare = node.copy()
        bare.set(WINDOW, None)
        bare.set("alias", None)
        alias = self.sql(node, "alias")
        return f"{super().subquery_sql(bare, sep)} {self.sql(window)}{sep + alias if alias else ''}"

    def placeholder_sql(self, node: exp.Placeholder) -> str:
        """Print a named parameter."""
        return f":{node.name}" if node.this else "?"


def _bound_text(instant: int | None, before: int | None) -> str:
    if instant is None:
        return f"NOW - {print_duration(before)}" if before else "NOW"
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)
    return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat(' ')}'"


def to_text(tree: exp.Expr, **options: Any) -> str:  # noqa: ANN401  sqlglot's options
    """Print a tree in our dialect; without it, sqlglot would drop windows in silence."""
    return CqlPrinter(dialect="cql", **options).generate(tree)
