"""How long a query lives: what no calendar has is refused before anything is changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from millrace.testing.serving import Served

TEXT = "SELECT symbol FROM trades"
ABSURD = ["3000000 days", 1e15, float("nan"), float("inf"), -1.0, 1e300, "9" * 5_000 + " days"]


def post(served: Served, path: str, document: Any) -> int:
    """Send a document, also with what JSON does not have."""
    headers = {"content-type": "application/json"}
    answer = served.post(path, content=json.dumps(document).encode(), headers=headers)
    return answer.status_code


@pytest.mark.parametrize("ttl", ABSURD, ids=[str(each)[:12] for each in ABSURD])
def test_an_absurd_time_to_live_is_refused(served: Served, ttl: str | float) -> None:
    served.sql("CREATE QUERY TEMPLATE t (sym text) AS SELECT price FROM trades WHERE symbol = :sym")

    one = post(served, "/v1/queries", {"sql": TEXT, "name": "q", "ttl": ttl})
    many = post(served, "/v1/queries/bulk", {"add": [{"sql": TEXT, "name": "q"}], "ttl": ttl})
    rows = served.post(f"/v1/templates/t/rows?ttl={ttl}", json=[{"sym": "A"}]).status_code

    assert (one, many, rows) == (400, 400, 400)
    assert served.get("/v1/queries").json()["total"] == 0


def test_sql_gives_no_absurd_time_to_live_either(served: Served) -> None:
    text = f"CREATE QUERY q WITH (ttl = '3000000 days') AS {TEXT}"

    answer = served.post("/v1/sql", json={"sql": text})

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "ttl ends after the year 9999"
    assert served.get("/v1/queries").json()["total"] == 0


def test_a_query_may_live_for_thousands_of_years(served: Served) -> None:
    made = served.post("/v1/queries", json={"sql": TEXT, "name": "q", "ttl": "2555000 days"})

    assert made.status_code == 201
    assert made.json()["expires"].startswith("90")
