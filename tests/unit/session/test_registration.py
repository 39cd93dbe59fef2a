"""Registration: one query, many, a template; what is kept to be read, and what is refused."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from millrace.engine.local import Feed, LocalRun
from millrace.errors import (
    MillraceError,
    NameTakenError,
    PlanError,
    SchemaError,
    SourceError,
    UnknownNameError,
)
from millrace.plan.nodes import Selection, select
from millrace.plan.term import col
from millrace.session import Query, Session, Template
from millrace.state.memory_root import MemoryRoot

TEXT = "SELECT symbol, price FROM trades WHERE symbol = :sym AND price > :low"
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


class Program:
    """A program that may start again on its root."""

    def __init__(self) -> None:
        self.root = MemoryRoot()
        self.start()

    def start(self) -> None:
        self.session = Session(self.root, threads=False)
        self.session.stream("trades", Feed("symbol text, price double, ts timestamp"), time="ts")
        self._run: LocalRun | None = None

    def start_again(self) -> None:
        self.session.close()
        self.start()

    def feed(self, *trades: tuple[str, float]) -> None:
        if self._run is None:
            run = self.session.start()
            assert isinstance(run, LocalRun)
            self._run = run
        symbols, prices = zip(*trades, strict=True)
        times = [NOON + timedelta(seconds=each) for each in range(len(trades))]
        columns = {
            "symbol": symbols,
            "price": prices,
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
        self._run.feed(
            trades=pa.table(
                {name: list(each) if name != "ts" else each for name, each in columns.items()}
            )
        )

    @property
    def sequence(self) -> int:
        return self.session.engine.registry.catalog.sequence

    def alert(self, **words: Any) -> Template:
        return self.session.template("alert", TEXT, sym="text", low="double", **words)


@pytest.fixture
def program() -> Iterator[Program]:
    program = Program()
    yield program
    program.session.close()


def above(low: float) -> Selection:
    return select("trades", "symbol", "price", where=col("price") > low)


def prices(found: Query | Template, last: int | None = None) -> list[float]:
    values: list[float] = found.results(last).column("price").to_pylist()
    return values


def test_a_query_is_answered_from_the_next_epoch_on(program: Program) -> None:
    program.feed(("x", 1.0))
    query = program.session.query(above(2.0), name="dear")
    assert query.results().num_rows == 0
    assert query.results().column_names == ["symbol", "price", "_time", "_late", "_epoch"]

    program.feed(("x", 1.0), ("y", 3.0))

    assert query.results().select(["symbol", "price"]).to_pylist() == [
        {"symbol": "y", "price": 3.0}
    ]


def test_a_text_and_a_selection_that_ask_the_same_are_the_same_query(program: Program) -> None:
    first = program.session.query(above(2.5), name="dear")
    before = program.sequence

    again = program.session.query("SELECT symbol, price FROM trades WHERE price > 2.5", name="dear")

    assert (again.id, program.sequence) == (first.id, before)


def test_a_query_without_a_name_gets_one_that_is_free(program: Program) -> None:
    program.session.query(above(0.0), name="query_2")
    first, second = (program.session.query(above(1.0)) for _ in range(2))

    assert [first.name, second.name] == ["query_3", "query_4"]
    assert first.id != second.id
    found = program.session.standing("query_4")
    assert isinstance(found, Query)
    assert found.id == second.id


def test_many_threads_may_ask_at_once(program: Program) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda low: program.session.query(above(low)), range(40)))

    assert len({each.id for each in found}) == len({each.name for each in found}) == 40
    program.feed(("x", 7.5))
    assert sum(each.results().num_rows for each in found) == 8


def test_what_is_asked_again_under_its_name_is_known(program: Program) -> None:
    session = program.session
    ids = [
        session.query(above(1.0), name="own").id,
        session.query(above(2.0), name="one", into="shared").id,
        *session.queries(
            [above(3.0), select("trades", "symbol", "price")], into="shared", names=["two", "three"]
        ),
    ]
    sequence = program.sequence

    program.start_again()

    session = program.session
    again = [
        session.query(above(1.0), name="own").id,
        session.query(above(2.0), name="one", into="shared").id,
        *session.queries(
            [above(3.0), select("trades", "symbol", "price")], into="shared", names=["two", "three"]
        ),
    ]
    assert (again, program.sequence) == (ids, sequence)
    more = session.queries([above(9.0), above(3.0)], into="shared", names=["four", "two"])
    assert more == [max(ids) + 1, ids[2]]


@pytest.mark.parametrize(
    "ask",
    [
        lambda session: session.query(above(2.0), name="own"),
        lambda session: session.query(above(1), name="own", into="shared"),
        lambda session: session.query(above(9.0), name="one", into="shared"),
        lambda session: session.query(above(5.0), name="one", into="other"),
        lambda session: session.query(above(5.0), name="one"),
        lambda session: session.query(above(5.0), name="shared"),
        lambda session: session.query(above(5.0), into="own"),
        lambda session: session.query(above(5.0), into="alert"),
        lambda session: session.queries([above(1.0), above(2.0)], into="shared", names=["x", "x"]),
        lambda session: session.queries(
            [above(1.0), above(2.0)], into="shared", names=["x", "one"]
        ),
        lambda session: session.template("own", TEXT, sym="text", low="double"),
        lambda session: session.template("one", TEXT, sym="text", low="double"),
        lambda session: session.template("alert", TEXT, sym="text", low="bigint"),
        lambda session: session.template(
            "alert", TEXT + " AND price < 9", sym="text", low="double"
        ),
    ],
)
def test_a_name_that_is_taken_is_refused_and_nothing_has_changed(
    program: Program, ask: Callable[[Session], object]
) -> None:
    program.session.query(above(1.0), name="own")
    program.session.query(above(5.0), name="one", into="shared")
    program.alert()
    before = program.sequence, dict(program.session.engine.registry.population.names)

    with pytest.raises(NameTakenError, match=r'"\w+" (exists already|is given twice)'):
        ask(program.session)

    after = program.sequence, dict(program.session.engine.registry.population.names)
    assert after == before


def test_queries_that_share_a_feed_are_told_apart(program: Program) -> None:
    session = program.session
    ids = session.queries([above(1.0), above(2.0)], into="shared", keep=100)
    named = session.query(above(3.0), name="high", into="shared")
    program.feed(("x", 2.5), ("y", 3.5))

    assert prices(named) == [3.5]
    assert named.results().column("_query").to_pylist() == [named.id]
    table = session.query(select("trades", "price"), name="other").results()
    assert "_query" not in table.column_names
    assert sorted(Query(session, ids[0], "shared").results().column("price").to_pylist()) == [
        2.5,
        3.5,
    ]


def test_answers_that_do_not_fit_into_a_feed_are_refused(program: Program) -> None:
    program.session.queries([above(1.0)], into="shared")

    with pytest.raises(PlanError) as refused:
        program.session.query(select("trades", "symbol"), into="shared")

    assert 'do not fit into feed "shared"' in str(refused.value)
    assert "(symbol string, price double) of trades" in refused.value.detail
    with pytest.raises(PlanError, match="there are 1 names for 2 queries"):
        program.session.queries([above(1.0), above(2.0)], into="shared", names=["x"])
    assert program.session.queries([], into="shared") == []


def test_as_many_rows_are_kept_as_was_said_by_whole_epochs(program: Program) -> None:
    session = program.session
    few = session.query(above(0.0), name="few", keep=3)
    all_ = session.query(above(0.0), name="all")
    none = session.query(above(0.0), name="none", keep=0)
    for epoch in range(5):
        program.feed(("x", epoch + 0.25), ("x", epoch + 0.5))

    assert prices(few) == [2.25, 2.5, 3.25, 3.5, 4.25, 4.5][-len(prices(few)) :]
    assert 3 <= len(prices(few)) <= 3 + 2 * 2
    assert len(prices(all_)) == 10
    assert prices(none) == []
    assert prices(all_, 3) == [3.5, 4.25, 4.5]
    assert prices(all_, 99) == prices(all_)
    assert prices(all_, 0) == []


def test_answers_are_there_after_a_restart(program: Program) -> None:
    query = program.session.query(above(1.0), name="dear")
    alert = program.alert(keep=10)
    alert.insert({"sym": ["x"], "low": [0.5]})
    program.feed(("x", 2.0))
    before = query.results(), alert.results()

    program.start_again()

    again = program.session.standing("dear"), program.session.standing("alert")
    assert tuple(each.results() for each in again) == before


def test_changes_are_yielded_as_they_are_committed(program: Program) -> None:
    query = program.session.query(above(1.0), name="dear")
    program.feed(("x", 2.0))
    program.feed(("x", 0.5))
    program.feed(("x", 3.0), ("x", 4.0))

    found = [each.column("price").to_pylist() for each in query.changes(after=-1, timeout=0.1)]
    assert [price for some in found for price in some] == [2.0, 3.0, 4.0]
    late = [each.column("price").to_pylist() for each in query.changes(after=0, timeout=0.1)]
    assert late == [[3.0, 4.0]]
    assert list(query.changes(timeout=0.1)) == []


def test_changes_wait_for_what_comes(program: Program) -> None:
    query = program.session.query(above(1.0), name="dear")
    program.feed(("x", 2.0))
    changes = query.changes(timeout=5)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(next, changes)
        threading.Event().wait(0.1)
        program.feed(("x", 3.0))

        assert first.result(timeout=5).column("price").to_pylist() == [3.0]


def test_a_query_of_a_shared_feed_is_dropped_alone(program: Program) -> None:
    session = program.session
    one = session.query(above(1.0), name="one", into="shared", keep=9)
    two = session.query(above(2.0), name="two", into="shared")
    own = session.query(above(1.0), name="own")
    one.drop()
    own.drop()
    program.feed(("x", 5.0))

    assert prices(two) == [5.0]
    assert list(session.engine.registry.catalog.feeds) == ["shared"]
    for gone in ("one", "own"):
        with pytest.raises(UnknownNameError, match=f'query "{gone}" does not exist'):
            session.standing(gone)
    with pytest.raises(UnknownNameError, match=f"query {one.id} does not exist"):
        one.drop()
    session.query(above(9.0), name="one")


def test_rows_of_a_template_are_queries(program: Program) -> None:
    alert = program.alert(keep=100)
    assert len(alert) == 0
    assert alert.rows().to_pylist() == []
    ids = alert.insert(pa.table({"low": [1, 2], "sym": ["x", "y"]}))  # whole numbers fit, too
    more = alert.insert([{"sym": "x", "low": 5.0}])
    program.feed(("x", 4.0), ("y", 4.0), ("z", 4.0), ("x", 6.0))

    assert ids.to_pylist() == [1, 2]
    assert len(alert) == 3
    assert alert.rows().to_pylist() == [
        {"_query": 1, "sym": "x", "low": 1.0},
        {"_query": 2, "sym": "y", "low": 2.0},
        {"_query": 3, "sym": "x", "low": 5.0},
    ]
    found = [(row["_query"], row["price"]) for row in alert.results().to_pylist()]
    assert sorted(found) == [(1, 4.0), (1, 6.0), (2, 4.0), (3, 6.0)]
    assert prices(alert.query(more[0].as_py())) == [6.0]
    assert alert.insert({"sym": [], "low": []}).to_pylist() == []


def test_rows_are_changed_and_deleted_by_their_ids(program: Program) -> None:
    alert = program.alert(keep=100)
    one, two, three = alert.insert({"sym": ["x"] * 3, "low": [1.0, 2.0, 3.0]}).to_pylist()
    program.feed(("x", 9.0))
    alert.update({"_query": [three, one], "low": [30.0, 10.0]})
    alert.update([{"_query": two, "sym": "y"}])
    alert.delete([three])
    program.feed(("x", 20.0), ("y", 21.0))

    assert alert.rows().to_pylist() == [
        {"_query": one, "sym": "x", "low": 10.0},
        {"_query": two, "sym": "y", "low": 2.0},
    ]
    last = [row for row in alert.results().to_pylist() if row["price"] >= 20.0]
    assert [(row["_query"], row["price"]) for row in last] == [(one, 20.0), (two, 21.0)]
    program.start_again()
    again = program.alert()
    assert again.rows().column("low").to_pylist() == [10.0, 2.0]
    again.drop()
    assert program.session.engine.registry.catalog.feeds == {}
    assert program.session.engine.registry.population.n_rows == 0


REFUSED: dict[str, tuple[Callable[[Template], object], type[MillraceError], str]] = {
    "a value that does not fit": (
        lambda alert: alert.insert({"sym": ["x", "y"], "low": ["1", "dear"]}), PlanError,
        'parameter "low" of row 1 is not double'),
    "a text that looks like a number": (
        lambda alert: alert.insert({"sym": ["x"], "low": ["5"]}), PlanError, "It is '5'."),
    "a truth for a number": (
        lambda alert: alert.insert({"sym": ["x"], "low": [True]}), PlanError, "It is True."),
    "the value itself": (
        lambda alert: alert.insert({"sym": [b"x", b"y", b"\xff"], "low": [1, 2, 3]}), PlanError,
        "It is b'\\xff'."),
    "numbers for rows": (
        lambda alert: alert.insert([1, 2]), PlanError,
        "rows of parameters cannot be read from a list of int"),
    "nothing for rows": (
        lambda alert: alert.insert(None), PlanError, "cannot be read from None"),
    "a text for rows": (
        lambda alert: alert.insert("x"), PlanError, "cannot be read from str"),
    "values instead of columns": (
        lambda alert: alert.insert({"sym": "x", "low": 1.0}), PlanError, "Give columns such as"),
    "a name for an id": (
        lambda alert: alert.delete(["a"]), SchemaError, "'a' is not the id of a query"),
    "no list of ids": (
        lambda alert: alert.delete(5), PlanError, "ids of queries cannot be the number 5"),
    "an update of a name": (
        lambda alert: alert.update({"_query": ["a"], "low": [1.0]}), SchemaError,
        "'a' is not the id of a query"),
    "an update of a negative id": (
        lambda alert: alert.update({"_query": [-1], "low": [1.0]}), SchemaError,
        "-1 is not the id of a query"),
    "NULL": (
        lambda alert: alert.insert({"sym": ["x", None], "low": [1.0, 2.0]}), PlanError,
        'parameter "sym" of row 2 is NULL'),
    "a parameter that is missing": (
        lambda alert: alert.insert({"sym": ["x"]}), SchemaError,
        'parameter "low" of template "alert"'),
    "a parameter that does not exist": (
        lambda alert: alert.insert({"sym": ["x"], "lwo": [1.0]}), SchemaError,
        'Did you mean "low"?'),
    "an update without ids": (
        lambda alert: alert.update({"low": [1.0]}), SchemaError, 'column "_query" is missing'),
    "an update of a stranger": (
        lambda alert: alert.update({"_query": [1, 99], "low": [1.0, 2.0]}), SchemaError,
        'template "alert" has no query 99'),
    "an update of a query of another feed": (
        lambda alert: alert.update({"_query": [3], "low": [1.0]}), SchemaError, "has no query 3"),
    "an update twice": (
        lambda alert: alert.update({"_query": [1, 1], "low": [1.0, 2.0]}), PlanError,
        "query 1 is given twice"),
    "an update that does not fit": (
        lambda alert: alert.update({"_query": [1, 2], "low": ["1", "?"]}), PlanError,
        'parameter "low" of row 1 is not double'),
    "deleting a stranger": (
        lambda alert: alert.delete([1, 3]), SchemaError, 'template "alert" has no query 3'),
    "a handle on a stranger": (
        lambda alert: alert.query(3), SchemaError, 'template "alert" has no query 3'),
    "following what cannot be read": (
        lambda alert: alert.follow("/nowhere/*.parquet"), SourceError, "does not exist"),
    "following rows that do not fit": (
        lambda alert: alert.follow(lambda: {"sym": ["q", "r"], "low": [7.0, None]}), PlanError,
        'parameter "low" of row 2 is NULL'),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_rows_that_do_not_fit_are_named_and_none_of_the_call_is_taken(
    program: Program, what: str
) -> None:
    act, error, words = REFUSED[what]
    alert = program.alert()
    alert.insert({"sym": ["x", "y"], "low": [1.0, 2.0]})
    program.session.query(above(1.0), name="stranger")
    before = program.sequence, alert.rows()

    with pytest.raises(MillraceError) as refused:
        act(alert)

    assert isinstance(refused.value, error)
    assert words in str(refused.value)
    assert (program.sequence, alert.rows()) == before


def test_a_template_without_parameters_is_refused(program: Program) -> None:
    with pytest.raises(PlanError, match='template "t" has no parameters'):
        program.session.template("t", "SELECT price FROM trades")


def test_following_keeps_ids_of_what_stays_and_changes_all_or_nothing(program: Program) -> None:
    table: dict[str, list[Any]] = {"sym": ["x", "y", "y", "z"], "low": [1.0, 2.0, 2.0, math.nan]}
    alert = program.alert()
    following = alert.follow(lambda: dict(table), every="1 hour")
    before = program.sequence
    try:
        assert following.take() == (0, 0)  # NaN, too, is what it was
        assert program.sequence == before
        kept = {row["_query"] for row in alert.rows().to_pylist() if row["sym"] in "xz"}

        table.update(sym=["w", "y", "x", "z"], low=[9.0, 2.0, 1.0, math.nan])
        assert following.take() == (1, 1)

        rows = alert.rows().to_pylist()
        assert kept < {row["_query"] for row in rows}
        assert sorted(row["sym"] for row in rows) == ["w", "x", "y", "z"]
        table.update(sym=["v", None], low=[1.0, 2.0])
        with pytest.raises(PlanError, match="row 2 is NULL"):
            following.take()
        assert repr(alert.rows().to_pylist()) == repr(rows)
    finally:
        following.stop()


def test_what_goes_and_what_comes_is_one_change(program: Program) -> None:
    table: dict[str, list[Any]] = {"sym": ["x"], "low": [1.0]}
    alert = program.alert()
    following = alert.follow(lambda: dict(table), every="1 hour")
    n_entries = len(program.root.list("registry/"))
    table.update(sym=["y"])

    assert following.take() == (1, 1)

    following.stop()
    assert len(program.root.list("registry/")) == n_entries + 1


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_files_are_followed_and_an_error_is_shown_until_it_is_over(
    program: Program, tmp_path: Path, ending: str
) -> None:
    path = tmp_path / f"rows.{ending}"

    def write(table: pa.Table) -> None:
        if ending == "csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pq.write_table(table, path)

    def wait_until(reached: Callable[[], bool]) -> None:
        for _ in range(500):
            if reached():
                return
            threading.Event().wait(0.01)
        raise AssertionError

    write(pa.table({"sym": ["x"], "low": [1.0]}))
    alert = program.alert()
    following = alert.follow(str(tmp_path / f"*.{ending}"), every="10 ms")
    try:
        write(pa.table({"sym": ["x", "y"], "low": [1.0, 2.0]}))
        wait_until(lambda: len(alert) == 2)
        path.unlink()
        wait_until(lambda: following.failure is not None)
        assert len(alert) == 2
        write(pa.table({"sym": ["y"], "low": [2.0]}))
        wait_until(lambda: len(alert) == 1 and following.failure is None)
    finally:
        following.stop()
