"""At the instant at which everything arrives, a query over wide windows is plain SQL: ask DuckDB.

The texts are those of plans.txt, without their windows, as far as they mean the same there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from millrace.lang.relational.bound import BoundRelation
from millrace.plan.relation_types import Declared
from millrace.plan.relations import StreamOf
from millrace.testing.oracle.relations import Definition

Bind = Callable[[str], BoundRelation]

ROWS: dict[str, list[tuple[Any, ...]]] = {
    "s": [
        (1, 1.5, "x", 10), (1, 30.0, "y", 20), (2, 0.5, "x", 30), (3, None, "z", 40),
        (None, 2.5, None, 50), (3, 9.0, "xx", 60),
    ],
    "t": [(1, 2.0, "x"), (2, 0.25, "y"), (2, 8.0, None), (None, 1.0, "x"), (4, 4.0, "z")],
    "u": [(1, "x"), (2, "y"), (2, "x"), (None, "z"), (5, None)],
    "S0": [(1,), (2,), (2,)],
    "S1": [(11, 5), (12, 30), (1, 1)],
    "S2": [(11, 7, 50), (11, 70, 50), (1, 2, 3)],
    "C": [(1, 100), (2, 50)],
    "B": [(1,), (2,)],
    "O": [(1,), (1,)],
    "lim": [(1, 0.5), (2, 7.5), (6, 1.0)],
}  # fmt: skip
VIEWS = {"cheap": "SELECT a, b FROM s WHERE b < 20"}

# Other windows, an order, instants, which are numbers here, or what DuckDB has no word for or
# means something else by.
ELSE = re.compile(
    r"ROWS [1-5]\b|SLIDE|PARTITION|BEGIN|STREAM|LIMIT|:| / |S0 UNION|S0 IN|first\(|last\("
    r"|INTERVAL|array_agg|any_value|quantile|percentile_\w+\(\w+, |counts|changes|CarStr|PosSpeed",
)
WINDOW = re.compile(r" \[[^\]]*\]")


def texts() -> list[str]:
    lines = (Path(__file__).parent / "plans.txt").read_text(encoding="utf-8").split("\n")
    known = [each for each in lines if each and each[0] not in " #"]
    return [each for each in known if not ELSE.search(each)]


@pytest.fixture(scope="module")
def other(declared: Declared) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, rows in ROWS.items():
            schema = declared.streams.get(name) or declared.tables[name]
            columns = ", ".join(f'"{each.name}" {_type(str(each.type))}' for each in schema)
            connection.execute(f'CREATE TABLE "{name}" ({columns})')
            marks = ", ".join("?" for _ in rows[0])
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
        for name, text in VIEWS.items():
            connection.execute(f"CREATE VIEW {name} AS {text}")
        yield connection


def _type(arrow: str) -> str:
    return {"int32": "INT", "double": "DOUBLE", "string": "TEXT"}.get(arrow, "BIGINT")


def history(declared: Declared) -> Definition:
    streams = {
        name: [(0, dict(zip(schema.names, row, strict=True))) for row in ROWS.get(name, ())]
        for name, schema in declared.streams.items()
    }
    tables = {
        name: [(0, dict(zip(schema.names, row, strict=True)), 1) for row in ROWS[name]]
        for name, schema in declared.tables.items()
    }
    return Definition(declared, streams, tables)


@pytest.mark.parametrize("text", texts())
def test_a_query_answers_what_sql_answers(
    text: str, bind: Bind, declared: Declared, other: duckdb.DuckDBPyConnection
) -> None:
    plan = bind(text).plan
    relation = plan.relation if isinstance(plan, StreamOf) else plan
    try:
        rows = history(declared).relation(relation, 0)
    except AssertionError:
        pytest.skip("the plan has an operator without a definition yet")

    told = other.execute(WINDOW.sub("", text)).fetchall()

    assert Counter(tuple(map(near, row.values())) for row in rows) == Counter(
        tuple(map(near, row)) for row in told
    )


def near(value: object) -> object:
    return round(value, 9) if isinstance(value, float) else value


def test_most_texts_are_asked_about() -> None:
    assert len(texts()) > 40
