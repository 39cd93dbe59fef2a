"""Band joins over ranges in a session: the same bytes, whatever the shards, cuts and bands."""

from __future__ import annotations

import math
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millrace
from millrace.engine.chunk import pack_table
from millrace.engine.decision import Decision, attempts
from millrace.engine.local import LocalRun
from millrace.engine.settings import Settings
from millrace.lang.relational.bound import bind_relational
from millrace.plan.declared import Declared
from millrace.plan.relations import StreamOf
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.families import Member, told_by
from millrace.testing.oracle.relations import Definition, Element

SCHEMA = Schema.of("k int, x int, y double, ts timestamp")
DECLARED = Declared({"s": SCHEMA, "t": SCHEMA})
QUERIES = {
    "near": "SELECT s.k, s.x, t.y FROM s [RANGE 3 s], t [RANGE 2 s] WHERE s.x - t.y "
    "BETWEEN -3 AND 2.5",
    "chained": "SELECT ISTREAM(a.x, t.y, b.x AS last) FROM s [RANGE 2 s] a, t [RANGE 2 s], "
    "s [RANGE 1 s] b WHERE abs(a.x - t.y) <= 1 AND b.x - t.y BETWEEN 2 AND 4",
    "counted": "SELECT s.k, count(*) AS n FROM s [RANGE 2 s], t [RANGE 2 s] "
    "WHERE s.y < t.x - 30 GROUP BY s.k",
}
TEMPLATES = {
    "band": "SELECT ISTREAM(s.x, t.k) FROM s [RANGE 3 s], t [RANGE 2 s] WHERE s.x - t.y "
    "BETWEEN :low AND :high",
    "itself": "SELECT ISTREAM(a.ts, b.ts AS other) FROM s [RANGE 3 s] a, s [RANGE 3 s] b "
    "WHERE a.y >= b.y + :low AND a.y <= b.y + :high",
}  # fmt: skip
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
N_SECONDS = 12
TROUBLE = [None, math.nan, math.inf, -math.inf, 1e300]


def rows(name: str, first: int, stop: int) -> pa.Table:
    drawn = []
    for second in range(first, stop):
        chance = random.Random(f"{name} {second}")
        drawn += [
            {
                "k": chance.choice([1, 2, None]),
                "x": chance.choice([*range(-20, 40), None]),
                "y": chance.choice([*(each / 2 for each in range(-20, 60)), *TROUBLE]),
                "ts": FIRST + timedelta(seconds=second),
            }
            for _ in range(7)
        ]
    return pa.Table.from_pylist(drawn, schema=SCHEMA.to_arrow())


def opened(root: Root, how: Settings) -> tuple[millrace.Session, LocalRun]:
    session = millrace.Session(root, settings=how)
    for name in DECLARED.streams:
        session.stream(name, millrace.Feed(SCHEMA), time="ts")
    for name, text in TEMPLATES.items():
        session.template(name, text, low="double", high="double", keep=10_000)
    run = session.start()
    assert isinstance(run, LocalRun)
    return session, run


def told(*, shards: list[int], every: int, bands: bool = True) -> dict[str, bytes]:
    """Run all queries, each epoch so many seconds long, with other shards after each restart.

    Queries of templates come with wider bands after the first part, and go.
    """
    root, part = MemoryRoot(), N_SECONDS // 4
    for number in range(4):
        n_shards = shards[number % len(shards)]
        how = Settings(shards=n_shards, spread="always", bands=bands, backoff=0)
        session, run = opened(root, how)
        for name, text in QUERIES.items() if number == 0 else ():
            session.query(text, name=name, keep=10_000)
        for name in TEMPLATES:
            template: Any = session.standing(name)
            lows, highs = [[-1.0, 2.0], [-15.0], [], [0.0]], [[1.0, 4.5], [40.0], [], [math.inf]]
            template.insert({"low": lows[number], "high": highs[number]})
            if number == 2:
                template.delete(template.ids()[1:2])
        for first in range(number * part, (number + 1) * part, every):
            stop = min(first + every, (number + 1) * part)
            run.feed(s=rows("s", first, stop), t=rows("t", first, stop))
        if number < 3:
            session.close()
    found = {}
    for name in (*QUERIES, *TEMPLATES):
        answers = session.standing(name).results()
        assert answers.num_rows > 5, name
        found[name] = pack_table(answers.drop_columns(["_epoch"]).combine_chunks())
    laid = {each.name: each.plan.laid for each in session.engine.registry.catalog.plans()
            if each.plan is not None}  # fmt: skip
    assert {name: bool(each) for name, each in laid.items()} == dict.fromkeys(laid, bands)
    session.close()
    return found


@pytest.fixture(scope="module")
def together() -> dict[str, bytes]:
    """What is told where one shard has all rows, and nothing is by ranges."""
    return told(shards=[1], every=3, bands=False)


@pytest.mark.parametrize(
    ("shards", "every"),
    [([2, 4, 1, 3], 2), pytest.param([1], 1, marks=pytest.mark.slow), ([4], 3)],
    ids=str,
)
def test_the_bytes_do_not_depend_on_ranges_shards_and_cuts(
    shards: list[int], every: int, together: dict[str, bytes]
) -> None:
    found = told(shards=shards, every=every)

    assert [name for name in together if found[name] != together[name]] == []


def test_ranges_of_a_family_are_decided_with_its_queries() -> None:
    root = MemoryRoot()
    session, run = opened(root, Settings(shards=2, spread="always", backoff=0))
    band: Any = session.standing("band")
    band.insert({"low": [-5.0], "high": [5.0]})
    epochs = [run.feed(s=rows("s", 0, 1), t=rows("t", 0, 1)).epoch]
    band.insert({"low": [0.0], "high": [100.0]})
    epochs.append(run.feed(s=rows("s", 1, 2), t=rows("t", 1, 2)).epoch)

    decided = [Decision.read(root, attempts(root, epoch)[-1]).ranges["band"] for epoch in epochs]

    assert decided == [
        {"width": 20.0, "n_slots": 64, "reaches": {"t": [-5.0, 5.0]}},
        {"width": 20.0, "n_slots": 64, "reaches": {"t": [-5.0, 100.0]}},
    ]
    session.close()


def lines(session: millrace.Session, name: str) -> list[str]:
    message = session.execute(f"EXPLAIN QUERY {name}")[0].message
    return [each for each in message.splitlines() if each.startswith(("runs", "ranges", "stem"))]


def test_an_explanation_tells_ranges_and_halo() -> None:
    session, run = opened(MemoryRoot(), Settings(shards=2, spread="always", backoff=0))
    for name, text in QUERIES.items():
        session.query(text, name=name)
    spread = "runs     in all shards side by side"

    assert lines(session, "near") == [
        f"{spread}, in 2 stages: rows are spread, s by ranges, t by ranges",
        "ranges   of s.x, t.y; each is 11 wide, and they are dealt to 64 slots; s is in its own; "
        "t is copied into those from -3 to +2.5, as a halo",
    ]
    assert lines(session, "counted")[1] == (
        "ranges   of s.y, t.x; numbers are dealt to 8, as bands have one end only; s is in its "
        "own; t is copied into all, as a halo"
    )
    assert lines(session, "band") == [
        "stem     s by ranges of x, shared with 0 other plans",
        "stem     t by ranges of y, shared with 0 other plans",
        f"{spread}: rows are spread, s by ranges, t by ranges",
        "ranges   of s.x, t.y; how wide they are is decided with the first queries; "
        "s is in its own; t is copied as far as the bands of queries reach",
    ]
    band: Any = session.standing("band")
    band.insert({"low": [-5.0], "high": [1005.0]})
    run.feed(s=rows("s", 0, 1), t=rows("t", 0, 1))
    assert lines(session, "band")[-1].endswith(
        "each is 2,020 wide, and they are dealt to 64 slots; s is in its own; "
        "t is copied into those from -5 to +1,005, as a halo"
    )
    session.close()


def test_rows_that_are_told_without_the_number_meet_in_one_shard() -> None:
    session, _ = opened(MemoryRoot(), Settings(shards=2, spread="always", backoff=0))
    session.template("names", TEMPLATES["band"].replace("s.x, t.k", "s.k, t.k AS other"),
                     low="double", high="double")  # fmt: skip

    assert "in one shard" in lines(session, "names")[-1]
    session.close()


# ---- against the definition ----------------------------------------------------------------------

END = 12
FAMILIES = {
    "two": "SELECT ISTREAM(a.x, b.k) FROM s [RANGE 3 us] a, {other} [RANGE 2 us] b WHERE "
    "a.x - b.{y} BETWEEN :low AND :high",
    "moved": "SELECT ISTREAM(b.{y}, a.k) FROM s [RANGE 1 us] a, {other} [RANGE 4 us] b WHERE "
    "a.x >= b.{y} + :low AND a.x <= b.{y} + :high",
    "within": "SELECT ISTREAM(a.ts, b.ts AS other, b.{y}) FROM s [RANGE 3 us] a, "
    "{other} [RANGE 3 us] b WHERE abs(b.{y} - a.x + :low) <= :high",
    "open": "SELECT ISTREAM(a.x, b.k) FROM s [RANGE 3 us] a, {other} [RANGE 2 us] b WHERE "
    "a.x + :low < b.{y} AND :high > a.x",
    "three": "SELECT ISTREAM(a.x, c.x AS last) FROM s [RANGE 3 us] a, {other} [RANGE 2 us] b, "
    "s [RANGE 2 us] c WHERE a.x - b.{y} BETWEEN :low AND :high "
    "AND c.x - b.{y} BETWEEN -:high AND 1",
}  # fmt: skip
VALUES = st.fixed_dictionaries(
    {
        "k": st.sampled_from([1, 2]),
        "x": st.sampled_from([*range(-3, 8), 100, None]),
        "y": st.sampled_from([-2.5, 0.0, 0.5, 1.0, 3.0, 7.25, 99.0, *TROUBLE]),
    }
)
ELEMENTS = st.lists(st.tuples(st.integers(0, END - 1), VALUES), min_size=3, max_size=12).map(
    lambda some: sorted(some, key=lambda each: each[0])
)
BANDS = st.lists(
    st.tuples(st.sampled_from([0, 4, 8]), st.sampled_from([-2.0, -0.5, 0.0, 1.0, 60.0]),
              st.sampled_from([0.0, 0.5, 3.0, -1.0, 200.0])), min_size=1, max_size=4,
)  # fmt: skip
FEW = settings(max_examples=max(settings.default.max_examples // 3, 1))  # type: ignore[union-attr]


def fed(elements: list[Element], begin: int, end: int) -> pa.Table:
    some = [{**row, "ts": at} for at, row in elements if begin <= at < end]
    plain = [pa.field(each.name, pa.int64() if each.name == "ts" else each.type) for each in SCHEMA]
    return pa.Table.from_pylist(some, schema=pa.schema(plain)).cast(SCHEMA.to_arrow())


def stamped(elements: list[Element]) -> list[Element]:
    return [(at, {**row, "ts": at}) for at, row in elements]


def plain(value: Any) -> Any:
    return same(round(value.timestamp() * 1e6) if isinstance(value, datetime) else value)


@FEW
@given(
    st.sampled_from([*FAMILIES.values()]),
    st.sampled_from([("t", "y"), ("s", "x"), ("t", "x")]),
    ELEMENTS, ELEMENTS, BANDS,
    st.lists(st.sampled_from([1, 2, 4]), min_size=3, max_size=3),
)  # fmt: skip
def test_each_query_of_a_family_tells_what_the_definition_says(
    text: str,
    other: tuple[str, str],
    first: list[Element],
    second: list[Element],
    bands: list[tuple[int, float, float]],
    shards: list[int],
) -> None:
    text, root = text.format(other=other[0], y=other[1]), MemoryRoot()
    ids: dict[int, int] = {}
    for number, begin in enumerate((0, 4, 8)):
        session = millrace.Session(
            root, settings=Settings(shards=shards[number], spread="always", backoff=0)
        )
        for name in DECLARED.streams:
            session.stream(name, millrace.Feed(SCHEMA), time="ts")
        template = session.template("q", text, low="double", high="double", keep=10_000)
        run = session.start()
        assert isinstance(run, LocalRun)
        born = [at for at, each in enumerate(bands) if each[0] == begin]
        if born:
            given = {"low": [bands[at][1] for at in born], "high": [bands[at][2] for at in born]}
            ids.update(zip(template.insert(given).to_pylist(), born, strict=True))
        run.feed(s=fed(first, begin, begin + 4), t=fed(second, begin, begin + 4))
        if begin < 8:
            session.close()
    assert isinstance(run, LocalRun)
    nothing = (END, {"k": None, "x": None, "y": None})
    run.feed(s=fed([nothing], END, END + 1), t=fed([nothing], END, END + 1))
    found: Counter[Any] = Counter()
    for row in template.results().to_pylist():
        at = (
            round(row["_time"].timestamp() * 1e6)
            if isinstance(row["_time"], datetime)
            else row["_time"]
        )
        values = [plain(each) for name, each in row.items() if not name.startswith("_")]
        found[ids[row["_query"]], at, *values] += 1
    session.close()

    types = {"low": "double", "high": "double"}
    times = dict.fromkeys(DECLARED.streams, "ts")
    plan = bind_relational(text, DECLARED, views={}, times=times, parameters=types).plan
    assert isinstance(plan, StreamOf)
    definition = Definition(DECLARED, {"s": stamped(first), "t": stamped(second)}, {})
    wanted: Counter[Any] = Counter()
    for at, (birth, low, high) in enumerate(bands):
        for instant, row in told_by(Member(at, (low, high), birth, END), plan, definition):
            wanted[at, instant, *map(plain, row.values())] += 1
    assert found == wanted
