"""The registry against a plain dictionary: after any changes, the same queries answer the same.

Restarts, publications, garbage collection and merges come in between and may not be seen.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from millrace.engine import publication
from millrace.engine.decision import Decision, Identity
from millrace.engine.registry import Registry, read_catalog
from millrace.engine.standing import sources_of
from millrace.errors import MillraceError
from millrace.plan.nodes import Selection, select
from millrace.plan.term import col
from millrace.state import log
from millrace.state.memory_root import MemoryRoot
from millrace.testing.registering import above, add_feed, add_queries, add_stream, ids

NAMES = st.sampled_from(["a", "b", "c", "d"])
LOWS = st.floats(0, 9, width=16)
FORMS = ("above", "exactly", "any")
STREAM = "trades"

FEWER = settings(max_examples=max(settings.default.max_examples // 4, 1), stateful_step_count=40)  # type: ignore[union-attr]


def asked(form: str, low: float) -> Selection:
    match form:
        case "above":
            return above(low)
        case "exactly":
            return select(STREAM, "symbol", where=col("symbol") == f"s{low}")
        case _:
            return select(STREAM, "symbol")


def constant(form: str, low: float) -> list[Any]:
    known: dict[str, list[Any]] = {"above": [low], "exactly": [f"s{low}"], "any": []}
    return known[form]


@dataclass
class Model:
    """What should be there: plain dictionaries."""

    feeds: dict[str, str] = field(default_factory=dict)
    queries: dict[int, tuple[str, list[Any]]] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)
    next_qid: int = 1

    def add(self, feed: str, constants: list[list[Any]], names: list[str] | None) -> None:
        for at, each in enumerate(constants):
            self.queries[self.next_qid + at] = (feed, each)
            if names is not None:
                self.names[names[at]] = self.next_qid + at
        self.next_qid += len(constants)

    def drop(self, qids: set[int]) -> None:
        self.queries = {qid: each for qid, each in self.queries.items() if qid not in qids}
        self.names = {name: qid for name, qid in self.names.items() if qid not in qids}
        self.paused -= qids

    def free(self, name: str) -> bool:
        return name not in self.feeds and name not in self.names

    @property
    def answering(self) -> dict[int, tuple[str, list[Any]]]:
        return {qid: each for qid, each in self.queries.items() if qid not in self.paused}


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.before = log.EVERY, publication.SMALLEST_LEVEL, publication.ROWS_ON_THE_SPOT
        log.EVERY, publication.SMALLEST_LEVEL = 3, 3
        self.root, self.model = MemoryRoot(), Model()
        self.registry = Registry.open(self.root)
        self.registry.record([add_stream(STREAM), add_feed("shared", above(0), "shared")])
        self.model.feeds["shared"] = "shared"
        self.committed = 0

    def teardown(self) -> None:
        self.registry.close()
        log.EVERY, publication.SMALLEST_LEVEL, publication.ROWS_ON_THE_SPOT = self.before

    @rule(name=NAMES, form=st.sampled_from(FORMS), low=LOWS)
    def ask_alone(self, name: str, form: str, low: float) -> None:
        selection = asked(form, low)
        change, table = add_queries(name, selection, names=[name])
        if self.tried([add_feed(name, selection), change], [table], fits=self.model.free(name)):
            self.model.feeds[name] = "query"
            self.model.add(name, [constant(form, low)], [name])

    @rule(form=st.sampled_from(FORMS), lows=st.lists(LOWS, min_size=1, max_size=5))
    def ask_many(self, form: str, lows: list[float]) -> None:
        change, table = add_queries("shared", *[asked(form, low) for low in lows])
        if self.tried([change], [table], fits="shared" in self.model.feeds):
            self.model.add("shared", [constant(form, low) for low in lows], None)

    @rule(names=st.lists(NAMES, min_size=1, max_size=3), low=LOWS)
    def ask_with_names(self, names: list[str], low: float) -> None:
        change, table = add_queries("shared", *[above(low)] * len(names), names=names)
        free = all(map(self.model.free, names)) and len(set(names)) == len(names)
        if self.tried([change], [table], fits=free and "shared" in self.model.feeds):
            self.model.add("shared", [[low]] * len(names), names)

    @rule(data=st.data())
    def drop_queries(self, data: st.DataObject) -> None:
        qids = self.some_qids(data)
        if self.tried([{"do": "drop queries", "rows": 0}], [ids(*qids)], fits=self.stand(qids)):
            self.model.drop(set(qids))

    @rule(name=NAMES | st.just("shared"))
    def drop_feed(self, name: str) -> None:
        if self.tried([{"do": "drop feed", "name": name}], fits=name in self.model.feeds):
            del self.model.feeds[name]
            self.model.drop({qid for qid, each in self.model.queries.items() if each[0] == name})

    @precondition(lambda self: "shared" not in self.model.feeds)
    @rule()
    def make_the_feed_again(self) -> None:
        self.registry.record([add_feed("shared", above(0), "shared")])
        self.model.feeds["shared"] = "shared"

    @rule(data=st.data(), pausing=st.booleans())
    def pause_or_resume(self, data: st.DataObject, *, pausing: bool) -> None:
        qids = self.some_qids(data)
        do = "pause" if pausing else "resume"
        if self.tried([{"do": do, "qids": qids}], fits=self.stand(qids)):
            paused = self.model.paused
            self.model.paused = paused | set(qids) if pausing else paused - set(qids)

    @rule(data=st.data(), low=LOWS)
    def change(self, data: st.DataObject, low: float) -> None:
        mine = [
            qid
            for qid, (feed, each) in self.model.queries.items()
            if feed == "shared" and each and isinstance(each[0], float)
        ]
        qids = data.draw(st.lists(st.sampled_from([*mine, 999]), min_size=1, max_size=3))
        family = add_queries("shared", above(low))[0]["family"]
        table = ids(*qids).append_column("p0", pa.array([low + at for at in range(len(qids))]))
        fits = self.stand(qids) and len(set(qids)) == len(qids)
        change = {"do": "change queries", "family": family, "rows": 0}
        if self.tried([change], [table], fits=fits):
            for at, qid in enumerate(qids):
                self.model.queries[qid] = ("shared", [low + at])

    @rule(on_the_spot=st.booleans())
    def publish(self, *, on_the_spot: bool) -> None:
        publication.ROWS_ON_THE_SPOT = 1_000 if on_the_spot else 0
        self.committed = self.registry.publish({}).sequence

    @rule()
    def forget(self) -> None:
        self.registry.forget_before(self.committed)

    @rule(killed=st.booleans())
    def restart(self, *, killed: bool) -> None:
        if not killed:
            self.registry.close()
        self.registry = Registry.open(self.root)

    @invariant()
    def the_same_stand(self) -> None:
        population, catalog = self.registry.population, self.registry.catalog
        assert population.n_rows == len(self.model.queries)
        assert population.names == self.model.names
        assert population.paused == self.model.paused
        assert catalog.next_qid == self.model.next_qid
        assert {name: each.kind for name, each in catalog.feeds.items()} == self.model.feeds
        for qid, (feed, constants) in self.model.queries.items():
            found = population.find(qid)
            assert found is not None
            assert (self.registry.feed_of(qid), list(found[1].values())) == (feed, constants)

    @rule()
    def the_same_answer(self) -> None:
        """Read what tasks read: the catalog and the files it names."""
        self.committed = self.registry.publish({}).sequence
        catalog = read_catalog(self.root, self.registry.publish({}).file)
        decision = Decision(Identity("q", 0, "d"), 0, 1, 0, catalog.file, {})
        found: dict[int, tuple[str, list[Any]]] = {}
        for source in sources_of(self.root, catalog, decision, STREAM):
            run = source.run
            for number, family in enumerate(run.families):
                slots = run.slots_of_family(number)
                for slot, row in zip(
                    slots.tolist(), run.parameters(number).to_pylist(), strict=True
                ):
                    if source.out is None or not source.out[slot]:
                        assert int(run.qids[slot]) not in found, "nobody answers twice"
                        found[int(run.qids[slot])] = (family.feed, list(row.values()))
        assert found == self.model.answering

    def tried(
        self,
        changes: list[dict[str, Any]],
        tables: list[pa.RecordBatch] | None = None,
        *,
        fits: bool,
    ) -> bool:
        """Make changes that fit; of others check that they are refused."""
        if fits:
            self.registry.record(changes, tables or [])
        else:
            with pytest.raises(MillraceError):
                self.registry.record(changes, tables or [])
        return fits

    def some_qids(self, data: st.DataObject) -> list[int]:
        known = st.sampled_from([*self.model.queries, 998, 999])
        return data.draw(st.lists(known, min_size=1, max_size=4))

    def stand(self, qids: list[int]) -> bool:
        return all(qid in self.model.queries for qid in qids)


TestRegistry = Machine.TestCase
TestRegistry.settings = FEWER
