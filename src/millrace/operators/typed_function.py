"""Registered functions: what they return is brought into the type that they were declared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from millrace.errors import PlanError
from millrace.schema import MISFITS


@dataclass(frozen=True, slots=True)
class TypedFunction:
    """A vectorised function that returns arrays of one type.

    >>> import pyarrow.compute as pc
    >>> TypedFunction("size", pc.utf8_length, pa.float64())(pa.array(["ab"])).type
    DataType(double)
    """

    name: str
    function: Callable[..., object]
    returns: pa.DataType

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        """Call it; what cannot be of its type without a loss is refused."""
        result = self.function(*arrays)
        if not isinstance(result, pa.Array | pa.ChunkedArray) or result.type == self.returns:
            return result  # whether it is an array of so many rows the caller looks at
        try:
            return result.cast(self.returns)
        except MISFITS as cause:
            raise PlanError(
                f'function "{self.name}" returned {result.type} and was declared with '
                f"{self.returns}",
                detail=f"{cause}.",
            ) from cause
