"""Templates of joins in a session: one join for all queries answers as a query of its own would."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millrace
from millrace.engine import contents
from millrace.engine.local import Feed, LocalRun
from millrace.engine.settings import Settings
from millrace.operators.joining import family
from millrace.operators.joining.family import FamilyJoin
from millrace.operators.joining.prepared import KEPT, Kept, Prepared
from millrace.plan.declared import Declared
from millrace.plan.relations import StreamOf
from millrace.schema import Schema
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root
from millrace.testing.family_strategies import Family, members, with_constants
from millrace.testing.join_families import NEAR, join_families, near
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.families import Member
from millrace.testing.oracle.relations import Element
from millrace.testing.relation_worlds import DECLARED, LAST, Worlds, worlds

END = LAST + 6
DRAWN = settings.default.max_examples  # type: ignore[union-attr]
FEW = settings(max_examples=max(DRAWN // 10, 1))
STAMP = Schema.of("ts timestamp")
TIMED = Declared({name: Schema((*schema, *STAMP)) for name, schema in DECLARED.streams.items()}, {})
CONFIGURATIONS = {
    "together": Settings(families="never", spread="never", backoff=0),
    "spread": Settings(families="never", shards=2, spread="always", memory=1, backoff=0),
    "four shards, merging at once": Settings(
        families="never", shards=4, spread="always", merge_at_start=True, backoff=0
    ),
    "a row for each query": Settings(
        families="never", shards=2, spread="always", sets=False, backoff=0
    ),
    "prepared anew": Settings(families="never", upkeep=False, backoff=0),
    "alike ones as one": Settings(families="always", shards=2, spread="always", backoff=0),
}
CUTS = st.lists(st.integers(1, END - 1), max_size=4, unique=True).map(sorted)
Told = Counter[tuple[Any, ...]]


def fed(elements: list[Element], name: str) -> pa.Table:
    rows, schema = [{**row, "ts": at} for at, row in elements], TIMED.streams[name]
    plain = [pa.field(each.name, pa.int64() if each.name == "ts" else each.type) for each in schema]
    return pa.Table.from_pylist(rows, schema=pa.schema(plain)).cast(schema.to_arrow())


def rows_of(answers: pa.Table) -> Told:
    names = [each for each in answers.column_names if not each.startswith("_") or each == "_time"]
    rows = answers.select(names).to_pylist()
    return Counter(tuple(map(same, row.values())) for row in rows)


@st.composite
def cases(draw: st.DrawFn) -> Any:
    """Draw a family, and queries that are born and dropped before a piece of the streams."""
    family = draw(join_families(most=3, stamped=True))
    cuts = draw(CUTS)
    some = draw(members(family.types, range(len(cuts) + 1), len(cuts) + 2))
    return family, some, draw(worlds()), [*cuts, END], draw(st.integers(0, 5))


@dataclass
class Trial:
    """A session with a template, and each of its queries once more by itself."""

    root: Root
    settings: Settings
    family: Family
    members: list[Member]
    ids: dict[int, int] = field(default_factory=dict)
    alone: dict[int, Told] = field(default_factory=dict)

    def run_all(self, world: Worlds, ends: list[int], restart: int) -> None:
        """Feed streams piece by piece, with a new session before one of the pieces."""
        self.open()
        for number, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            if number == restart:
                self.session.close()
                self.open()
            self.change_queries(number)
            pieces = {
                name: fed([each for each in some if begin <= each[0] < end], name)
                for name, some in world[0].items()
            }
            self.run.feed(**pieces)
        nulls = {name: dict.fromkeys(of.names) for name, of in TIMED.streams.items()}
        self.run.feed(**{name: fed([(END + 9, row)], name) for name, row in nulls.items()})
        for member in self.members:
            if member.qid not in self.alone:
                self.alone[member.qid] = self.by_itself(member)

    def open(self) -> None:
        self.session = millrace.Session(self.root, settings=self.settings)
        self.session.function(NEAR, near, returns="boolean")
        for name, schema in TIMED.streams.items():
            self.session.stream(name, millrace.Feed(), schema=schema, time="ts")
        types = {f"x{at}": each for at, each in enumerate(self.family.types)}
        stream = StreamOf("istream", self.family.plan)
        self.template = self.session.template("family", stream, types, keep=10_000)
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def change_queries(self, number: int) -> None:
        """Insert and delete the queries that are born before a piece, and those that end."""
        for member in self.members:
            if member.end == number:
                self.alone[member.qid] = self.by_itself(member)
                self.session.standing(f"alone{member.qid}").drop()
                self.template.delete([self.ids[member.qid]])
        born = [each for each in self.members if each.birth == number]
        if born:
            columns = zip(*(each.values for each in born), strict=True)
            rows = {f"x{at}": list(column) for at, column in enumerate(columns)}
            for member, qid in zip(born, self.template.insert(rows).to_pylist(), strict=True):
                self.ids[member.qid] = qid
        for member in born:
            plan = with_constants(self.family.plan, member.values)
            self.session.query(StreamOf("istream", plan), name=f"alone{member.qid}")

    def by_itself(self, member: Member) -> Told:
        query = self.session.standing(f"alone{member.qid}")
        assert isinstance(query, millrace.Query)
        assert query.failure is None, query.failure
        return rows_of(query.results())

    def by_family(self, member: Member) -> Told:
        answers = self.template.results()
        mine = pa.compute.equal(answers.column("_query"), self.ids[member.qid])
        return rows_of(answers.filter(mine))


def check(
    how: Settings, family: Family, some: list[Member], world: Worlds, ends: list[int], restart: int
) -> None:
    trial = Trial(MemoryRoot(), how, family, some)
    trial.run_all(world, ends, restart)

    assert trial.template.feed.plan is not None
    assert (trial.template.feed.plan.sharing is not None) == how.sharing
    for member in some:
        assert trial.by_family(member) == trial.alone[member.qid], member


@FEW
@given(cases())
def test_each_query_answers_as_it_would_alone(case: Any) -> None:
    check(CONFIGURATIONS["spread"], *case)


@FEW
@given(cases())
def test_texts_that_differ_in_constants_alone_answer_as_its_queries(case: Any) -> None:
    check(CONFIGURATIONS["alike ones as one"], *case)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
@FEW
@given(cases())
def test_it_does_so_in_every_configuration(name: str, case: Any) -> None:
    check(CONFIGURATIONS[name], *case)


@pytest.mark.slow
@FEW
@given(cases())
def test_it_does_so_as_a_plan_that_is_joined_with_its_queries(case: Any) -> None:
    check(replace(CONFIGURATIONS["spread"], sharing=False), *case)


@pytest.mark.parametrize(
    ("upkeep", "n_files", "n_prepared"), [(True, 64, 1), (True, 2, 1), (False, 64, 8)]
)
def test_queries_that_come_and_go_are_answered_at_once_and_prepared_alone(
    upkeep: bool,  # noqa: FBT001  it is a parameter of the test
    n_files: int,
    n_prepared: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared, prepare = list[int](), FamilyJoin.prepare

    def counted(join: FamilyJoin, rows: pa.RecordBatch) -> Prepared:
        prepared.append(rows.num_rows)
        return prepare(join, rows)

    monkeypatch.setattr(FamilyJoin, "prepare", counted)
    monkeypatch.setattr(family, "KEPT", Kept(1 << 20))
    monkeypatch.setattr(contents, "MOST_FILES", n_files)
    settings = replace(CONFIGURATIONS["together"], upkeep=upkeep)
    session = millrace.Session(MemoryRoot(), threads=False, settings=settings)
    session.stream("s", Feed("k text, v int, ts timestamp"), time="ts")
    text = "SELECT ISTREAM(a.v) FROM s [RANGE 5 us] a, s [RANGE 5 us] b "
    text += "WHERE a.k = b.k AND a.k = :k AND b.v >= :low"
    template = session.template("near", text, k="text", low="int", keep=1_000)
    ids = template.insert({"k": [f"k{at}" for at in range(20)], "low": [0] * 20}).to_pylist()
    run = session.start()
    assert isinstance(run, LocalRun)

    for epoch in range(8):
        [new] = template.insert({"k": [f"{epoch}"], "low": [epoch]}).to_pylist()
        template.delete([ids.pop()])
        stamps = pa.array([10 * epoch] * 2, pa.timestamp("us", tz="UTC"))
        keys, values = pa.array([f"{epoch}", "k0"]), pa.array([epoch, 7], pa.int32())
        run.feed(s=pa.table({"k": keys, "v": values, "ts": stamps}))
        stamps = pa.array([10 * epoch + 9], pa.timestamp("us", tz="UTC"))
        run.feed(s=pa.table({"k": ["-"], "v": pa.array([0], pa.int32()), "ts": stamps}))
        told = template.results().select(["_query", "v"]).to_pylist()
        assert told[-2:] == [{"_query": ids[0], "v": 7}, {"_query": new, "v": epoch}]

    assert len(prepared) == n_prepared
    session.close()


def test_what_is_prepared_is_forgotten_where_memory_is_little() -> None:
    session = millrace.Session(MemoryRoot(), threads=False, settings=CONFIGURATIONS["together"])
    session.stream("s", Feed("k int, ts timestamp"), time="ts")
    for size in (2, 3):
        text = f"SELECT ISTREAM(a.k) FROM s [RANGE {size} us] a, s [RANGE {size} us] b "
        text += "WHERE a.k = b.k AND a.k > :low"
        session.template(f"of_{size}", text, low="int", keep=100).insert({"low": [0]})
    run = session.start()
    assert isinstance(run, LocalRun)

    def fed_at(time: int) -> int:
        stamp = pa.array([time], pa.timestamp("us", tz="UTC"))
        run.feed(s=pa.table({"k": pa.array([1], pa.int32()), "ts": stamp}))
        return len(KEPT)

    assert [fed_at(0), fed_at(10)][-1] >= 2
    session.engine.settings = replace(session.engine.settings, memory=1)
    assert fed_at(20) == 1
    told = session.standing("of_2").results()
    assert told["k"].to_pylist() == [1, 1]
    session.close()
