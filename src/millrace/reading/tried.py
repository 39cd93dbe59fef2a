"""What a query would have answered on history: what a dry run tells, here or from a server."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, eq=False)
class DryRun:
    """What a query would have answered.

    Parameters
    ----------
    results
        How many rows of answers.
    sample
        The newest of them.
    seconds
        How long it took.
    rows, n_rows
        How many rows of the streams were tried, of how many.
    partial
        Whether more history was asked for than is retained.
    """

    results: int
    sample: pa.Table
    seconds: float
    rows: int
    n_rows: int
    partial: bool

    @property
    def at_least(self) -> bool:
        """Whether there would have been more results: not all rows were tried."""
        return self.rows < self.n_rows

    def __str__(self) -> str:
        least = "at least " if self.at_least else ""
        lines = [
            f"results  {least}{self.results:,}",
            f"rows     {self.rows:,} of {self.n_rows:,} were tried, in {self.seconds:.2f} s",
        ]
        lines += ["partial  less is retained than was asked for"] if self.partial else []
        rows = self.sample.to_pylist()
        lines += [f"sample   {_shown(row)}" for row in rows[:3]]
        return "\n".join(lines)


def _shown(row: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if not name.startswith("_"))
