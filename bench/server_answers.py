"""Whether each query's answers are its own, all of them, and each once.

What was pushed is known row by row, and no two rows are equal. So what a query must have been told
follows from its text, and is worked out by DuckDB; sums alone would not notice that one answer was
lost and another one came twice, or to somebody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

ROW = "_query, symbol, price, CAST(ts AS TIMESTAMPTZ) AS ts"


@dataclass(frozen=True, slots=True)
class Difference:
    """How many answers there must be, how many of them are missing, and how many are too many."""

    expected: int
    lost: int
    extra: int

    @property
    def total(self) -> int:
        """How many answers are not as they must be."""
        return self.lost + self.extra

    def __str__(self) -> str:
        return f"{self.lost:,} lost and {self.extra:,} too many of {self.expected:,}"


def difference(
    sent: Path, told: Path | pa.Table, queries: pa.Table, since: str | None = None
) -> Difference:
    """Compare answers with what queries of `symbol = :sym AND price > :low` must have.

    Parameters
    ----------
    sent
        The rows that were pushed.
    told
        The answers, with the id of the query in `_query`.
    queries
        The ids `_query` and the parameters; where `sym` is NULL any symbol will do.
    since
        Only rows from this instant on count.
    """
    with duckdb.connect() as database:
        database.register("queries", queries)
        if isinstance(told, Path):
            told = database.read_parquet(str(told)).to_arrow_table()
        database.register("answers", told)
        later = "TRUE" if since is None else f"CAST(ts AS TIMESTAMPTZ) >= '{since}'"
        database.execute(
            f"CREATE VIEW expected AS SELECT {ROW} FROM queries JOIN read_parquet('{sent}') "
            f"ON (sym IS NULL OR symbol = sym) AND price > low WHERE {later}"
        )
        database.execute(f"CREATE VIEW told AS SELECT {ROW} FROM answers WHERE {later}")
        counts = [
            f"SELECT count(*) FROM ({each})"
            for each in (
                "FROM expected",
                "FROM expected EXCEPT ALL FROM told",
                "FROM told EXCEPT ALL FROM expected",
            )
        ]
        found = [database.execute(each).fetchone() for each in counts]
    return Difference(*(int(each[0]) for each in found if each is not None))
