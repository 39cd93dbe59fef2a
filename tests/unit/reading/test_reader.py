"""A reader in another process sees what the engine's own session sees, however it came to it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace.engine.local import Feed, LocalRun
from millrace.reading import reader
from millrace.reading.answers import answers
from millrace.reading.haystack import Haystack
from millrace.reading.query_list import QueryList
from millrace.reading.reader import Reader
from millrace.session import Query, Session, Template
from millrace.session.listing import listed
from millrace.state.lease import held
from millrace.state.memory_root import MemoryRoot

COLUMNS = "symbol text, price double, ts timestamp"
WORDS = ["", "a", "PRICE > 1", "alert", "ALERT#", "ert#3", "#", "t#x", "'B", "q1", "\0", "zzz", "é"]


class World:
    """A session and readers on one root in memory."""

    def __init__(self) -> None:
        self.root = MemoryRoot()
        self.session = Session(self.root, threads=False)
        self.session.stream("trades", Feed(COLUMNS), time="ts")
        self.reader = Reader(self.root)
        self.reader.open()
        self.ids: list[int] = []
        self._run: LocalRun | None = None
        text = "SELECT price FROM trades WHERE symbol = :sym AND price > :low"
        self.alert = self.session.template("alert", text, sym="text", low="double")

    @property
    def run(self) -> LocalRun:
        """Runs an epoch when it is fed, and from then on after each registration."""
        if self._run is None:
            started = self.session.start()
            assert isinstance(started, LocalRun)
            self._run = started
        return self._run

    def expected(self) -> dict[int, tuple[str, str]]:
        """By id, the name and the text of each query, one by one from the session."""
        found = {}
        for row in listed(self.session, "queries").to_pylist():
            query = self.session.standing(row["name"])
            assert isinstance(query, Query)
            found[query.id] = row["name"], row["asks"]
        for row in self.alert.rows().to_pylist():
            symbol = row["sym"].replace("'", "''")
            text = f"SELECT price FROM trades WHERE symbol = '{symbol}' AND price > {row['low']:g}"
            found[row["_query"]] = "", text
        return found


def known_by(word: str, name: str, qid: int) -> bool:
    """Say whether a query is found by its name; of a number, all of it is needed."""
    if name:
        return word.casefold() in name
    template, sharp, number = word.casefold().rpartition("#")
    if not sharp:
        return word.casefold() in "alert"
    return "alert".endswith(template) and number in ("", str(qid))


def pages(queries: QueryList, word: str) -> dict[int, tuple[str, str]]:
    """Collect all pages of a search; their total is the same on each."""
    found: dict[int, tuple[str, str]] = {}
    after, more = 0, True
    while more:
        page = queries.page(search=word, after=after, limit=3)
        found.update({each.qid: (each.name, each.text) for each in page.queries})
        more = page.more
        after = page.queries[-1].qid if page.queries else after
    assert page.total == len(found)
    return found


ACTIONS = ["query", "insert", "update", "delete", "pause", "drop", "follow", "epoch", "again"]
SYMBOLS = st.lists(st.sampled_from(["A", "B'c", "É"]), min_size=1)


def act(world: World, action: str, data: st.DataObject) -> None:  # noqa: C901  one case for each
    session, alert = world.session, world.alert
    match action:
        case "query":
            text = f"SELECT symbol FROM trades WHERE price > {data.draw(st.integers(0, 20))}"
            session.query(text, name=f"q{session.engine.registry.catalog.next_qid}")
        case "insert":
            low = data.draw(st.integers(0, 9)) / 2
            rows = [{"sym": each, "low": low} for each in data.draw(SYMBOLS)]
            world.ids += alert.insert(rows).to_pylist()
        case "update" if world.ids:
            alert.update([{"_query": data.draw(st.sampled_from(world.ids)), "sym": "B"}])
        case "delete" if world.ids:
            alert.delete([world.ids.pop(data.draw(st.integers(0, len(world.ids) - 1)))])
        case "pause" if world.ids:
            alert.query(data.draw(st.sampled_from(world.ids))).pause()
        case "drop":
            for name in listed(session, "queries")["name"].to_pylist()[:1]:
                query = session.standing(name)
                assert isinstance(query, Query)
                query.drop()
        case "follow":
            world.reader.follow()
        case "epoch":
            world.run.feed()
        case "again":
            world.reader.close()
            world.reader = Reader(world.root)
            world.reader.open()


@given(st.lists(st.sampled_from(ACTIONS), max_size=12), st.data())
def test_the_list_is_that_of_the_session(actions: list[str], data: st.DataObject) -> None:
    world = World()

    for action in actions:
        act(world, action, data)
    world.reader.follow()

    expected = world.expected()
    with world.reader.registered() as (_, population, queries):
        assert len(queries) == len(expected)
        for word in WORDS:
            wanted = {
                qid: texts
                for qid, texts in expected.items()
                if known_by(word, texts[0], qid) or word.lower() in texts[1].lower()
            }
            assert pages(queries, word) == wanted
        paused = {each.qid for each in queries.page(limit=1_000).queries if each.paused}
        assert paused == population.paused
    world.session.close()


@given(
    st.lists(st.text(st.sampled_from("aAbB ÄÉ\0"), max_size=9)),
    st.text("aAbBÄé ", max_size=5),
    st.sampled_from([1, 65]),
    st.sampled_from([{}, {"blocks": False}]),
)
def test_a_haystack_holds_what_its_texts_hold(
    texts: list[str], word: str, times: int, switch: dict[str, bool]
) -> None:
    texts = [each for text in texts for each in [text] * times]  # so that blocks differ
    haystack = Haystack(pa.array(texts, pa.string()), **switch)
    held_ = haystack.holding(word) if word else [True] * len(texts)

    assert list(held_) == [word.lower() in each.lower() for each in texts]


def test_answers_are_followed_commit_by_commit() -> None:
    world = World()
    query = world.session.query("SELECT price FROM trades", name="all", keep=100)
    assert isinstance(query, Query)

    world.run.feed(trades={"symbol": ["A"], "price": [1.0], "ts": [0]} | _times(1))
    news = world.reader.follow()
    feed = world.reader.feed("all")

    assert news.committed
    assert feed is not None
    assert world.reader.manifest.epoch == world.session.engine.manifest.epoch
    assert answers(world.root, world.reader.manifest, feed, query.id).equals(query.results())


def test_a_reader_that_fell_behind_reads_anew() -> None:
    world = World()

    for number in range(300):
        world.session.query(f"SELECT symbol FROM trades WHERE price > {number}", name=f"n{number}")
    news = world.reader.follow(number=world.session.engine.registry.number)

    with world.reader.registered() as (_, _, queries):
        assert len(queries) == 300
    assert news.changes == 301
    assert not world.root.list("registry/000000000000")


def test_a_lease_is_held_while_a_reader_is_open() -> None:
    world = World()

    during = held(world.root, 0.0)
    world.reader.renew()
    world.reader.close()

    assert [each.registry is not None for each in during] == [True]
    assert held(world.root, 0.0) == []


def test_a_root_that_takes_longer_to_read_than_a_lease_lasts_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    slow = Reader(world.root)
    monkeypatch.setattr(reader, "LEASE_SECONDS", 1e-6)

    slow.open()

    assert slow.number == world.session.engine.registry.number
    assert len(held(world.root, 0.0)) == 2


@pytest.mark.parametrize("word", ["", "over"])
def test_a_page_shows_only_what_may_be_seen(word: str) -> None:
    world = World()
    for name in ("acme/over", "other/over"):
        world.session.query("SELECT symbol FROM trades", name=name)
    world.reader.follow()

    with world.reader.registered() as (_, _, queries):
        page = queries.page(search=word, feeds=lambda feed: feed.startswith("acme/"))

    assert [each.name for each in page.queries] == ["acme/over"]
    assert page.total == 1


def _times(count: int) -> dict[str, Any]:
    return {"ts": pa.array(range(count), pa.timestamp("us", tz="UTC"))}


def test_a_template_is_no_query() -> None:
    world = World()
    text = "SELECT count(*) AS n FROM trades [RANGE 1 second] WHERE symbol = :s"
    world.session.template("win", text, s="text")
    found = world.session.standing("win")
    assert isinstance(found, Template)
    found.insert([{"s": "A"}])
    world.reader.follow()

    with world.reader.registered() as (_, _, queries):
        assert [each.feed for each in queries.page().queries] == ["win"]
