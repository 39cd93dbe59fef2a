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
from millrace.operators.joining.alike import numbered_places
from millrace.operators.joining.exploring import Combinations, columns_of
from millrace.operators.joining.queries import Queries
from millrace.operators.joining.stems import Functions, Stems, truth
from millrace.operators.relational.timed import take_rows
from millrace.plan.expressions import Call, Column, Expression, walk


def left_over(
    stems: Stems, found: Combinations, queries: Queries, wanted: Ints, functions: Functions
) -> Ints:
    """Return the places of combinations for which all is true that their queries still ask."""
    kept = np.arange(len(found))
    for each in sorted(queries.unsettled, key=_calls):
        kept = kept[_true(each, stems, found.take(kept), queries, wanted[kept], functions)]
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
        if len(named) < len(found.rows):
            places = [(wanted, len(queries))]
            places += [(each, len(stems.leaves[leaf])) for leaf, each in named.items()]
            numbers, firsts = numbered_places(places, len(wanted))
            found, wanted = found.take(firsts), wanted[firsts]
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
