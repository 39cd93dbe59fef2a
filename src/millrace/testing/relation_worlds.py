"""Hypothesis strategies: what happens to some declared streams and tables.

Few rows of few values, so that equal ones meet: NULLs, ties of instants, rows of tables that go
again, also at the instant at which they came, and now and then a double that causes trouble.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, TypeAlias

from hypothesis import strategies as st

from millrace.plan.relation_types import Declared
from millrace.schema import Schema
from millrace.testing.oracle.relations import Change, Element
from millrace.testing.small_expressions import INSTANTS

DECLARED = Declared(
    {
        "s": Schema.of(
            "k int, v int, x double, name text, ok boolean, d decimal(6, 2), w timestamp"
        ),
        "t": Schema.of("k int, v int, name text"),
    },
    {
        "r": Schema.of("k int, v int, name text"),
        "q": Schema.of("k int, x double, ok boolean, d decimal(6, 2), w timestamp"),
    },
)
"""The streams and tables over which plans are drawn."""
LAST = 12
"""The last instant at which something happens."""

Worlds: TypeAlias = tuple[dict[str, list[Element]], dict[str, list[Change]]]
"""Elements of each stream in order, and changes of each table."""

_TROUBLE = [math.nan, -0.0, math.inf, -math.inf]
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int32": st.sampled_from([0, 1, 2, 3, 1, -1, None]),
    "double": st.sampled_from([*[0.0, 0.5, 1.0, 2.25, -1.5] * 6, *_TROUBLE, *[None] * 4]),
    "string": st.sampled_from(["a", "b", "", "ab", "a", "é", None]),
    "bool": st.sampled_from([True, False, None]),
    "decimal128(6, 2)": st.sampled_from([*map(Decimal, ("0", "0.50", "2.25", "-1.5")), None]),
    "timestamp[us, tz=UTC]": st.sampled_from([*INSTANTS, None]),
}


def _rows(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    nullable = [_VALUES[str(each.type)] for each in schema]
    return st.tuples(*nullable).map(lambda drawn: dict(zip(schema.names, drawn, strict=True)))


def _some(each: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Draw a list; without a least size so many would be empty that most plans show no row."""
    return st.lists(each, min_size=3, max_size=8)


def _elements(schema: Schema) -> st.SearchStrategy[list[Element]]:
    each = st.tuples(st.integers(0, LAST), _rows(schema))
    return _some(each).map(lambda some: sorted(some, key=lambda each: each[0]))


def _changes(schema: Schema) -> st.SearchStrategy[list[Change]]:
    """Draw rows of a table, each with the instants at which it comes and, if it does, goes."""
    stays = st.tuples(st.integers(0, 6), _rows(schema), st.none() | st.integers(0, 6))
    return _some(stays).map(
        lambda some: sorted(
            [(at, row, 1) for at, row, _ in some]
            + [(at + length, row, -1) for at, row, length in some if length is not None],
            key=lambda each: each[0],
        )
    )


def worlds() -> st.SearchStrategy[Worlds]:
    """Draw elements of the declared streams and changes of the declared tables."""
    return st.tuples(
        st.fixed_dictionaries({name: _elements(of) for name, of in DECLARED.streams.items()}),
        st.fixed_dictionaries({name: _changes(of) for name, of in DECLARED.tables.items()}),
    )
