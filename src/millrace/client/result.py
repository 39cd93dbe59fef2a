"""Rows that a server sent, for whichever library is to go on with them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from millrace.errors import MachineError


class Result:
    """A table of rows.

    It is Arrow inside, and has all that a `pyarrow.Table` has, which is what a session returns.
    Libraries that know Arrow take it as it is: `polars.DataFrame(result)`,
    `duckdb.sql("SELECT * FROM result")`, `pyarrow.table(result)`.

    Parameters
    ----------
    cursor
        Where to go on from, for rows of a subscription.

    Examples
    --------
    >>> result = Result(pa.table({"symbol": ["ACME"], "price": [120.0]}))
    >>> len(result), result.column_names
    (1, ['symbol', 'price'])
    >>> result.rows()
    [{'symbol': 'ACME', 'price': 120.0}]
    """

    def __init__(self, table: pa.Table, *, cursor: str | None = None) -> None:
        self._table, self.cursor = table, cursor

    def to_arrow(self) -> pa.Table:
        """Return the rows as a `pyarrow.Table`; nothing is copied."""
        return self._table

    def to_pandas(self) -> Any:  # noqa: ANN401  pandas may be absent
        """Return the rows as a `pandas.DataFrame`."""
        return self._table.to_pandas()

    def to_polars(self) -> Any:  # noqa: ANN401  polars may be absent
        """Return the rows as a `polars.DataFrame`."""
        try:
            import polars  # noqa: PLC0415  needed by few
        except ImportError as cause:
            raise MachineError(
                "polars is not installed", hint="Install it, or take to_arrow() or to_pandas()."
            ) from cause
        return polars.from_arrow(self._table)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        found: list[dict[str, Any]] = self._table.to_pylist()
        return found

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever a table has
        if name.startswith("_"):  # before there is a table, and for those who look for protocols
            raise AttributeError(name)
        return getattr(self._table, name)

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        return self._table.column(column)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for batch in self._table.to_batches():
            yield from batch.to_pylist()

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        shape = ", ".join(f"{each.name} {each.type}" for each in self._table.schema)
        return f"<Result of {len(self):,} rows: {shape}>"
