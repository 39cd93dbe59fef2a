"""Many queries at once are as many one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import millrace
from millrace.server.bulk import add_all, change_all
from millrace.server.principals import OPERATOR
from millrace.state.memory_root import MemoryRoot

COLUMNS = "n bigint, symbol text, ts timestamp"
TEXTS = [
    "SELECT n FROM t WHERE n > {}",
    "SELECT n FROM t WHERE n < {} AND symbol = 'A{}'",
    "SELECT n FROM t",
    "SELECT n FROM t WHERE n IN ({}, 7)",
]
ASKED = st.lists(
    st.tuples(st.sampled_from(TEXTS), st.integers(0, 9), st.sampled_from(["", "f", "g"]))
)


def session_with_stream() -> millrace.Session:
    session = millrace.Session(MemoryRoot(), threads=False)
    session.stream("t", millrace.Feed(COLUMNS), time="ts")
    return session


def standing(session: millrace.Session, names: list[str]) -> dict[str, Any]:
    """Return of each query its id, its feed and what it asks."""
    registry = session.engine.registry
    ids = registry.population.names
    return {
        name: (ids[name], registry.feed_of(ids[name]), repr(registry.population.find(ids[name])))
        for name in names
    }


@given(ASKED)
def test_a_bulk_registers_what_single_calls_do(asked: list[tuple[str, int, str]]) -> None:
    wanted = [
        {"sql": text.format(n, n), "name": f"q{at}", **({"into": into} if into else {})}
        for at, (text, n, into) in enumerate(asked)
    ]
    names = [each["name"] for each in wanted]
    with session_with_stream() as one_by_one, session_with_stream() as at_once:
        for each in wanted:
            one_by_one.query(each["sql"], name=each["name"], into=each.get("into"))

        ids = add_all(at_once, OPERATOR, wanted)

        assert standing(at_once, names) == standing(one_by_one, names)
        assert ids == [at_once.engine.registry.population.names[name] for name in names]


@pytest.mark.slow
def test_ten_thousand_come_and_go_in_seconds() -> None:
    wanted = [
        {"sql": f"SELECT n FROM t WHERE n > {n}", "name": f"q{n}", "into": "f"}
        for n in range(10_000)
    ]
    with session_with_stream() as session:
        ids = add_all(session, OPERATOR, wanted)
        change_all(session, OPERATOR, "pause", ids)
        change_all(session, OPERATOR, "drop", [each["name"] for each in wanted])

        assert len(set(ids)) == 10_000
        assert not session.engine.registry.population.names
