"""Bulk operations are done as a whole or not at all, in one entry of the registry."""

from __future__ import annotations

from millrace.testing.serving import Served, trade


def texts(count: int, first: int = 0) -> list[dict[str, str]]:
    return [
        {"sql": f"SELECT symbol FROM trades WHERE price > {each}", "name": f"q{each}"}
        for each in range(first, first + count)
    ]


def total(served: Served, state: str = "") -> int:
    suffix = f"&state={state}" if state else ""
    found: int = served.get(f"/v1/queries?limit=1{suffix}").json()["total"]
    return found


def test_many_are_added_paused_resumed_and_dropped(served: Served) -> None:
    before = len(list((served.root / "registry").iterdir()))

    ids = served.post("/v1/queries/bulk", json={"add": texts(300)}).json()["ids"]
    entries = len(list((served.root / "registry").iterdir())) - before
    served.post("/v1/queries/bulk", json={"pause": [*ids[:100], "q100"]})
    paused = total(served, "paused")
    served.post("/v1/queries/bulk", json={"resume": ids[:50]})
    resumed = total(served, "paused")
    served.post("/v1/queries/bulk", json={"drop": ["q299", *ids[:200]]})

    assert (len(ids), entries, paused, resumed, total(served)) == (300, 1, 101, 51, 99)
    served.push([trade("A", 250.5)])
    assert served.results("q250", 1)


def test_one_that_is_wrong_stops_all_and_is_named(served: Served) -> None:
    wrong = [*texts(3), {"sql": "SELECT prise FROM trades", "name": "wrong"}]
    twice = [*texts(3), texts(1)[0]]

    answers = [
        served.post("/v1/queries/bulk", json={"add": wrong}),
        served.post("/v1/queries/bulk", json={"add": twice}),
        served.post("/v1/queries/bulk", json={"drop": ["unknown"]}),
        served.post("/v1/queries/bulk", json={"add": texts(1), "drop": ["q0"]}),
    ]

    assert [each.status_code for each in answers] == [400, 409, 404, 400]
    assert "It is number 3 of 4." in answers[0].json()["error"]["detail"]
    assert total(served) == 0


def test_queries_of_one_bulk_may_share_a_feed(served: Served) -> None:
    shared = [{**each, "into": "all"} for each in texts(50)]

    ids = served.post("/v1/queries/bulk", json={"add": shared, "ttl": "1 hour"}).json()["ids"]

    infos = served.get("/v1/queries").json()["queries"]
    assert [each["id"] for each in infos] == ids
    assert {each["feed"] for each in infos} == {"all"}
    assert all(each["expires"] for each in infos)
    served.push([trade("A", 10.5)])
    assert served.results("q9", 1)
    assert served.get("/v1/queries/q11/results").json()["rows"] == []


def test_what_stands_already_is_left_as_it_is(served: Served) -> None:
    first = served.post("/v1/queries/bulk", json={"add": texts(3)}).json()["ids"]

    again = served.post("/v1/queries/bulk", json={"add": texts(5)}).json()["ids"]

    assert again[:3] == first
    assert total(served) == 5
