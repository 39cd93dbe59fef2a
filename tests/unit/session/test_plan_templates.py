"""Templates of queries that are more than selections: what a user does with their rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.engine.registry_state import restored, spelt
from millrace.engine.settings import Settings
from millrace.errors import NameTakenError, PlanError
from millrace.session.listing import listed
from millrace.state import container
from millrace.state.container import Container
from millrace.state.memory_root import MemoryRoot
from millrace.state.root import Root

SECOND = 1_000_000
ABOVE = """SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] GROUP BY k HAVING count(*) > :low"""


class World:
    """A session over one stream, of which each row is an epoch."""

    def __init__(self, root: Root | None = None) -> None:
        self.root = root or MemoryRoot()
        settings = Settings(shards=2, spread="always")
        self.session = millrace.Session(self.root, settings=settings)
        schema = "k text, v int, ts timestamp"
        self.session.stream("s", millrace.Feed(), schema=schema, time="ts")
        run = self.session.start()
        assert isinstance(run, LocalRun)
        self.run = run

    def feed(self, *rows: tuple[str, int, int]) -> None:
        for key, value, at in rows:
            stamp = pa.array([at * SECOND], pa.timestamp("us", tz="UTC"))
            self.run.feed(s=pa.table({"k": [key], "v": pa.array([value], pa.int32()), "ts": stamp}))

    def again(self) -> World:
        self.session.close()
        return World(self.root)

    def above(self) -> millrace.Template:
        return self.session.template("above", ABOVE, low="int", keep=1_000)


def told(template: millrace.Template, qid: int) -> list[tuple[Any, ...]]:
    answers = template.query(qid).results() if qid in template.ids() else template.results()
    rows = answers.to_pylist()
    return [
        (round(row["_time"].timestamp()), row["_change"], row["k"], row["n"])
        for row in rows
        if row["_query"] == qid
    ]


def test_an_update_takes_back_what_the_query_held_and_begins_anew() -> None:
    world = World()
    above = world.above()
    [qid] = above.insert({"low": [0]}).to_pylist()
    world.feed(("a", 1, 1), ("a", 1, 2), ("a", 1, 3))

    above.update({"_query": [qid], "low": [1]})
    world.feed(("a", 1, 4), ("a", 1, 5), ("a", 1, 6))

    assert told(above, qid) == [
        (1, 1, "a", 1),
        (2, -1, "a", 1),
        (2, 1, "a", 2),
        (3, -1, "a", 2),  # here it ends, and begins anew without having seen anything
        (5, 1, "a", 2),
    ]


def test_a_query_that_is_paused_goes_on_and_is_not_heard() -> None:
    world = World()
    above = world.above()
    one, other = above.insert({"low": [0, 0]}).to_pylist()
    world.feed(("a", 1, 1), ("b", 1, 2))

    above.query(one).pause()
    world.feed(("c", 1, 3), ("d", 1, 4))
    above.query(one).resume()
    world.feed(("a", 1, 5), ("e", 1, 6))

    assert [row[2:] for row in told(above, one)] == [("a", 1), ("d", 1), ("a", 1), ("a", 2)]
    assert [row[2:] for row in told(above, other)][:4] == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


def test_an_error_suspends_the_template_until_one_of_its_queries_is_resumed() -> None:
    world = World()
    text = "SELECT k, (SELECT b.v FROM s [RANGE 1 SECOND] b WHERE b.v > :low) AS n FROM s [NOW]"
    single = world.session.template("single", text, low="int", keep=100)
    one, other = single.insert({"low": [0, 5]}).to_pylist()
    world.feed(("a", 1, 1), ("a", 2, 2), ("a", 1, 3))

    failure = single.query(other).failure
    assert failure is not None
    assert "several rows" in failure["message"]

    single.query(one).resume()
    world.feed(("a", 7, 10), ("a", 1, 20))

    assert single.query(one).failure is None
    assert next(row[3] for row in told(single, one) if row[0] == 10) == 7


def test_queries_survive_a_restart_and_go_on() -> None:
    world = World()
    [first] = world.above().insert({"low": [0]}).to_pylist()
    world.feed(("a", 1, 1), ("a", 1, 2))
    [second] = world.above().insert({"low": [0]}).to_pylist()

    world = world.again()
    above = world.above()
    above.delete([first])
    world.feed(("a", 1, 3), ("a", 1, 4))

    assert above.ids() == [second]
    assert told(above, first)[-1] == (1, 1, "a", 1)
    assert told(above, second) == [(3, 1, "a", 1)]


def test_a_template_without_queries_forgets_and_begins_anew() -> None:
    world = World()
    above = world.above()
    ids = above.insert({"low": [0]})
    world.feed(("a", 1, 1), ("a", 1, 2))
    above.delete(ids)
    world.feed(("a", 1, 3))
    stores = world.session.engine.manifest.stores
    assert not any(each.runs for name, each in stores.items() if name.startswith("state/"))

    [qid] = above.insert({"low": [0]}).to_pylist()
    world.feed(("a", 1, 4), ("a", 1, 5))

    assert told(above, qid) == [(4, 1, "a", 1)]


def test_births_that_are_of_age_are_one() -> None:
    world = World()
    above = world.above()
    for at in range(1, 6):
        above.insert({"low": [0]})
        world.feed(("a", 1, at))
    young = world.session.engine.manifest.facts["births"]
    world.feed(("a", 1, 40), ("a", 1, 41))
    old = world.session.engine.manifest.facts["births"]

    assert [len(each["alive"]) for each in young.values()] == [4]
    assert [each["alive"] for each in old.values()] == [[]]


def test_the_template_is_listed_and_is_no_query() -> None:
    world = World()
    world.above().insert({"low": [0, 1]})

    assert listed(world.session, "templates").column("queries").to_pylist() == [2]
    assert listed(world.session, "queries").num_rows == 0
    assert isinstance(world.session.standing("above"), millrace.Template)
    with pytest.raises(NameTakenError):
        world.session.template("above", ABOVE.replace(":low", ":low + 1"), low="int")


def test_a_size_that_no_window_has_is_refused() -> None:
    world = World()
    lately = world.session.template("lately", "SELECT k FROM s [ROWS :n]", n="int")

    with pytest.raises(PlanError, match='parameter "n" of row 2 is 0') as refused:
        lately.insert({"n": [1, 0]})

    assert refused.value.detail == "It is the size of a window."
    assert len(lately) == 0


def test_queries_are_in_a_snapshot_of_the_registry() -> None:
    world = World()
    above = world.above()
    ids = above.insert({"low": [0, 1, 2]})
    world.feed(("a", 1, 1))
    above.insert({"low": [3]})
    above.delete(ids.slice(0, 1))  # what is not published yet is known by its id alone
    state = world.session.engine.registry._state

    meta, sections = spelt(state)
    world.root.put_if_absent("snapshot", container.pack(meta, sections))
    again = restored(world.root, Container.open(world.root, "snapshot"))

    held, known = again.contents["above"], state.contents["above"]
    assert held.current(world.root).to_pylist() == known.current(world.root).to_pylist()
    assert held.publish(world.root) == known.publish(world.root)
    assert sorted(held.current(world.root).column("p0").to_pylist()) == [1, 2, 3]


def test_an_update_may_move_a_query_to_another_shard() -> None:
    world = World()
    text = "SELECT k, count(*) AS n FROM s [RANGE 10 SECONDS] WHERE k = :key GROUP BY k"
    of_key = world.session.template("of_key", text, key="text", keep=1_000)
    [qid] = of_key.insert({"key": ["a"]}).to_pylist()
    world.feed(("a", 1, 1), ("b", 1, 2))

    for at, key in ((3, "b"), (5, "c"), (7, "d")):
        of_key.update({"_query": [qid], "key": [key]})
        world.feed((key, 1, at), ("z", 1, at + 1))

    assert told(of_key, qid) == [
        (1, 1, "a", 1),
        (2, -1, "a", 1),
        (3, 1, "b", 1),
        (4, -1, "b", 1),
        (5, 1, "c", 1),
        (6, -1, "c", 1),
        (7, 1, "d", 1),
    ]
