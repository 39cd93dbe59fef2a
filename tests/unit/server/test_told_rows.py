"""SysStream on a server: the operator hears all, a tenant its own; dry runs and settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.testing.serving import STREAM, Served, trade

OWN = "SELECT symbol FROM trades WHERE price > 1"
NAMES = "SELECT name FROM sysstream WHERE type = 'query'"


class Shared(Served):
    """A server with two tenants, on which the engine tells of itself."""

    operator: str
    acme: str


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    root: Path = tmp_path_factory.mktemp("told") / "root"
    made = Shared(root, demo=False)
    made.operator = made.tokens.add("admin")[0]
    made.acme = made.tokens.add("writer", "acme")[0]
    other = made.tokens.add("writer", "bolt")[0]
    with made as server:
        server.sql(STREAM, server.operator)
        server.sql(f"CREATE QUERY mine AS {OWN}", server.acme)
        server.sql(f"CREATE QUERY theirs AS {OWN}", other)
        server.sql(f"CREATE QUERY listens AS {NAMES}", server.operator)
        second = 0

        def told() -> bool:
            nonlocal second
            second += 1
            server.push([trade("A", 2.0, second)], token=server.operator)
            rows = server.get("/v1/streams/sysstream/rows", server.operator).json()["rows"]
            return {"acme/mine", "bolt/theirs"} <= {row["name"] for row in rows}

        server.until(told)
        yield server


def test_the_operator_hears_of_all(shared: Shared) -> None:
    [outcome] = shared.sql(NAMES, shared.operator)

    assert {"acme/mine", "bolt/theirs"} <= {row["name"] for row in outcome["rows"]}


def test_a_tenant_hears_of_its_own_whichever_way_it_asks(shared: Shared) -> None:
    [outcome] = shared.sql(NAMES, shared.acme)
    rows = shared.get("/v1/streams/sysstream/rows?limit=100000", shared.acme).json()["rows"]

    assert {row["name"] for row in outcome["rows"]} == {"acme/mine"}
    assert {row["name"] for row in rows if row["type"] == "query"} == {"acme/mine"}
    assert {row["type"] for row in rows} >= {"stream", "epoch", "engine"}
    assert "bolt" not in str(rows)


@pytest.mark.parametrize(
    "statement", [f"CREATE QUERY curious AS {NAMES}", f"EXPLAIN DRY RUN {NAMES}"]
)
def test_a_tenant_may_not_let_a_query_listen_to_all(shared: Shared, statement: str) -> None:
    answer = shared.post("/v1/sql", shared.acme, json={"sql": statement})

    assert answer.status_code == 403, answer.text
    assert "is for the operator" in answer.json()["error"]["message"]


def test_nobody_pushes_rows_that_the_engine_tells(shared: Shared) -> None:
    assert shared.push([], "sysstream", shared.operator).status_code == 403


def test_a_query_is_tried_on_history_before_it_is_registered(shared: Shared) -> None:
    tried = shared.post("/v1/dry-run", shared.acme, json={"sql": OWN, "history": "1 hour"}).json()
    refused = shared.post("/v1/dry-run", shared.acme, json={"sql": NAMES})

    assert tried["results"] == tried["rows"] == tried["rows_in_all"] > 0
    assert tried["sample"][0]["symbol"] == "A"
    assert refused.status_code == 403


def test_settings_are_changed_by_the_operator_alone(shared: Shared) -> None:
    change = {"target": "3 seconds", "merging": "off"}

    assert shared.request("PATCH", "/v1/settings", shared.acme, json=change).status_code == 403
    settings = shared.request("PATCH", "/v1/settings", shared.operator, json=change).json()

    assert settings["settings"]["target"] == 3_000_000
    assert settings["settings"]["merging"] is False
    wrong = shared.request("PATCH", "/v1/settings", shared.operator, json={"target": "soon"})
    assert wrong.status_code == 400
