"""Quotas: no more is registered than a tenant may have, in whichever way, however many at once."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from millrace.server.quotas import Quota
from millrace.testing.serving import STREAM, Served, trade

OWN = "SELECT symbol FROM trades WHERE symbol = 'ACME'"
TEMPLATE = "CREATE QUERY TEMPLATE t (sym text) AS SELECT price FROM trades WHERE symbol = :sym"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("quotas") / "root") as server:
        server.sql(STREAM)
        yield server


def limited(served: Served, tenant: str, **quota: int) -> str:
    """Make a tenant with a quota; return a token of it."""
    served.tokens.limit(tenant, Quota(**quota))
    return served.tokens.add("writer", tenant)[0]


def names(served: Served, token: str) -> list[str]:
    return [each["name"] for each in served.get("/v1/queries", token).json()["queries"]]


def test_statements_have_no_more_room_than_calls(served: Served) -> None:
    token = limited(served, "words", queries=2)

    for name in ("a", "b"):
        served.sql(f"CREATE QUERY {name} AS {OWN}", token)
    third = served.post("/v1/sql", token, json={"sql": f"CREATE QUERY c AS {OWN}"})
    again = served.post("/v1/sql", token, json={"sql": f"CREATE QUERY a AS {OWN}"})
    served.sql("DROP QUERY a", token)
    served.sql(f"CREATE QUERY c AS {OWN}", token)

    assert third.status_code == 429
    assert third.json()["error"]["message"] == "refused: limit 2 queries, now 2"
    assert again.status_code == 200  # it is there already
    assert names(served, token) == ["b", "c"]


def test_rows_of_a_template_count_all_or_none(served: Served) -> None:
    token = limited(served, "rows", queries=2)
    served.sql(TEMPLATE, token)

    said = served.post("/v1/sql", token, json={"sql": "INSERT INTO t VALUES ('A'), ('B'), ('C')"})
    called = served.post("/v1/templates/t/rows", token, json=[{"sym": each} for each in "ABC"])
    bulk = served.post("/v1/queries/bulk", token, json={"add": [{"sql": OWN}] * 3})
    none = names(served, token)
    served.sql("INSERT INTO t VALUES ('A'), ('B')", token)

    assert [each.status_code for each in (said, called, bulk)] == [429] * 3
    assert none == []
    assert len(names(served, token)) == 2


def test_the_operator_fills_a_tenants_template_no_further(served: Served) -> None:
    token = limited(served, "filled", queries=1)
    served.sql(TEMPLATE, token)

    answer = served.post("/v1/sql", json={"sql": "INSERT INTO \"filled/t\" VALUES ('A'), ('B')"})

    assert answer.status_code == 429


def test_many_at_once_have_no_more_room_than_one_after_the_other(served: Served) -> None:
    token = limited(served, "crowd", queries=3)

    def add(number: int) -> int:
        sql = f"CREATE QUERY q{number} AS {OWN}"
        if number % 2:
            return served.post("/v1/sql", token, json={"sql": sql}).status_code
        body = {"sql": OWN, "name": f"q{number}"}
        return served.post("/v1/queries", token, json=body).status_code

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(add, range(32)))

    assert sum(each < 300 for each in statuses) == 3
    assert statuses.count(429) == 29
    assert len(names(served, token)) == 3


def test_who_keeps_too_much_registers_nothing_more(tmp_path: Path) -> None:
    with Served(tmp_path / "root") as served:
        served.sql(STREAM)
        token = limited(served, "heavy", state_bytes=1 << 40)
        served.sql(f"CREATE QUERY a WITH (policy = 'eager', retain = '1 hour') AS {OWN}", token)
        served.push([trade("ACME", 1.0)])
        served.results("a", 1, token)
        served.tokens.limit("heavy", Quota(state_bytes=1))
        refused = served.post("/v1/sql", token, json={"sql": f"CREATE QUERY b AS {OWN}"})

    assert refused.status_code == 429
    assert refused.json()["error"]["message"].startswith("refused: limit 1 bytes of state")
