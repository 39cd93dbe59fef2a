"""What standing selections mean, in slow plain Python: each row, asked of each query in force.

Which rows are late or dead is said by `epochs`; here is what a query keeps of a row and what it
shows. A query whose function raises keeps nothing from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from millrace.plan.nodes import Selection
from millrace.schema import Schema
from millrace.testing.oracle.epochs import Asked, Row
from millrace.testing.oracle.expressions import World, value_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Standing:
    """A selection with one query's constants, as `epochs.outcome_of` asks it.

    Parameters
    ----------
    time
        The column whose values are microseconds in the oracle's rows.
    parameters
        The constants, by their numbers.
    functions, types
        Registered functions, for one row's values each, and what they return.
    """

    def __init__(
        self,
        selection: Selection,
        schema: Schema,
        time: str,
        *,
        parameters: Mapping[int, Any],
        functions: Mapping[str, Callable[..., Any]],
        types: Mapping[str, pa.DataType],
    ) -> None:
        self._selection, self._time, self.stream = selection, time, selection.stream
        self._world = World(schema, parameters, functions, types)
        self.failure: tuple[Row, Exception] | None = None

    def keeps(self, row: Row) -> bool:
        """Say whether the row is an answer: its condition is true, neither false nor unknown."""
        if self.failure is not None:
            return False
        condition = self._selection.condition
        try:
            kept = condition is None or value_of(condition, self._typed(row), self._world) is True
            if kept:
                self.shows(row)
        except Exception as cause:
            self.failure = row, cause
            return False
        return kept

    def shows(self, row: Row) -> tuple[object, ...]:
        """Compute the columns of the answer."""
        typed = self._typed(row)
        return tuple(value_of(each.value, typed, self._world) for each in self._selection.outputs)

    def asked(self, name: str, first: int, stop: int) -> Asked:
        """Ask in the epochs `[first, stop)`."""
        return Asked(name, self._selection.stream, self.keeps, self.shows, first, stop)

    def _typed(self, row: Row) -> dict[str, Any]:
        micros = row[self._time]
        assert isinstance(micros, int), "a row without a time is asked of nobody"
        return {**row, self._time: _EPOCH + timedelta(microseconds=micros)}
