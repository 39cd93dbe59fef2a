"""What is left to be asked of each combination and query: for what it is about, and once.

A condition that calls a function of the user's may be dear, and a row of a leaf is in many
combinations. So functions are asked last, of what everything else has left; and one that names
the columns of some leaves alone is asked once for each query and different rows of those, in
whatever combinations they are:

    dear(s.price, :x) of a quote with 100 articles      one call for each query, and not 100
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from millrace.kernels.arrays import Bools, Ints
from millrace.kernels.grouping import number_hashes
from millrace.operators.joining.exploring import NO_BITS, Combinations, columns_of
from millrace.operators.joining.queries import Queries
from millrace.operators.joining.stems import Functions, Stems, truth
from millrace.operators.relational.timed import take_rows
from millrace.plan.expressions import Call, Column, Expression, walk

GREATEST_CODE = 1 << 63


def left_over(
    stems: Stems, found: Combinations, queries: Queries, wanted: Ints, functions: Functions
) -> Ints:
    """Return the places of combinations for which all is true that their queries still ask."""
    kept = np.arange(len(found))
    for each in sorted(queries.unsettled, key=_calls):
        rows = {leaf: places[kept] for leaf, places in found.rows.items()}
        some = Combinations(rows, found.times[kept], NO_BITS)
        kept = kept[_true(each, stems, some, queries, wanted[kept], functions)]
    return kept


def _true(
    condition: Expression,
    stems: Stems,
    found: Combinations,
    queries: Queries,
    wanted: Ints,
    functions: Functions,
) -> Bools:
    numbers = None
    if _calls(condition):
        named = _named(condition, stems, found)
        alike = _alike(named, stems, wanted, len(queries)) if len(named) < len(found.rows) else None
        if alike is not None:
            numbers, firsts = alike
            rows = {leaf: places[firsts] for leaf, places in found.rows.items()}
            found, wanted = Combinations(rows, found.times[firsts], NO_BITS), wanted[firsts]
    columns = columns_of(stems, found, [condition])
    parameters = take_rows(queries.parameters, wanted)
    mask = truth(condition, columns, functions, parameters)
    return mask if numbers is None else mask[numbers]


def _calls(node: Expression) -> bool:
    return any(isinstance(each, Call) for each in walk(node))


def _named(condition: Expression, stems: Stems, found: Combinations) -> Mapping[int, Ints]:
    """Return the rows of the leaves whose columns a condition names."""
    names = {each.name for each in walk(condition) if isinstance(each, Column)}
    return {
        leaf: places
        for leaf, places in found.rows.items()
        if not names.isdisjoint(stems.leaves[leaf].rows.schema.names)
    }


def _alike(
    named: Mapping[int, Ints], stems: Stems, wanted: Ints, n_queries: int
) -> tuple[Ints, Ints] | None:
    """Number what is of the same query and rows; None if there is too much to be numbered."""
    codes, n_codes = wanted, max(n_queries, 1)
    for leaf, places in named.items():
        n_rows = len(stems.leaves[leaf])
        n_codes *= max(n_rows, 1)
        if n_codes > GREATEST_CODE:
            return None
        codes = codes * n_rows + places
    return number_hashes(codes.astype(np.uint64))
