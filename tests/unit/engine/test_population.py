"""The population: rows in blocks, whichever kind a block is of."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from millrace.engine.feeds import Family
from millrace.engine.population import Block, FreshBlock, IndexBlock, Population
from millrace.engine.registry import Registry
from millrace.plan.nodes import Selection, select
from millrace.plan.term import col
from millrace.state.memory_root import MemoryRoot
from millrace.testing.registering import above, add_feed, add_stream, ask_many, ids

KINDS = ["fresh", "indexed", "half"]


class Asked:
    """Ten queries: 1 to 5 are about the price, 6 to 8 the symbol, 9 and 10 have no constants."""

    def __init__(self, kind: str) -> None:
        self.registry = Registry.open(MemoryRoot())
        self.registry.record([add_stream(), add_feed("alerts", above(0.0), "shared")])
        self.ask([above(float(each)) for each in range(5)], ["one", "two", "three", "four", "five"])
        if kind == "half":
            self.registry.publish({})
        self.ask([select("trades", "symbol", where=col("symbol") == each) for each in "xyz"])
        self.ask([select("trades", "symbol")] * 2)
        if kind == "indexed":
            self.registry.publish({})

    def ask(self, selections: Sequence[Selection], names: Sequence[str] | None = None) -> None:
        ask_many(self.registry, "alerts", *selections, names=names)

    @property
    def population(self) -> Population:
        return self.registry.population

    @property
    def families(self) -> dict[str, Family]:
        return self.registry.catalog.families

    @property
    def blocks(self) -> list[Block]:
        return self.population.blocks["trades"]

    def standing(self) -> dict[int, object]:
        """Everybody, as what merges and publications are told."""
        rows = self.population.standing("trades", self.families)
        return {
            qid: list(constants.values())
            for each in rows
            for qid, constants in zip(
                each.qids.tolist(), listed(each.parameters, each.qids.size), strict=True
            )
        }


def listed(parameters: pa.RecordBatch, n_rows: int) -> list[dict[str, object]]:
    assert parameters.num_rows == n_rows, "also where there are no constants"
    rows: list[dict[str, object]] = parameters.to_pylist()
    return rows


@pytest.fixture(params=KINDS)
def asked(request: pytest.FixtureRequest) -> Asked:
    return Asked(request.param)


EVERYBODY: dict[int, object] = {
    **{qid: [float(qid - 1)] for qid in range(1, 6)},
    **{6 + at: [symbol] for at, symbol in enumerate("xyz")},
    9: [],
    10: [],
}


def test_blocks_are_of_the_kinds_that_are_tested_here() -> None:
    fresh, indexed, half = (Asked(kind).blocks for kind in KINDS)

    assert {type(each) for each in fresh} == {FreshBlock}
    assert {type(each) for each in indexed} == {IndexBlock}
    assert [type(each) for each in half] == [IndexBlock, FreshBlock, FreshBlock]


def test_everybody_is_found_with_his_family_and_constants(asked: Asked) -> None:
    assert asked.standing() == EVERYBODY
    for qid, constants in EVERYBODY.items():
        found = asked.population.find(qid)
        assert found is not None
        assert list(found[1].values()) == constants
        assert asked.families[found[0]].feed == "alerts"
    assert asked.population.find(0) is None
    assert asked.population.find(11) is None


def test_who_does_not_stand_is_named_once_and_in_order(asked: Asked) -> None:
    qids = np.array([99, 3, 11, 3, 10, 11, 0], np.uint64)

    assert asked.population.missing(qids).tolist() == [0, 11, 99]
    asked.registry.record([{"do": "drop queries", "rows": 0}], [ids(3, 10)])
    assert asked.population.missing(qids).tolist() == [0, 3, 10, 11, 99]
    assert asked.population.missing(np.zeros(0, np.uint64)).size == 0


def test_members_are_those_of_the_families_that_stand(asked: Asked) -> None:
    families = [asked.population.find(qid) for qid in (1, 6, 9)]
    keys = [each[0] for each in families if each is not None]
    asked.registry.record([{"do": "drop queries", "rows": 0}], [ids(2, 7)])

    members = asked.population.members

    assert members("trades", {keys[0]}).tolist() == [1, 3, 4, 5]
    assert sorted(members("trades", {keys[1], keys[2]}).tolist()) == [6, 8, 9, 10]
    assert members("trades", set()).size == members("quotes", set(keys)).size == 0


def test_what_is_dropped_is_gone_from_everywhere(asked: Asked) -> None:
    asked.registry.record([{"do": "pause", "qids": [1, 2, 9]}, {"do": "resume", "qids": [1, 2]}])
    asked.registry.record([{"do": "pause", "qids": [2]}])

    asked.registry.record([{"do": "drop queries", "rows": 0}], [ids(2, 9, 2)])

    population = asked.population
    kept = {qid: each for qid, each in EVERYBODY.items() if qid not in (2, 9)}
    assert asked.standing() == kept
    assert population.n_rows == len(kept)
    assert population.names == {"one": 1, "three": 3, "four": 4, "five": 5}
    assert (population.paused, population.generations) == (set(), {1: 1})


def test_who_is_out_is_paused_or_dropped(asked: Asked) -> None:
    asked.registry.record([{"do": "pause", "qids": [1, 8]}])
    asked.registry.record([{"do": "drop queries", "rows": 0}], [ids(5)])

    out = {
        qid for block in asked.blocks for qid in block.qids[asked.population.out(block)].tolist()
    }

    assert out == {1, 5, 8}


def test_with_other_constants_a_query_stands_once(asked: Asked) -> None:
    found = asked.population.find(4)
    assert found is not None
    family = asked.families[found[0]].to_json()
    for low in (40.0, 400.0):
        table = pa.record_batch({"qid": pa.array([4, 1], pa.uint64()), "p0": [low, low + 1]})
        asked.registry.record([{"do": "change queries", "family": family, "rows": 0}], [table])

    assert asked.standing() == {**EVERYBODY, 1: [401.0], 4: [400.0]}
    assert asked.population.n_rows == len(EVERYBODY)
    assert asked.population.names["four"] == 4
    asked.registry.record([{"do": "drop queries", "rows": 0}], [ids(4)])
    assert 4 not in asked.standing()


def test_nothing_changes_if_nobody_is_named(asked: Asked) -> None:
    found = asked.population.find(1)
    assert found is not None
    nobody = pa.record_batch({"qid": pa.array([], pa.uint64()), "p0": pa.array([], pa.float64())})
    change = {"do": "change queries", "family": asked.families[found[0]].to_json(), "rows": 0}
    asked.registry.record([change, {"do": "drop queries", "rows": 0}], [nobody])

    assert asked.population.missing(np.array([1], np.uint64)).size == 0
    assert asked.standing() == EVERYBODY


def test_a_feed_takes_its_queries_with_it_whether_published_or_not(asked: Asked) -> None:
    asked.registry.record([{"do": "drop feed", "name": "alerts"}])

    assert asked.standing() == {}
    assert (asked.population.n_rows, asked.population.names) == (0, {})
    assert asked.registry.publish({}).index.get("trades", ()) == () or all(
        asked.population.out(block).all() for block in asked.blocks
    )
