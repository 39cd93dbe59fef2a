"""Answers in all their forms, of random queries over random rows, against asking each of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.connectors.sinks import MemorySink
from millrace.connectors.sinks.sink import FANOUTS, FanOut
from millrace.engine import publication
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.index import match, pieces
from millrace.index.access import METHODS
from millrace.index.run import IndexRun
from millrace.kernels.arrays import Ints32
from millrace.plan.nodes import Selection, select
from millrace.plan.term import call, col
from millrace.session import Session
from millrace.state.memory_root import MemoryRoot

SCHEMA = "n bigint, k text, i bigint, ts timestamp"
FEED = "shared"
FEWER = settings(max_examples=max(settings.default.max_examples // 2, 1))  # type: ignore[union-attr]

Row = dict[str, Any]


@dataclass(frozen=True)
class Asked:
    """One query in our language, and in Python."""

    selection: Selection
    keeps: Callable[[Row], bool]
    mark: int | None


def ask(form: str, key: str, low: int, mark: int | None) -> Asked:
    """Build a query; `mark` is a column of its answers, a number or that of the row."""
    shown = {"mark": col("i") if mark is None else mark}

    def of(where: object, keeps: Callable[[Row], bool]) -> Asked:
        return Asked(select("s", "n", where=where, **shown), keeps, mark)

    match form:
        case "all":
            return of(None, lambda _: True)
        case "key":
            return of(col("k") == key, lambda row: row["k"] == key)
        case "above":
            return of(col("i") > low, lambda row: _is(row["i"], lambda i: i > low))
        case "box":
            return of(
                (col("k") == key) & (col("i") >= low) & (col("i") < low + 3),
                lambda row: row["k"] == key and _is(row["i"], lambda i: low <= i < low + 3),
            )
        case "either":
            return of(
                (col("k") == key) | (col("i") == low) | col("i").is_null(),
                lambda row: row["k"] == key or row["i"] == low or row["i"] is None,
            )
        case _:  # two columns beside each other: no interval says that
            return of(
                (col("i") > low) & (col("i") < col("n")),
                lambda row: _is(row["i"], lambda i: low < i < row["n"]),
            )


def _is(value: int | None, test: Callable[[int], bool]) -> bool:
    return value is not None and test(value)


QUERIES = st.builds(
    ask,
    st.sampled_from(["all", "key", "above", "box", "either", "residual"]),
    st.sampled_from("abc"),
    st.integers(-3, 3),
    st.sampled_from([None, 1, 2]),
)
ROWS = st.tuples(st.sampled_from(["a", "b", "c", None]), st.none() | st.integers(-4, 4))


class Answering:
    """A session with one shared feed, and sinks for the forms of its answers."""

    def __init__(self, access: str = "auto", forms: tuple[FanOut, ...] = FANOUTS) -> None:
        self.session = Session(
            MemoryRoot(), threads=False, settings=Settings(spread="never", access=access)
        )
        self.session.stream("s", Feed(SCHEMA), time="ts")
        self.sinks = {
            form: MemorySink(FEED, name=form, fan_out=form) for form in FANOUTS if form in forms
        }
        for sink in self.sinks.values():
            self.session.sink(sink)
        self.session.engine.delivery.committed(self.session.engine.manifest)
        self.n_rows = 0
        self.run: LocalRun | None = None

    def feed(self, *rows: tuple[str | None, int | None]) -> list[Row]:
        if self.run is None:
            run = self.session.start()
            assert isinstance(run, LocalRun)
            self.run = run
        fed = [{"n": self.n_rows + at, "k": k, "i": i} for at, (k, i) in enumerate(rows)]
        self.n_rows += len(rows)
        times = pa.array([1] * len(rows), pa.timestamp("us", tz="UTC"))
        schema = pa.schema([("n", pa.int64()), ("k", pa.string()), ("i", pa.int64())])
        self.run.feed(s=pa.Table.from_pylist(fed, schema=schema).append_column("ts", times))
        self.session.engine.delivery.pump()
        return fed

    def delivered(self, form: FanOut) -> list[Row]:
        sink = self.sinks[form]
        rows: list[Row] = sink.table(FEED).to_pylist() if sink.n_rows(FEED) else []
        return rows


@FEWER
@given(
    st.lists(st.lists(QUERIES, min_size=1, max_size=4), min_size=1, max_size=5),
    st.lists(ROWS, max_size=12),
    st.sampled_from(["auto", *METHODS]),
    st.sampled_from([2, 1 << 22]),
    st.data(),
)
def test_rows_counts_and_sets_agree_with_asking_each_query_of_each_row(
    parts: list[list[Asked]],
    rows: list[tuple[str | None, int | None]],
    access: str,
    n_pairs: int,
    data: st.DataObject,
) -> None:
    """Each part is in an index file of its own, unless files were merged."""
    answering = Answering(access)
    session = answering.session
    queries: dict[int, Asked] = {}
    for part in parts:
        qids = session.queries([each.selection for each in part], into=FEED)
        queries |= dict(zip(qids, part, strict=True))
        session.engine.registry.publish({})
    gone = data.draw(st.sets(st.sampled_from(sorted(queries)), max_size=3))
    paused = data.draw(st.sets(st.sampled_from(sorted(queries)), max_size=3)) - gone
    if gone:
        session.drop_queries(gone)
    if paused:
        session.change({"do": "pause", "qids": sorted(paused)})

    with patch.multiple(pieces, PAIRS_AT_ONCE=n_pairs, SAMPLE_ROWS=2):
        fed = answering.feed(*rows)

    expected = Counter(
        (qid, row["n"], row["i"] if each.mark is None else each.mark)
        for qid, each in queries.items()
        for row in fed
        if qid not in gone | paused and each.keeps(row)
    )
    found = [(row["_query"], row["n"], row["mark"]) for row in answering.delivered("rows")]
    assert Counter(found) == expected
    counts = {row["_query"]: row["n_rows"] for row in answering.delivered("counts")}
    assert counts == Counter(qid for qid, _, _ in expected)
    sets = [(row["n"], row["mark"], row["_queries"]) for row in answering.delivered("sets")]
    assert Counter((qid, n, mark) for n, mark, qids in sets for qid in qids) == expected
    assert all(qids == sorted(qids) for _, _, qids in sets)
    told = {(row["n"], _projection(queries[qid])) for qid in queries for row in fed
            if qid not in gone | paused and queries[qid].keeps(row)}  # fmt: skip
    assert len(sets) == len(told), "a row is told once for all queries that show it alike"


def _projection(each: Asked) -> int | None:
    return each.mark


def test_sets_do_not_depend_on_the_files_that_queries_are_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise what is delivered would depend on when an engine was started anew."""
    monkeypatch.setattr(publication, "FACTOR", 99)
    asked = [ask("key", "a", 0, None), ask("above", "a", 0, None), ask("all", "a", 0, None)]
    told = []
    for one_by_one in (True, False):
        answering = Answering(forms=("sets",))
        for each in asked:
            answering.session.queries([each.selection], into=FEED)
            if one_by_one:
                answering.session.engine.registry.publish({})
        answering.feed(("a", 5), ("b", 5), ("a", None))
        told.append([(row["n"], row["_queries"]) for row in answering.delivered("sets")])

    assert told[0] == told[1] == [(0, [1, 2, 3]), (1, [2, 3]), (2, [1, 3])]


@pytest.mark.parametrize("form", FANOUTS)
def test_only_what_somebody_wants_is_computed(form: FanOut) -> None:
    calls: list[int] = []

    def seen(values: pa.Array) -> pa.Array:
        calls.append(len(values))
        return values

    answering = Answering(forms=(form,))
    session = answering.session
    session.function("seen", seen, returns="bigint")
    session.queries([ask("above", "a", 0, None).selection], into=FEED)
    unwanted = [
        select("s", "n", where=call("seen", col("i")) > 0),
        select("s", n=call("seen", col("i"))),
        select("s", "n", where=(call("seen", col("i")) < col("n")) | (col("i") > 5)),
    ]
    session.queries(unwanted, into="unwanted", keep=0)
    answering.feed(("a", 5), ("b", 6), (None, None))

    assert calls == []
    stores = session.engine.manifest.stores
    assert not [name for name in stores if "unwanted" in name]
    assert session.engine.manifest.facts["counts"]["results"] == 2
    assert len([name for name in stores if FEED in name]) == 1


def test_if_nobody_wants_anything_rows_are_not_even_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("millrace.index.match.BatchCodes.__init__", never)
    answering = Answering(forms=())
    answering.session.queries([ask("above", "a", 0, None).selection], into=FEED)
    answering.feed(("a", 5))

    assert answering.session.engine.manifest.facts["counts"]["results"] == 0


@pytest.mark.parametrize("form", FANOUTS[::2])
def test_an_answer_that_raises_suspends_the_queries_whose_rows_raise(form: FanOut) -> None:
    def fussy(values: pa.Array) -> pa.Array:
        if 7 in values.to_pylist():
            raise ZeroDivisionError("seven")
        return values

    answering = Answering(forms=(form,))
    session = answering.session
    session.function("fussy", fussy, returns="bigint")
    asked = [select("s", "n", mark=call("fussy", col("i")), where=col("k") == key) for key in "abc"]
    qids = session.queries(asked, into=FEED)
    answering.feed(("a", 1), ("b", 7), ("c", 2), ("b", 3))

    suspended = session.engine.manifest.facts["suspended"]
    assert list(suspended) == [str(qids[1])]
    assert suspended[str(qids[1])]["message"] == "seven"
    told = {row["n"]: row["mark"] for row in answering.delivered(form)}
    assert told == {0: 1, 2: 2}


def test_an_answer_that_raises_only_for_many_rows_suspends_all_of_them() -> None:
    def crowded(values: pa.Array) -> pa.Array:
        if len(values) > 1:
            raise ZeroDivisionError("many")
        return values

    answering = Answering(forms=("rows",))
    session = answering.session
    session.function("crowded", crowded, returns="bigint")
    asked = [
        select("s", "n", mark=call("crowded", col("i")), where=col("k") == key) for key in "ab"
    ]
    session.queries(asked, into=FEED)
    answering.feed(("a", 1), ("b", 7))

    assert len(session.engine.manifest.facts["suspended"]) == 2
    assert answering.delivered("rows") == []


def test_a_batch_with_too_many_pairs_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 rows that satisfy 200 queries each are never 200,000 pairs at a time."""
    monkeypatch.setattr(pieces, "PAIRS_AT_ONCE", 20_000)
    sizes: list[int] = []
    made = match.Pairs

    def watched(run: IndexRun, rows: Ints32, slots: Ints32) -> match.Pairs:
        sizes.append(rows.size)
        return made(run, rows, slots)

    monkeypatch.setattr(match, "Pairs", watched)
    answering = Answering(forms=("rows", "counts"))
    asked = [ask("above" if low else "residual", "a", -low, None) for low in range(200)]
    answering.session.queries([each.selection for each in asked], into=FEED)

    fed = answering.feed(*(("a", at % 7) for at in range(1_000)))

    expected = sum(each.keeps(row) for each in asked for row in fed)
    assert len(answering.delivered("rows")) == expected
    assert sum(row["n_rows"] for row in answering.delivered("counts")) == expected
    assert 10_000 < max(sizes) <= 25_000
