"""Work of plans, added up over shards and epochs."""

from __future__ import annotations

from millrace.engine.receipt import Receipt
from millrace.engine.work import Done, Works
from millrace.operators.weighing import Weighed


def test_shards_and_epochs_are_added_up() -> None:
    works = Works()

    first, second = ({7: {"r0": done}} for done in ((3, 0.5, 0), (5, 0.25, 2)))
    works.add(4, [Receipt(0, work=first), Receipt(1, work=second)])
    works.add(6, [Receipt(0, work={7: {"r0": (1, 1.0, 1), "r1": (2, 0.0, 0)}})])
    found = works.plans[7]

    assert (found.n_epochs, found.epoch) == (2, 6)
    assert found.total == {"r0": Done(9, 1.75, 3), "r1": Done(2, 0.0)}
    assert found.last == {"r0": Done(1, 1.0, 1), "r1": Done(2, 0.0)}
    assert found.shards == {0: Done(3, 0.5), 1: Done(5, 0.25, 2)}


def test_ways_of_shards_are_told_together_and_stand_until_one_is_chosen_again() -> None:
    works, work = Works(), {7: {"r0": (1, 0.0, 0)}}
    one, other = Weighed(("ssi",), {"ssi": 1.0}, 3), Weighed(("lineage",), {"ssi": 4.0}, 2)

    works.add(4, [Receipt(each, work=work, weighed={7: found})
                  for each, found in enumerate((one, other))])  # fmt: skip
    works.add(5, [Receipt(0, work=work)])

    assert works.plans[7].weighed == Weighed(("lineage", "ssi"), {"ssi": 5.0}, 5)


def test_what_was_dropped_is_forgotten() -> None:
    works = Works()
    works.add(0, [Receipt(0, work={7: {"r0": (1, 0.0, 0)}, 8: {"r0": (1, 0.0, 0)}})])

    works.keep({8})

    assert list(works.plans) == [8]
