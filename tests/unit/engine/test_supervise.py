"""Supervision: who is to blame is found exactly, and soon; machines are given another chance."""

from __future__ import annotations

import logging
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engine.supervise import ExecutionError, Supervision, find_culprits


def error(signature: str = "crash", *, blames_query: bool = True) -> ExecutionError:
    return ExecutionError("tasks died", signature=signature, blames_query=blames_query)


class Prober:
    """Fails while one of the culprits runs; says which one it saw first."""

    def __init__(self, culprits: set[int], *, always: bool = False) -> None:
        self.culprits, self.always, self.n_probes = culprits, always, 0

    def __call__(self, some: tuple[int, ...]) -> ExecutionError | None:
        self.n_probes += 1
        seen = sorted(self.culprits & set(some))
        if seen:
            return error(f"q{seen[0]}")
        return error("machine") if self.always else None


@given(st.sets(st.integers(0, 200), max_size=40), st.data())
def test_exactly_the_culprits_are_found(qids: set[int], data: st.DataObject) -> None:
    culprits = data.draw(st.sets(st.sampled_from(sorted(qids)))) if qids else set()

    found = find_culprits(tuple(qids), Prober(culprits))

    assert {qid: each.signature for qid, each in (found or {}).items()} == {
        qid: f"q{qid}" for qid in culprits
    }


def test_nobody_is_blamed_if_it_fails_without_any_query() -> None:
    assert find_culprits((1, 2, 3), Prober({2}, always=True)) is None
    assert find_culprits((), Prober(set())) is None


def test_one_culprit_among_many_takes_about_two_probes_for_each_halving() -> None:
    prober = Prober({777})

    assert find_culprits(tuple(range(1024)), prober) is not None
    assert prober.n_probes <= 2 * math.log2(1024) + 3


def test_a_query_is_suspected_after_two_failures_that_look_the_same() -> None:
    waits: list[int] = []
    supervision = Supervision(waits.append)

    assert not supervision.failed(error("one"))
    assert not supervision.failed(error("other"))
    assert supervision.failed(error("other"))
    assert waits == [1, 2]
    assert not supervision.failed(error("other"))  # it begins anew


def test_failures_of_the_machine_blame_nobody_and_are_given_up_in_the_end() -> None:
    waits: list[int] = []
    supervision = Supervision(waits.append, patience=4)
    full = error("full", blames_query=False)

    assert [supervision.failed(full) for _ in range(3)] == [False] * 3
    with pytest.raises(ExecutionError):
        supervision.failed(full)
    assert waits == [1, 2, 3]


def test_a_failure_that_goes_on_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    supervision = Supervision(lambda _: None)
    error = ExecutionError("a task failed: no disk", signature="disk", blames_query=False)

    with caplog.at_level(logging.INFO):
        for _ in range(3):
            supervision.failed(error)

    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO", "INFO"]
