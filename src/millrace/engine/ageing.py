"""Ageing: how long queries that begin together see less than those that were always there.

Until their windows have forgotten whatever came before them. Where sizes of windows are parameters,
that follows from the queries of a birth: it is the longest time for any of them. A birth that comes
after one that is not of age does not grow up before it, so that births do so in their order: its
time is at least the other's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from millrace.engine.births import Births
from millrace.engine.plans import PlanSpec
from millrace.engine.query_rows import BORN, queries_spec
from millrace.engine.tables import COPIES, TableFile, consolidated, read_changes
from millrace.kernels.arrays import Ints
from millrace.operators.ranges import evaluate_constants
from millrace.plan.expressions import Expression
from millrace.plan.family_bounds import Span
from millrace.state.root import Root

LONGEST = 1 << 59
"""What is added up is no longer: sums of a few of them are still numbers of 64 bits."""


def lasting(root: Root, plan: PlanSpec, files: Sequence[TableFile], before: Births) -> int:
    """Return how long the queries last that have come after some births, as their files say."""
    types = plan.parameter_types
    changes = read_changes(root, queries_spec("queries", types), files, before.last or None)
    net = consolidated(changes)
    born, copies = net.column(BORN).to_numpy(), net.column(COPIES).to_numpy()
    new = net.filter(pa.array((born > before.last) & (copies > 0))).combine_chunks()
    parameters = new.select([f"p{at}" for at in range(len(types))])
    own = [longest(plan.spans, each) for each in parameters.to_batches()]
    return max([0, *own, *(each.lasts or 0 for each in before.alive)])


def longest(spans: Sequence[Span], parameters: pa.RecordBatch) -> int:
    """Return the longest of some spans for any of some queries; a size that is NULL is none."""
    found = np.zeros(parameters.num_rows, np.int64)
    for span in spans:
        lengths = [_length(each, parameters) for each in span if not isinstance(each, int)]
        fixed = sum(each for each in span if isinstance(each, int))
        found = np.maximum(found, fixed + sum(lengths, np.zeros_like(found)))
    return int(found.max(initial=0))


def _length(size: Expression, parameters: pa.RecordBatch) -> Ints:
    values: Ints = evaluate_constants(size, parameters).cast(pa.int64()).fill_null(0).to_numpy()
    return np.clip(values, 0, LONGEST)
