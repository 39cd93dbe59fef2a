"""What is kept of prepared queries: changed where that is worth it, and where nobody uses it."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from millrace.operators.codes import codes_of
from millrace.operators.joining.conditions import Conditions
from millrace.operators.joining.prepared import Choices, Kept, Prepared
from millrace.operators.joining.queries import Queries, Ranged
from millrace.operators.joining.turnover import Turnover, compared, told
from millrace.plan.joining import Joining

JOINING, CONDITIONS = Joining((), (), ()), Conditions((), (), (), (), ())
RANGES = st.tuples(st.integers(0, 5), st.integers(0, 5))
Rows = dict[int, tuple[int, float]]
"""By id: the change that a query came with, and its parameter."""


def batch(rows: Rows) -> pa.RecordBatch:
    born, values = ([each[at] for each in rows.values()] for at in (0, 1))
    columns = [pa.array([*rows], pa.int64()), pa.array(born, pa.int64())]
    names = ["qid", "born", "p0"]
    return pa.RecordBatch.from_arrays([*columns, pa.array(values, pa.float64())], names=names)


def queries(rows: Rows) -> Queries:
    return Queries.of(batch(rows), JOINING, CONDITIONS)


@dataclass
class Making:
    """Prepares queries, and counts how often."""

    number: int = 1
    n_prepared: int = 0

    def prepare(self, rows: pa.RecordBatch) -> Prepared:
        self.n_prepared += 1
        return Prepared.of(Queries.of(rows, JOINING, CONDITIONS), None)

    def change(self, prepared: Prepared, change: Turnover) -> Prepared | None:
        changed = prepared.queries.changed(change.gone, change.come, JOINING, CONDITIONS)
        return None if changed is None else prepared.changed(change.gone, changed)


@dataclass
class Standing:
    """Queries of a version; nothing is known of other versions."""

    stand: Rows
    version: object = field(default_factory=object)

    def rows(self) -> pa.RecordBatch:
        return batch(self.stand)

    def since(self, version: Hashable) -> None:
        """Return nothing."""

    def entered(self, born: np.ndarray) -> np.ndarray:
        return born


MANY: Rows = {qid: (1, qid / 2) for qid in range(1, 9)}
ONE_MORE: Rows = {**{qid: each for qid, each in MANY.items() if qid != 3}, 9: (2, 0.5)}


def ids_of(kept: Kept, how: Making, members: Standing, *, upkeep: bool = True) -> list[int]:
    with kept.using(how, members, upkeep=upkeep) as prepared:
        assert prepared.places[prepared.slots].tolist() == [*range(len(prepared.queries))]
        return [*map(int, prepared.queries.ids)]


def test_few_changes_are_made_in_what_is_kept() -> None:
    kept, how = Kept(1 << 20), Making()

    assert ids_of(kept, how, Standing(MANY)) == [*MANY]
    assert ids_of(kept, how, Standing(ONE_MORE)) == [*ONE_MORE]

    assert (how.n_prepared, len(kept)) == (1, 1)


@pytest.mark.parametrize("upkeep", ["off", "on, but most are others"])
def test_everything_is_prepared_anew(upkeep: str) -> None:
    kept, how = Kept(1 << 20), Making()
    ids_of(kept, how, Standing(MANY))
    others = ONE_MORE if upkeep == "off" else dict.fromkeys(range(1, 9), (3, 0.5))

    assert ids_of(kept, how, Standing(others), upkeep=upkeep != "off") == [*others]

    assert how.n_prepared == 2


def test_what_somebody_uses_is_not_changed() -> None:
    kept, how = Kept(1 << 20), Making()
    with kept.using(how, Standing(MANY), upkeep=True) as prepared:
        assert ids_of(kept, how, Standing(ONE_MORE)) == [*ONE_MORE]
        assert prepared.queries.ids.tolist() == [*MANY]

    assert how.n_prepared == 2


def test_what_is_of_others_is_not_changed() -> None:
    kept, how = Kept(1 << 20), Making()
    ids_of(kept, Making(number=2), Standing(MANY))

    assert ids_of(kept, how, Standing(ONE_MORE)) == [*ONE_MORE]

    assert (how.n_prepared, len(kept)) == (1, 2)


def test_where_most_slots_are_free_everything_is_prepared_anew() -> None:
    kept, how, left = Kept(1 << 20), Making(), dict(MANY)
    while len(left) > 3:
        ids_of(kept, how, Standing(dict(left)))
        left.popitem()

    assert ids_of(kept, how, Standing(left)) == [*left]
    assert how.n_prepared == 2


def test_choices_stand_until_much_has_changed() -> None:
    choices = Choices({(1, 2): {"ssi": 1.0}})

    choices.changed(200, 1_000)
    assert choices.costs == {(1, 2): {"ssi": 1.0}}
    choices.changed(200, 1_000)
    assert choices.costs == {}


@given(st.lists(st.tuples(RANGES, st.booleans())), st.lists(RANGES))
@example([((1, 2), True), ((1, 2), True), ((1, 4), False)], [(1, 2)])
def test_ends_of_ranges_stay_in_order(
    first: list[tuple[tuple[int, int], bool]], others: list[tuple[int, int]]
) -> None:
    ranged, come = ranges([each for each, _ in first]), ranges(others)
    gone = np.flatnonzero([goes for _, goes in first])
    assert len(ranged.ends) == 2

    changed = ranged.changed(gone, come)

    assert changed.low.tolist() == [*np.delete(ranged.low, gone), *come.low]
    anew = Ranged(changed.low, changed.high, codes_of)
    for one, other in zip(changed.ends, anew.ends, strict=True):
        assert one.tolist() == other.tolist()


def ranges(some: list[tuple[int, int]]) -> Ranged:
    low, high = np.array(some, np.int64).reshape(-1, 2).T.copy()
    return Ranged(low, high, codes_of)


# ---- turnover ------------------------------------------------------------------------------------


def test_queries_with_other_constants_or_another_life_are_others() -> None:
    before = queries({1: (1, 0.0), 2: (1, 2.0), 3: (1, float("nan"))})
    now: Rows = {1: (1, -0.0), 2: (5, 2.0), 3: (1, float("nan"))}

    change = compared(before, batch(now))

    assert change.gone.tolist() == [0, 1]
    assert change.come.column("qid").to_pylist() == [1, 2]


def test_a_query_may_go_and_come_again_at_once() -> None:
    change = told(queries(MANY), batch({2: MANY[2]}), batch({2: (5, 1.0)}))

    assert change is not None
    after = queries(MANY).changed(change.gone, change.come, JOINING, CONDITIONS)
    assert after is not None
    assert after.ids.tolist() == [1, 3, 4, 5, 6, 7, 8, 2]
    assert after.born.tolist()[-1] == 5


def test_what_is_told_of_other_queries_is_not_believed() -> None:
    assert told(queries(MANY), batch({2: (7, 1.0)}), batch({})) is None
    assert told(queries(MANY), batch({20: (1, 1.0)}), batch({})) is None
