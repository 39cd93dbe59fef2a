"""An error stays with its query, also where the query runs as one plan with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millrace
from millrace.engine.hidden import is_hidden
from millrace.engine.left_out import MOST_PROBED, culprits
from millrace.engine.local import Feed, LocalRun
from millrace.engine.members import StandingMembers
from millrace.engine.settings import Settings, Together
from millrace.errors import PlanError
from millrace.reading.reader import Reader
from millrace.session.listing import listed
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root

SUM = "SELECT sum(v) AS n FROM s [RANGE 4 us] WHERE u > {low}"
SLIDING = "SELECT k, sum(v) AS n FROM s [RANGE 4 us SLIDE 2 us] WHERE u > {low} GROUP BY k"
HAVING = "SELECT k, sum(v) AS n FROM s [RANGE 4 us] GROUP BY k HAVING count(*) > {low}"
JOIN = "SELECT ISTREAM(a.k, b.v) FROM s [RANGE 4 us] a, s [RANGE 3 us] b "
JOIN += "WHERE a.k = b.k AND a.u > {low}"
HELD = JOIN.replace("ISTREAM(a.k, b.v)", "a.k, b.v")
FUSSY = JOIN + " AND fussy(a.v, {low})"
STRICT = HELD + " AND strict(a.v)"
ORDINARY, TOO_LARGE = [1, 2, 3], [7, 2**62, 2**62]
LOWS = (0, 5, 10, 60, 99)


def fussy(values: pa.Array, lows: pa.Array) -> pa.Array:
    """Say that all is well; raise for what is too large, unless somebody does not mind."""
    if pc.any(pc.and_(pc.greater(values, 2**60), pc.less(lows, 50))).as_py():
        raise ValueError("too large")
    return pc.greater(values, 0)


def strict(values: pa.Array) -> pa.Array:
    """Raise for what is too large, whoever asks."""
    return fussy(values, pa.scalar(0))


def opened(root: Root, families: Together) -> tuple[millrace.Session, LocalRun]:
    how = Settings(shards=2, spread="always", families=families, backoff=0)
    session = millrace.Session(root, threads=False, settings=how)
    for function in (fussy, strict):
        session.function(function.__name__, function, returns="boolean")
    columns = "k int, u int, v bigint, ts timestamp"
    session.stream("s", Feed(columns), time="ts", retain="1 hour")
    run = session.start()
    assert isinstance(run, LocalRun)
    return session, run


def fed(run: LocalRun, *times: int, values: list[int] = ORDINARY) -> None:
    for at in times:
        run.feed(
            s=pa.table(
                {
                    "k": pa.array([1, 2, 2], pa.int32()),
                    "u": pa.array([1, 50, 90], pa.int32()),
                    "v": pa.array(values, pa.int64()),
                    "ts": pa.array([at] * 3, pa.timestamp("us", "UTC")),
                }
            )
        )


def told(of: str, families: Together) -> list[Any]:
    """Queries fail, are resumed, dropped and registered anew, and the engine begins anew."""
    root, found = MemoryRoot(), list[Any]()
    session, run = opened(root, families)
    n_queries = len(LOWS) - (families == "auto")

    def look() -> None:
        names = [each for each in session.engine.registry.population.names if not is_hidden(each)]
        for name in sorted(names):
            query = session.standing(name)
            assert isinstance(query, millrace.Query)
            found.append((name, query.failure, query.results().to_pylist()))

    for low in LOWS:
        session.query(of.format(low=low), name=f"q{low}")
    fed(run, 1, 2)
    catalog = session.engine.registry.catalog
    runs = [len(catalog.members(each.name)) for each in catalog.plans() if each.runs_queries]
    assert runs == ([] if families == "never" else [n_queries])
    fed(run, 3, values=TOO_LARGE)
    session.query(of.format(low=0), name="late")
    fed(run, 4, 6)
    look()
    session.close()
    session, run = opened(root, families)
    fed(run, 7)
    look()
    session.standing("q0").resume()  # type: ignore[union-attr]
    session.standing("q99").pause()  # type: ignore[union-attr]
    fed(run, 8)
    session.standing("q5").drop()
    fed(run, 9)
    session.standing("q10").resume()  # type: ignore[union-attr]
    session.standing("q99").resume()  # type: ignore[union-attr]
    session.query(of.format(low=2), name="q5")
    fed(run, 11, 12)
    look()
    fed(run, 13, values=TOO_LARGE)
    fed(run, 20)
    session.standing("q0").resume()  # type: ignore[union-attr]
    fed(run, 30, 40, 60)
    look()
    return found


@pytest.mark.parametrize("of", [SUM, SLIDING, FUSSY])
def test_only_those_fail_that_would_alone_and_the_others_answer_as_without_them(of: str) -> None:
    alone = told(of, "never")

    assert {name for name, failure, _ in alone if failure} == {"q0", "q5", "q10", "late"}
    assert told(of, "always") == alone
    assert told(of, "auto") == alone


def test_a_function_that_fails_for_all_of_a_join_fails_for_nobody_who_has_not_seen_the_row() -> (
    None
):
    alone = told(STRICT, "never")

    assert {(name, failure is None) for name, failure, _ in alone} >= {
        ("q99", False),
        ("late", True),
    }
    assert told(STRICT, "always") == alone


def test_what_all_of_them_share_fails_for_all_and_each_is_resumed_by_itself() -> None:
    session, run = opened(MemoryRoot(), "always")
    queries = [session.query(HAVING.format(low=low), name=f"q{low}") for low in range(3)]
    fed(run, 1)
    fed(run, 2, values=TOO_LARGE)
    fed(run, 3)
    assert all(each.failure is not None for each in queries)

    queries[0].resume()
    left = queries[1].results()
    fed(run, 20, 21, 40)

    assert [each.failure is None for each in queries] == [True, False, False]
    assert queries[0].results().num_rows
    queries[2].resume()
    before = queries[0].results().num_rows
    fed(run, 60, 61, 80)
    assert queries[0].results().num_rows > before
    assert queries[2].results().num_rows
    assert queries[1].results() == left


@pytest.mark.parametrize("of", [JOIN, HELD])
def test_a_query_of_a_join_leaves_it_alone(of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No condition of a join fails by itself: one that cannot be prepared stands for it."""
    prepared, lows, trap = StandingMembers.rows, {0: 0, 1: 5, 2: 60}, [False]

    def rows(self: StandingMembers) -> pa.RecordBatch:
        found = prepared(self)
        if trap[0] and 5 in [value for name in found.schema.names[2:] for value in
                             found.column(name).to_pylist()]:  # fmt: skip
            raise PlanError("it is five")
        return found

    def answers(families: Together) -> list[Any]:
        session, run = opened(MemoryRoot(), families)
        queries = [session.query(of.format(low=low), name=f"q{at}") for at, low in lows.items()]
        fed(run, 1, 2)
        trap[0] = families == "always"
        session.query(of.format(low=7), name="late")  # so that queries are prepared again
        fed(run, 3, 4)
        if families == "always":
            assert queries[1].failure is not None
            assert queries[1].failure["message"] == "it is five"
            trap[0] = False
        queries[1].resume()
        fed(run, 5, 7, 20)
        assert queries[1].failure is None
        standing = [queries[0], queries[2], session.standing("late")]
        return [each.results().to_pylist() for each in standing]

    monkeypatch.setattr(StandingMembers, "rows", rows)
    monkeypatch.setattr(StandingMembers, "since", lambda *_: None)  # all are prepared anew

    assert answers("always") == answers("never")


def test_it_is_shown_as_of_a_query_alone() -> None:
    def shown(families: Together) -> list[Any]:
        root = MemoryRoot()
        session, run = opened(root, families)
        for low in LOWS:
            session.query(SUM.format(low=low), name=f"q{low}")
        fed(run, 1)
        fed(run, 2, values=TOO_LARGE)
        fed(run, 4)
        query = session.standing("q5")
        assert isinstance(query, millrace.Query)
        lines = [each for each in query.explain().splitlines() if each.startswith("state")]
        reader = Reader(root)
        reader.open()
        with reader.registered() as (_, population, _):
            names = {qid: name for name, qid in population.names.items()}
        verdicts = {names[qid]: each for qid, each in reader.suspended().items()}
        reader.close()
        return [lines, listed(session, "queries").to_pylist(), verdicts]

    assert shown("always") == shown("never")


def of_some(guilty: set[int]) -> Callable[[Any], Exception | None]:
    return lambda some: PlanError(f"{sorted(guilty & set(some))}") if guilty & set(some) else None


def test_culprits_are_found_among_many() -> None:
    found = culprits(range(100), of_some({7, 40, 41}), PlanError("some"))

    assert [each.qid for each in found] == [7, 40, 41]
    assert [each.message for each in found] == ["[7]", "[40]", "[41]"]


def test_if_nobody_is_needed_for_it_everybody_is_to_blame() -> None:
    always = PlanError("whoever it is")

    assert len(culprits(range(3), lambda _: always, always)) == 3
    assert len(culprits(range(3), lambda some: always if len(some) > 1 else None, always)) == 3


def test_of_very_many_some_are_guilty_together() -> None:
    found = culprits(range(2 * MOST_PROBED), of_some({7}), PlanError("some"))

    assert [each.qid for each in found] == [6, 7]
