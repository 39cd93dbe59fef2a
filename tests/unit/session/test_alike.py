"""Queries that are registered one by one and differ in constants alone: they run as one plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millrace
from millrace.engine.catalog import Catalog
from millrace.engine.hidden import is_hidden
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings, Together
from millrace.errors import NameTakenError, PlanError, UnknownNameError
from millrace.session.listing import listed
from millrace.session.plan_registration import PlanRegistration
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root

JOIN = "SELECT ISTREAM(a.k, b.v) FROM s [RANGE {size} us] a, t [RANGE 5 us] b "
JOIN += "WHERE a.k = b.k AND a.v > {low}"
ABOVE = "SELECT k, count(*) AS n FROM s [RANGE 4 us] GROUP BY k HAVING count(*) > {low}"
TICKS = "SELECT RSTREAM(k, sum(v) AS n) EVERY 2 us FROM s [RANGE 4 us] WHERE v > {low} GROUP BY k"
HELD = JOIN.replace("ISTREAM(a.k, b.v)", "a.k, b.v")
TEXTS = (JOIN, HELD, ABOVE, TICKS, "SELECT k, min(v) AS n FROM s [RANGE 4 us] GROUP BY k")


def opened(root: Root | None = None, families: Together = "auto") -> millrace.Session:
    how = Settings(shards=2, spread="always", families=families, backoff=0)
    session = millrace.Session(root or MemoryRoot(), threads=False, settings=how)
    for name in ("s", "t"):
        session.stream(name, Feed("k int, v int, ts timestamp"), time="ts", retain="1 hour")
    return session


def started(session: millrace.Session) -> LocalRun:
    run = session.start()
    assert isinstance(run, LocalRun)
    return run


def fed(run: LocalRun, *at: int) -> None:
    rows = {"k": [1, 2, 1], "v": [at[0] % 5, 3, 9]}
    for each in at:
        times = pa.array([each, each, each + 1], pa.timestamp("us", "UTC"))
        columns = {name: pa.array(some, pa.int32()) for name, some in rows.items()}
        run.feed(**dict.fromkeys(("s", "t"), pa.table({**columns, "ts": times})))


def catalog_of(session: millrace.Session) -> Catalog:
    return session.engine.registry.catalog


def joined(session: millrace.Session) -> list[str]:
    return [name for name, feed in catalog_of(session).feeds.items() if feed.joined]


def text(low: int, size: int = 3, of: str = JOIN) -> str:
    return of.format(low=low, size=size)


def results(query: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = query.results().to_pylist()
    return found


def test_the_first_is_alone_the_second_makes_a_family_and_others_join_it() -> None:
    session = opened()
    for name, low in (("a", 1), ("b", 2), ("c", 3)):
        session.query(text(low, size=low), name=name)

    assert joined(session) == ["b", "c"]
    assert len(catalog_of(session).planned) == 2


@pytest.mark.parametrize("of", TEXTS)
def test_answers_are_those_of_queries_alone(of: str) -> None:
    """They come and go, are paused, and the engine begins anew; down to the epochs."""

    def told(families: Together) -> dict[str, list[dict[str, Any]]]:
        root, found = MemoryRoot(), {}
        session = opened(root, families)
        run = started(session)
        for low in range(3):
            session.query(text(low, low + 1, of), name=f"q{low}")
        fed(run, 1, 3)
        session.query(text(0, 2, of), name="late")
        session.standing("q1").pause()  # type: ignore[union-attr]
        fed(run, 5)
        session.close()
        session = opened(root, families)
        run = started(session)
        found["q2"] = results(session.standing("q2"))
        session.standing("q2").drop()
        fed(run, 7)
        session.standing("q1").resume()  # type: ignore[union-attr]
        session.query(text(4, 2, of), name="q2")
        fed(run, 9, 12, 20)
        assert (families == "never") == (not joined(session))
        names = [name for name in catalog_of(session).feeds if not is_hidden(name)]
        return found | {f"{name} in the end": results(session.standing(name)) for name in names}

    alone = told("never")

    assert any(alone.values())
    assert told("auto") == alone
    assert told("always") == alone


@pytest.mark.parametrize("of", [JOIN, HELD, JOIN.replace("ISTREAM", "DSTREAM")])
def test_joins_of_windows_are_one_join_whatever_they_tell(of: str) -> None:
    session = opened(families="always")
    session.query(text(1, of=of), name="a")
    session.query(text(2, size=9, of=of), name="b")

    [runner] = catalog_of(session).plans()

    assert joined(session) == ["a", "b"]
    assert runner.plan is not None
    assert runner.plan.sharing is not None


def test_the_family_goes_with_the_last_of_its_queries() -> None:
    session = opened(families="always")
    run = started(session)
    for name in ("a", "b"):
        session.query(text(1), name=name)
    fed(run, 1)
    session.standing("a").drop()
    fed(run, 3)

    assert joined(session) == ["b"]
    session.standing("b").drop()
    fed(run, 5)
    assert not catalog_of(session).feeds
    assert not session.engine.registry.population.names
    assert not [each for each in session.engine.manifest.stores if each.startswith("plan")]
    session.query(text(1), name="a")
    fed(run, 7, 9, 20)
    assert results(session.standing("a"))


def test_the_same_query_may_be_registered_again_and_no_other() -> None:
    root = MemoryRoot()
    session = opened(root, families="always")
    first = session.query(text(1), name="a")
    assert session.query(text(1), name="a").id == first.id
    session.close()
    session = opened(root, families="never")
    assert session.query(text(1), name="a").id == first.id

    for other in (text(2), text(1, size=4), text(1, of=ABOVE)):
        with pytest.raises(NameTakenError):
            session.query(other, name="a")
    with pytest.raises(NameTakenError):
        session.query(text(1), name="a", keep=5)


def test_joins_that_call_functions_are_one_join() -> None:
    session = opened()
    session.function("odd", pc.greater, returns="boolean")
    run = started(session)
    for low in range(3):
        session.query(text(low) + f" AND odd(a.v, {low})", name=f"q{low}")
    fed(run, 1, 3, 5, 20)

    assert joined(session) == ["q1", "q2"]
    assert len(catalog_of(session).planned) == 2
    assert [len(results(session.standing(f"q{low}"))) > 0 for low in range(3)] == [True] * 3


def alone_with_a_function(session: millrace.Session) -> None:
    session.function("odd", lambda values: values, returns="int")
    for low in (1, 2):
        session.query(
            text(low, of=ABOVE).replace("s [RANGE 4 us]", "s [RANGE 4 us] WHERE odd(v) > 0"),
            name=f"q{low}",
        )


def alone_with_a_history(session: millrace.Session) -> None:
    for low in (1, 2):
        session.query(text(low), name=f"q{low}", history="1 minute")


def alone_with_an_only_value(session: millrace.Session) -> None:
    for low in (1, 2):
        asked = f"SELECT k FROM s [RANGE 3 us] WHERE v > (SELECT k FROM t [NOW] WHERE v > {low})"
        session.query(asked, name=f"q{low}")


def alone_with_windows_that_do_not_forget(session: millrace.Session) -> None:
    for low in (1, 2):
        session.query(f"SELECT count(*) AS n FROM s [ROWS 5] WHERE v > {low}", name=f"q{low}")


def alone_with_a_shape_of_its_own(session: millrace.Session) -> None:
    session.query(text(1), name="q1")
    session.query(text(1) + " AND b.v <> 7", name="q2")
    session.query(text(1).replace("a.v > 1", "a.v >= 1"), name="q3")


@pytest.mark.parametrize(
    "register",
    [
        alone_with_a_function,
        alone_with_a_history,
        alone_with_an_only_value,
        alone_with_windows_that_do_not_forget,
        alone_with_a_shape_of_its_own,
    ],
)
def test_some_stay_alone(register: Callable[[millrace.Session], None]) -> None:
    session = opened()

    register(session)

    assert not joined(session)


def test_each_has_its_own_sinks_limits_and_life() -> None:
    session = opened()
    run, sink = started(session), millrace.MemorySink()
    session.sink(sink)
    for low in range(3):
        session.query(text(low, of=ABOVE), name=f"q{low}", keep=100 + low)
    fed(run, 1, 3, 5, 20)
    assert session.engine.delivery.drain(10)

    assert joined(session) == ["q1", "q2"]
    for low in range(3):
        query = session.standing(f"q{low}")
        assert isinstance(query, millrace.Query)
        assert query.feed.keep == 100 + low
        assert len(results(query)) == sink.table(f"q{low}").num_rows


def test_they_are_shown_with_whom_they_share() -> None:
    session = opened()
    run = started(session)
    for low in range(5):
        session.query(text(low), name=f"q{low}")
    for low in range(3):
        session.query(text(low, of=TICKS), name=f"t{low}")
        session.query(text(low, of=ABOVE), name=f"g{low}")
    fed(run, 1, 3, 5)

    explained = session.standing("q3").explain(analyze=True)  # type: ignore[union-attr]
    assert "shared   by 4 standing queries that differ in constants alone" in explained
    assert "p0 is 3, p1 is 5, p2 is 3" in explained
    assert "strategy" in explained
    assert "panes    " in session.standing("t1").explain()  # type: ignore[union-attr]
    grouped = session.standing("g1").explain()  # type: ignore[union-attr]
    assert "shared   by 2 standing queries" in grouped
    assert "p0 is 1" in grouped
    assert "shared   by" not in session.standing("q0").explain()  # type: ignore[union-attr]
    told = session.execute(f"EXPLAIN {text(9)}")[0]
    assert "shares   the plan of 4 standing queries" in str(told)
    families = listed(session, "families").to_pylist()
    assert families[0] | {"strategy": "", "state": "", "cost": "", "plan": ""} == {
        "feed": "q1, q2, q3 and 1 more", "queries": 4, "plan": "", "strategy": "", "state": "",
        "cost": "",
    }  # fmt: skip
    names = [each["name"] for each in listed(session, "queries").to_pylist()]
    assert len(names) == 11
    assert not any(map(is_hidden, names))
    with pytest.raises(UnknownNameError) as unknown:
        session.standing(next(filter(is_hidden, catalog_of(session).feeds)))
    assert "_family" not in unknown.value.detail


def test_a_family_that_comes_meanwhile_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    session, changes = opened(), PlanRegistration._changes
    session.query(text(1), name="a")
    meanwhile = ["b"]

    def late(self: PlanRegistration, name: str, catalog: Catalog) -> Any:
        found = changes(self, name, catalog)
        if meanwhile:
            session.query(text(2), name=meanwhile.pop())
        return found

    monkeypatch.setattr(PlanRegistration, "_changes", late)
    session.query(text(3), name="c")

    assert joined(session) == ["b", "c"]


def test_how_alike_ones_run_is_one_of_three_words() -> None:
    with pytest.raises(PlanError, match='families is "perhaps"'):
        Settings(families="perhaps")  # type: ignore[arg-type]
