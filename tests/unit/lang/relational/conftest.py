"""What exists in the tests of relational queries: three streams, a table, and views of these."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millrace.lang.queries import query_of
from millrace.lang.relational.bound import BoundRelation, View, bind_relational
from millrace.plan.relation_types import Declared
from millrace.schema import Schema

VIEWS = {
    "cheap": ("SELECT a, b FROM s WHERE b < 20", ()),
    "counts": ("SELECT k, count(*) AS n FROM u [ROWS 5] GROUP BY k", ("key", "n")),
    "changes": ("SELECT ISTREAM(key) FROM counts WHERE n > 1", ()),
    "egg": ("SELECT * FROM hen", ()),
    "hen": ("SELECT * FROM egg", ()),
    "broken": ("SELECT a,\n  nope FROM s", ()),
    "misnamed": ("SELECT a FROM s", ("x", "y")),
}

Bind = Callable[[str], BoundRelation]


@pytest.fixture(scope="session")
def declared() -> Declared:
    return Declared(
        {
            "s": Schema.of("a int, b double, c text, ts timestamp"),
            "t": Schema.of("a int, d double, c text"),
            "u": Schema.of("k int, v text"),
            "S0": Schema.of("A int"),
            "S1": Schema.of("A int, B int"),
            "S2": Schema.of("A int, B int, C int"),
            "C": Schema.of("pid int, size int"),
            "B": Schema.of("pid int"),
            "O": Schema.of("pid int"),
            "CarStr": Schema.of("cid int, xpos int, sid int"),
            "PosSpeedStr": Schema.of("vehicleId int, speed double, xPos int, dir int, hwy int"),
        },
        {"lim": Schema.of("k int, top double")},
    )


@pytest.fixture(scope="session")
def bind(declared: Declared) -> Bind:
    views = {name: View(query_of(text), names) for name, (text, names) in VIEWS.items()}
    parameters = {"low": "double", "keys": "int[]"}

    def bound(text: str) -> BoundRelation:
        return bind_relational(
            text, declared, views=views, times={"s": "ts"}, parameters=parameters
        )

    return bound
