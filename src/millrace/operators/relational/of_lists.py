"""Aggregates that look at all values of a group: they are made of the list of them.

    array_agg   the list itself          string_agg   its texts, joined
    bit_and, bit_or, bit_xor             of its whole numbers

Cost: all values of a group for each instant at which it changes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.plan.relations import Aggregate

OF_ALL = ("array_agg", "string_agg", "bit_and", "bit_or", "bit_xor")
_BITS = {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}


def of_all(aggregate: Aggregate, lists: pa.Array) -> pa.Array:
    """Return an aggregate of each list, which is NULL where there is none.

    >>> bits = Aggregate("b", "bit_and")
    >>> of_all(bits, pa.array([[6, 3], None, [5]])).to_pylist()
    [2, None, 5]
    """
    if aggregate.kind == "array_agg":
        return lists
    if aggregate.kind == "string_agg":
        return pc.binary_join(lists, aggregate.separator or "")
    values = pc.list_flatten(lists)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
    found = np.zeros(len(lists), values.type.to_pandas_dtype())
    some = np.flatnonzero(lengths)
    if len(some):
        begins = (np.cumsum(lengths) - lengths)[some]
        found[some] = _BITS[aggregate.kind].reduceat(values.to_numpy(), begins)
    return pa.array(found, values.type, mask=lengths == 0)
