"""Every strategy of select joins against all queries asked of all pairs of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.sharing.codes import GREATEST, HIGHEST, LEAST, LOWEST
from millrace.sharing.drivers import Drivers
from millrace.sharing.found import Found
from millrace.sharing.queries import SelectQueries
from millrace.sharing.select import strategy as strategy_module
from millrace.sharing.select.hotspot import Hotspot
from millrace.sharing.select.prices import PRICES
from millrace.sharing.select.select_first import SelectFirst
from millrace.sharing.select.strategies import STRATEGIES, indexed, ssi
from millrace.sharing.select.strategy import Indexed, Strategy
from millrace.sharing.stored import Stored
from millrace.testing.oracle.select_joins import SelectQuery, Triple, select_triples


def hotspot_of(alpha: float) -> Strategy:
    scattered = {"select_first": indexed("select_first")}
    return Hotspot(indexed("ssi"), scattered, alpha=alpha, least_hot=1, checked=True)


MAKES: dict[str, Callable[[], Strategy]] = {
    **{name: partial(make, PRICES) for name, make in STRATEGIES.items()},
    "alone": lambda: Indexed(SelectFirst.build_alone, PRICES["select_first"]),
    **{f"ssi of {cells}": partial(ssi, n_cells=cells) for cells in (1, 2, 5, 256)},
    **{f"hotspot {alpha}": partial(hotspot_of, alpha) for alpha in (0.0, 0.01, 1.5)},
}

CODES = st.integers(-6, 12)
LOWS = CODES | st.just(LOWEST) | st.just(LEAST)
HIGHS = CODES | st.just(HIGHEST) | st.just(GREATEST)
QUERIES = st.tuples(LOWS, HIGHS, LOWS, HIGHS)
ROWS = st.lists(st.tuples(st.integers(0, 4), CODES), max_size=25)


@dataclass(frozen=True)
class Case:
    """Drivers, stored rows, and queries."""

    drivers: list[tuple[int, int]]
    rows: list[tuple[int, int]]
    queries: list[SelectQuery]

    def batch(self) -> tuple[Drivers, Stored]:
        keys, codes = np.array(self.drivers, np.int64).reshape(-1, 2).T
        drivers = Drivers(keys.copy(), codes.copy(), np.zeros(keys.size, np.int64))
        keys, codes = np.array(self.rows, np.int64).reshape(-1, 2).T
        times = np.arange(keys.size)
        return drivers, Stored.build(keys, codes, times, n_segments=6)

    def triples(self, live: set[int]) -> set[Triple]:
        queries = {slot: query for slot, query in enumerate(self.queries) if slot in live}
        return select_triples(self.drivers, self.rows, queries)


CASES = st.builds(Case, ROWS.map(sorted), ROWS, st.lists(QUERIES, max_size=40))


def queries_of(queries: list[SelectQuery]) -> SelectQueries:
    return SelectQueries(*np.array(queries, np.int64).reshape(-1, 4).T.copy())


def agrees(found: Found, expected: set[Triple], drivers: Drivers, stored: Stored) -> None:
    """Compare each step with the triples."""
    pairs = list(zip(*(each.tolist() for each in found.pairs()), strict=True))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == {(driver, query) for driver, _, query in expected}

    runs = found.runs()
    assert bool(np.all(runs.firsts < runs.stops))
    assert bool(np.all(runs.firsts >= stored.starts[drivers.segments[runs.drivers]]))
    assert bool(np.all(runs.stops <= stored.starts[drivers.segments[runs.drivers] + 1]))

    triples = [row for piece in found.triples(7) for row in np.transpose(piece).tolist()]
    assert len(triples) == len(expected)
    assert {(driver, place, query) for driver, place, query in triples} == expected

    described = found.descriptors()
    affected = np.bincount([driver for driver, _ in pairs], minlength=len(drivers))
    longest, most = np.zeros((2, len(drivers)), np.int64)
    np.add.at(longest, described.drivers, np.maximum(described.lefts, described.rights))
    np.add.at(most, described.drivers, described.lefts + described.rights)
    assert bool(np.all(longest <= affected))
    assert bool(np.all(affected <= most))


@pytest.mark.parametrize("name", MAKES)
@given(case=CASES)
def test_a_strategy_finds_what_its_queries_join(name: str, case: Case) -> None:
    strategy = MAKES[name]()
    strategy.add(np.arange(len(case.queries)), queries_of(case.queries))
    drivers, stored = case.batch()

    found = strategy.find(drivers, stored)

    agrees(found, case.triples(set(range(len(case.queries)))), drivers, stored)
    costs = strategy.estimate(drivers, stored)
    assert costs.shape == (len(drivers),)
    assert bool(np.all(costs >= 0))


@pytest.mark.parametrize("name", MAKES)
@settings(max_examples=40)
@given(case=CASES, data=st.data())
def test_queries_come_and_go(name: str, case: Case, data: st.DataObject) -> None:
    """Slots are dropped, taken again by other queries, indexed in the tail and in the main part."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategy_module, "LEAST_TAIL", data.draw(st.sampled_from([2, 10, 4096])))
        strategy = MAKES[name]()
        drivers, stored = case.batch()
        slots = st.integers(0, max(len(case.queries) - 1, 0))
        wanted = dict(enumerate(case.queries))
        live: set[int] = set()
        for step in range(5):
            chosen = data.draw(st.sets(slots, max_size=20)) if case.queries else set()
            dropped, added = sorted(chosen & live), sorted(chosen - live)
            strategy.drop(np.array(dropped, np.int64))
            moved = {slot: case.queries[(slot + step) % len(case.queries)] for slot in added}
            strategy.add(np.array(added, np.int64), queries_of([moved[slot] for slot in added]))
            wanted |= moved
            live = live - set(dropped) | set(added)

            expected = select_triples(
                case.drivers, case.rows, {slot: wanted[slot] for slot in sorted(live)}
            )
            agrees(strategy.find(drivers, stored), expected, drivers, stored)


def random_case(seed: int, n_queries: int, n_drivers: int) -> Case:
    """Clusters and scattered ranges; several segments, of which some are empty."""
    random = np.random.default_rng(seed)
    spread = int(random.choice([30, 2_000]))
    rows = [(int(key), int(code)) for key, code in random.integers(0, (4, spread), (60, 2))]
    drivers = [
        (int(key), int(code)) for key, code in random.integers(0, (6, spread), (n_drivers, 2))
    ]
    middle = np.where(
        random.random(n_queries) < 0.7,
        random.choice([0.1, 0.5, 0.8], n_queries) * spread,
        random.integers(0, spread, n_queries),
    ).astype(np.int64)
    width = random.integers(0, max(2, spread // 10), n_queries)
    low = random.integers(0, spread, n_queries)
    high = low + random.integers(-1, spread // 2, n_queries)
    columns = np.stack((low, high, middle - width, middle + width), axis=1)
    return Case(sorted(drivers), rows, [tuple(each) for each in columns.tolist()])


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("seed", range(3))
def test_hundreds_of_queries_in_groups_of_several_words(name: str, seed: int) -> None:
    case = random_case(seed, 700, 40)
    drivers, stored = case.batch()
    strategy = MAKES[name]()
    strategy.add(np.arange(700), queries_of(case.queries))
    strategy.drop(np.arange(0, 700, 7))

    found = strategy.find(drivers, stored)

    agrees(found, case.triples({slot for slot in range(700) if slot % 7}), drivers, stored)


@pytest.mark.parametrize("n_queries", [1_500, 4_000, 30_000])
@pytest.mark.parametrize("n_cells", [1, 64])
def test_groups_of_many_words_find_what_all_queries_do(n_queries: int, n_cells: int) -> None:
    case = random_case(n_queries, n_queries, 200)
    drivers, stored = case.batch()
    every, grouped = indexed("vanilla"), ssi(n_cells=n_cells)
    for strategy in (every, grouped):
        strategy.add(np.arange(n_queries), queries_of(case.queries))
        strategy.find(drivers, stored).pairs()
        strategy.drop(np.arange(0, n_queries, 7))

    expected, found = (each.find(drivers, stored) for each in (every, grouped))

    theirs, ours = (
        np.stack(each.pairs())[:, np.lexsort(each.pairs())] for each in (expected, found)
    )
    assert np.array_equal(theirs, ours)
    affected = np.bincount(theirs[0], minlength=len(drivers))
    described = found.descriptors()
    longest = np.zeros(len(drivers), np.int64)
    np.add.at(longest, described.drivers, np.maximum(described.lefts, described.rights))
    assert bool(np.all(longest <= affected))
    assert bool(np.all(affected <= described.at_most(len(drivers))))


@pytest.mark.parametrize("name", MAKES)
def test_a_driver_finds_the_same_alone_and_in_company(name: str) -> None:
    case = random_case(5, 300, 30)
    drivers, stored = case.batch()
    strategy = MAKES[name]()
    strategy.add(np.arange(300), queries_of(case.queries))

    pairs = strategy.find(drivers, stored).pairs()
    together = set(zip(pairs.drivers.tolist(), pairs.queries.tolist(), strict=True))
    alone = {
        (at, query)
        for at in range(len(drivers))
        for query in strategy.find(drivers.cut(at, at + 1), stored).pairs().queries.tolist()
    }

    assert alone == together


def test_null_is_found_by_no_query() -> None:
    everything = queries_of([(LEAST, GREATEST, LEAST, GREATEST)])
    stored = Stored.build(
        np.zeros(2, np.int64), np.array([LEAST, LEAST]), np.zeros(2, np.int64), n_segments=1
    )
    drivers = Drivers(np.zeros(2, np.int64), np.array([LEAST, 4]), np.zeros(2, np.int64))
    for make in MAKES.values():
        strategy = make()
        strategy.add(np.array([3]), everything)

        assert strategy.find(drivers, stored).pairs().drivers.tolist() == []
