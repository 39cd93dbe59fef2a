"""Changes of the registry by which queries come: their rows of constants, and those of plans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.parameters import parameter_schema
from millrace.plan.expressions import Literal
from millrace.plan.nodes import Selection


def constants(types: Sequence[str], values: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Return rows of constants, one for each query."""
    columns = [
        pa.array([row[at] for row in values], field.type)
        for at, field in enumerate(parameter_schema(types))
    ]
    return constants_of(types, columns, len(values))


def constants_of(types: Sequence[str], columns: list[pa.Array], n_rows: int) -> pa.RecordBatch:
    """Return columns of constants as rows."""
    if not types:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * n_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(columns, schema=parameter_schema(types))


def nothing(feed: FeedSpec) -> Selection:
    """Return the selection of queries that a plan runs: no row answers them by itself."""
    return Selection(feed.stream, (), Literal(False))


def adding(feed: FeedSpec) -> list[dict[str, Any]]:
    """Return the change by which a feed comes."""
    return [{"do": "add feed", "feed": feed.to_json()}]


def adding_plan(
    feed: FeedSpec, types: Sequence[str] = (), *, rows: int = 0
) -> list[dict[str, Any]]:
    """Return the changes by which a feed comes, and its plan, as a query of its name.

    One that is run with others has constants of some types, in the table of the number `rows`.
    """
    family = Family(feed.name, nothing(feed), tuple(types)).to_json()
    added = {"family": family, "n_rows": 1, "rows": rows, "names": [feed.name]}
    added |= {} if feed.expires is None else {"expires": feed.expires}
    return [*adding(feed), {"do": "add queries", **added}]
