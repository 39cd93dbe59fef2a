"""What EXPLAIN says of a template whose queries share panes: how many, and what they are cut by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from millrace.engine.feeds import FeedSpec
from millrace.operators.evaluate import evaluate
from millrace.operators.relational.paned import grid_of
from millrace.operators.relational.timed import rows_of
from millrace.operators.relational.windows import sizes_of, slides_of
from millrace.operators.vectors import as_array
from millrace.plan.levels import QUERIES_AS
from millrace.plan.outline import term_text
from millrace.plan.panes import Added, Paned, paned
from millrace.session.planning import declared_for
from millrace.time import print_duration

if TYPE_CHECKING:
    from millrace.session.session import Session


def panes_of(session: Session, feed: FeedSpec) -> Paned | None:
    """Return how the queries of a family share panes, if they do."""
    plan = feed.plan
    if plan is None or plan.sharing is not None or plan.panes == "never":
        return None
    return paned(plan.told[0], declared_for(session, plan))


def pane_lines(found: Paned, parameters: pa.Table) -> Iterator[str]:
    """Yield lines about the panes that queries share, whose parameters are the rows of a table."""
    columns = [each.combine_chunks() for each in parameters.columns]
    names = [f"{QUERIES_AS}.p{at}" for at in range(len(columns))]
    queries = rows_of(columns, names, parameters.num_rows)
    yield "panes    elements are added up once for all queries, by pane, cell and group"
    if not parameters.num_rows:
        return
    sizes, slides = sizes_of(found.window, queries), slides_of(found.window, queries)
    grid = grid_of(sizes, slides, found.every)
    n_panes = -(-int(sizes.max()) // grid)
    windows = np.unique(np.stack((sizes, slides), axis=1), axis=0)
    yield (
        f"         {len(windows):,} different windows: panes of {print_duration(grid)}, "
        f"{max(n_panes, 1):,} in the widest"
    )
    for column, text in _tested(found).items():
        tests = [each for each in found.tests if each.column == column]
        values = [as_array(evaluate(each.value, queries, {}), len(sizes)) for each in tests]
        n_constants = len(pa.concat_arrays(values).drop_null().unique())
        yield f"         {text} is compared with {n_constants:,} different constants"


def _tested(found: Paned) -> dict[str, str]:
    """Return what is compared with constants, by the names of its columns."""
    added = [each for step in found.below if isinstance(step, Added) for each in step.outputs]
    return {each.name: term_text(each.value) for each in added}
