"""Rows as a program gives them: Arrow's tables, data frames, columns by name, or dictionaries.

{"sym": ["ACME", "BOLT"], "low": [100, 12.5]}           columns
[{"sym": "ACME", "low": 100}, {"sym": "BOLT", "low": 12.5}]
a pandas or polars frame, a pyarrow Table or RecordBatch, anything with __arrow_c_stream__
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from millrace.errors import PlanError

Rows: TypeAlias = pa.Table | pa.RecordBatch | Mapping[str, Any] | Iterable[Mapping[str, Any]] | Any
"""A frame of another library has no type that could be named here."""

FORMS = (
    'Give columns such as {"sym": ["ACME"], "low": [100.0]}, a list of dictionaries, a data '
    "frame or an Arrow table."
)
_FAULTS = pa.ArrowException, TypeError, ValueError, AttributeError, OverflowError


def table_of(rows: Rows, what: str) -> pa.Table:
    """Return rows as a table, or say in which forms they can be given.

    Parameters
    ----------
    what
        What the rows are, for a message, such as "rows of parameters".

    Examples
    --------
    >>> table_of({"low": [1, 2]}, "rows").num_rows
    2
    """
    try:
        found = _read(rows)
    except _FAULTS as cause:
        raise PlanError(
            f"{what} cannot be read",
            detail=f"{str(cause).rstrip('.')}.",
            hint=f"Give each column values of one type. {FORMS}",
        ) from cause
    if found is None:
        raise PlanError(
            f"{what} cannot be read from {_shown(rows)}", hint=f"{FORMS} Nothing was taken."
        )
    return found


def _read(rows: Rows) -> pa.Table | None:
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    pandas = sys.modules.get("pandas")  # who has a frame has imported it
    if pandas is not None and isinstance(rows, pandas.DataFrame):
        return pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, Mapping):
        return pa.table(dict(rows))
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        return None
    listed = list(rows)
    return pa.Table.from_pylist(listed) if all(isinstance(e, Mapping) for e in listed) else None


def _shown(rows: object) -> str:
    if rows is None:
        return "None"
    if isinstance(rows, list | tuple) and rows:
        strange = next(each for each in rows if not isinstance(each, Mapping))
        return f"a {type(rows).__name__} of {type(strange).__name__}"
    return type(rows).__name__
