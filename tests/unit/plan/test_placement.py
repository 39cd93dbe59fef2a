"""Placement: by which columns plans are spread, and when a table is everywhere."""

from __future__ import annotations

import pytest

from millrace.lang.relational.bound import bind_relational
from millrace.plan.declared import Declared
from millrace.plan.placement import EVERYWHERE, Placing
from millrace.plan.relations import StreamOf
from millrace.plan.unnest import Unnesting
from millrace.schema import Schema

DECLARED = Declared(
    {"s": Schema.of("k int, v int"), "t": Schema.of("k int, w int")},
    {"r": Schema.of("k int, name text"), "q": Schema.of("v int, name text")},
)
IN_ONE_SHARD = None


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("SELECT * FROM s JOIN r ON s.k = r.k", {"s": "k", "r": "k"}),
        ("SELECT * FROM s JOIN r ON s.k < r.k", {"s": "k", "r": EVERYWHERE}),
        ("SELECT * FROM r JOIN s ON s.k < r.k", {"s": "k", "r": EVERYWHERE}),
        ("SELECT * FROM s LEFT JOIN r ON s.k < r.k", {"s": "k", "r": EVERYWHERE}),
        ("SELECT * FROM r RIGHT JOIN s ON s.k < r.k", {"s": "k", "r": EVERYWHERE}),
        ("SELECT * FROM s RIGHT JOIN r ON s.k < r.k", IN_ONE_SHARD),
        ("SELECT * FROM s FULL JOIN r ON s.k < r.k", IN_ONE_SHARD),
        ("SELECT s.v, count(*) FROM s JOIN r ON s.k = r.k GROUP BY s.v",
         {"s": "v", "r": EVERYWHERE}),
        ("SELECT r.name, count(*) FROM s JOIN r ON s.k = r.k GROUP BY r.name", IN_ONE_SHARD),
        ("SELECT s.k FROM s JOIN t ON s.k = t.k JOIN q ON s.v = q.v",
         {"s": "k", "t": "k", "q": EVERYWHERE}),
        ("SELECT s.k, a.name FROM s JOIN r AS a ON s.k = a.k JOIN r AS b ON s.v = b.k",
         {"s": "k", "r": EVERYWHERE}),
        ("SELECT s.k, x.k AS y FROM s JOIN (SELECT k FROM r WHERE name = 'a') AS x ON s.k > x.k",
         {"s": "k", "r": EVERYWHERE}),
        ("SELECT r.name FROM s JOIN r ON s.k < r.k", IN_ONE_SHARD),
        ("SELECT x.n FROM s, (SELECT count(*) AS n FROM r) AS x", IN_ONE_SHARD),
    ],
)  # fmt: skip
def test_a_plan_is_spread_by_what_its_operators_ask_for(
    text: str, columns: dict[str, str] | None
) -> None:
    plan = bind_relational(text, DECLARED).plan
    relation = plan.relation if isinstance(plan, StreamOf) else plan
    stream = Unnesting(DECLARED).stream(StreamOf("istream", relation))
    assert isinstance(stream, StreamOf)

    assert Placing(DECLARED).columns(stream) == columns
