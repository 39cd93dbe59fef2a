"""A slab: the stretch of time that one step of a plan completes, with all that happened in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from millrace.kernels.arrays import Ints
from millrace.operators.evaluate import Function
from millrace.operators.relational.state import State


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of a stream, in order; for a change of a table, how many copies come or go."""

    rows: pa.RecordBatch
    times: Ints
    copies: Ints | None = None


@dataclass(frozen=True, slots=True)
class Slab:
    """The instants [begin, end), the elements of streams and the changes of tables in them.

    The first slab of a plan says so: what is there from the beginning, such as the count of
    nothing, is told then.
    """

    begin: int
    end: int
    streams: Mapping[str, Elements]
    tables: Mapping[str, Elements]
    state: State
    first: bool = False
    functions: Mapping[str, Function] = field(default_factory=dict)
