"""Readers that ask for too much are refused in words, and the server goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from millrace.server.limits import Limits
from millrace.testing.serving import STREAM, Served, trade

N_ROWS, MOST = 120, 50
TEXT = "SELECT symbol, price FROM trades"
WAYS = ["lazy", "eager", "none"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("read_limits") / "root"
    with Served(root, limits=Limits(result_rows=MOST)) as server:
        server.sql(STREAM)
        for way in WAYS:
            server.sql(f"CREATE QUERY {way} WITH (policy = '{way}', retain = '1 hour') AS {TEXT}")
        server.sql(
            "CREATE QUERY TEMPLATE dear (low double) WITH (policy = 'lazy', retain = '1 hour') AS "
            f"{TEXT} WHERE price >= :low; INSERT INTO dear VALUES (0), (100)"
        )
        for first in range(0, N_ROWS, 20):
            server.push([trade("A", float(at), at) for at in range(first, first + 20)])
            server.until(
                lambda first=first: server.get("/v1/stats").json()["rows"] == first + 20  # type: ignore[misc]
            )
        yield server


@pytest.mark.parametrize("name", [*WAYS, "dear"])
@pytest.mark.parametrize("window", ["", "?last=1000000000", "?begin=1970-01-01T00:00:00Z"])
def test_answers_beyond_the_limit_are_refused(served: Served, name: str, window: str) -> None:
    answer = served.get(f"/v1/queries/{name}/results{window}")
    error = answer.json()["error"]

    assert (answer.status_code, error["code"]) == (413, "too_large")
    assert error["message"].startswith(f"refused: limit {MOST} rows a result, now ")
    assert "the last" in error["hint"]


@pytest.mark.parametrize("name", [*WAYS, "dear"])
def test_the_newest_are_told_however_many_there_are(served: Served, name: str) -> None:
    rows = served.get(f"/v1/queries/{name}/results?last={MOST}").json()["rows"]

    assert len(rows) == MOST
    assert rows[-1]["price"] == N_ROWS - 1
    assert served.get("/v1/ready").status_code == 200


@pytest.mark.parametrize("name", WAYS)
def test_a_window_that_fits_is_told(served: Served, name: str) -> None:
    newest = served.get(f"/v1/queries/{name}/results?last=1").json()["rows"][0]["_time"]
    rows = served.get(f"/v1/queries/{name}/results?begin=NOW - 30 seconds").json()["rows"]

    assert len(rows) == 30
    assert rows[-1]["_time"] == newest
