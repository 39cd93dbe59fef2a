"""Statements on behalf of somebody: they reach what is theirs, and learn nothing of the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from millrace.errors import UnknownNameError
from millrace.server.principals import OPERATOR, ForbiddenError, Principal
from millrace.server.statements import require_allowed
from millrace.testing.serving import STREAM, Served, trade

THEIRS, NOBODYS = "zanzibar", "nonesuch"
OWN = "SELECT symbol FROM trades WHERE symbol = 'ACME'"
PLAN = "SELECT symbol, count(*) AS n FROM trades [RANGE 1 MINUTE] GROUP BY symbol"
STATEMENTS = (
    'SELECT * FROM "{}"',
    'SELECT * FROM "{}_t"',
    'EXPLAIN QUERY "{}"',
    'EXPLAIN QUERY "{}_t"',
    'EXPLAIN ANALYZE QUERY "{}"',
    'EXPLAIN SELECT * FROM "{}"',
    'EXPLAIN DRY RUN SELECT * FROM "{}"',
    'PAUSE QUERY "{}"',
    'RESUME QUERY "{}"',
    "ALTER QUERY \"{}\" SET (policy = 'lazy')",
    "ALTER TEMPLATE \"{}_t\" SET (policy = 'lazy')",
    'SUBSCRIBE "{}"',
    'DROP QUERY "{}"',
    'DROP QUERY IF EXISTS "{}"',
    'DROP TEMPLATE "{}_t"',
    'DROP TEMPLATE IF EXISTS "{}_t"',
    "INSERT INTO \"{}_t\" VALUES ('A')",
    "UPDATE \"{}_t\" SET sym = 'A' WHERE sym = 'B'",
    "DELETE FROM \"{}_t\" WHERE sym = 'B'",
    'CREATE QUERY x INTO "{}" AS SELECT symbol FROM trades',
    'CREATE QUERY "{}" AS SELECT * FROM "{}"',
)


class World:
    """A server on which one tenant has a query and a template, and others look for them."""

    def __init__(self, served: Served) -> None:
        self.served = served
        add = served.tokens.add
        self.operator, self.acme, self.other = (
            add("admin", each)[0] for each in ("", "acme", "other")
        )
        self.reader, self.writer = add("reader")[0], add("writer")[0]
        served.sql(STREAM, self.operator)
        served.sql(f"CREATE QUERY {THEIRS} AS {OWN}", self.acme)
        served.sql(f"CREATE QUERY {THEIRS}_p AS {PLAN}", self.acme)
        text = "SELECT price FROM trades WHERE symbol = :sym"
        served.sql(f"CREATE QUERY TEMPLATE {THEIRS}_t (sym text) AS {text}", self.acme)
        served.sql(f"INSERT INTO {THEIRS}_t VALUES ('B')", self.acme)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with Served(tmp_path_factory.mktemp("namespaces") / "root", demo=False) as served:
        yield World(served)


@pytest.mark.parametrize("prefix", ["acme/", ""])
@pytest.mark.parametrize("who", ["other", "reader", "writer"])
def test_a_name_of_another_tenant_is_as_unknown_as_none(
    world: World, who: str, prefix: str
) -> None:
    for statement in STATEMENTS:
        if not prefix and statement.startswith("CREATE"):
            continue  # it would be theirs
        told = []
        for name in (THEIRS, NOBODYS):
            text = statement.replace("{}", prefix + name)
            answer = world.served.post("/v1/sql", getattr(world, who), json={"sql": text})
            told.append((answer.status_code, answer.text.replace(name, "…")))

        assert told[0] == told[1], statement
        assert told[0][0] >= 400 or "IF EXISTS" in statement, (statement, told)

    mine = world.served.get(f"/v1/queries/{THEIRS}", world.acme).json()
    rows = world.served.sql(f"SELECT sym FROM {THEIRS}_t", world.acme)[0]["rows"]
    assert (mine["state"], [each["sym"] for each in rows]) == ("running", ["B"])


def test_the_operator_names_what_is_of_tenants(world: World) -> None:
    statements = [each for each in STATEMENTS if each.startswith(("PAUSE", "RESUME", "SUBSCRIBE"))]

    for statement in statements:
        world.served.sql(statement.format(f"acme/{THEIRS}"), world.operator)

    assert OPERATOR.found("acme/big") == "acme/big"
    for who in (Principal("", "writer"), Principal("acme", "admin")):
        with pytest.raises(UnknownNameError, match='template "acme/big" does not exist'):
            who.found("acme/big", "template")


def test_to_subscribe_tells_the_name_as_it_was_written(world: World) -> None:
    [outcome] = world.served.sql(f"SUBSCRIBE {THEIRS}", world.acme)

    assert outcome["message"] == (f'query "{THEIRS}" is followed by `millrace query tail {THEIRS}`')


@pytest.mark.parametrize("text", [OWN, PLAN])
@pytest.mark.parametrize("who", ["other", "reader", "writer"])
def test_what_is_measured_by_its_text_is_ones_own(world: World, who: str, text: str) -> None:
    asked = {"sql": f"EXPLAIN ANALYZE {text}"}

    own = world.served.post("/v1/sql", world.acme, json=asked)
    others = world.served.post("/v1/sql", getattr(world, who), json=asked)

    assert own.status_code == 200, own.text
    assert others.status_code == 400
    assert others.json()["error"]["message"] == "no standing query asks this"


def test_of_two_who_ask_the_same_each_is_told_of_its_own(world: World) -> None:
    world.served.sql(f"CREATE QUERY mine AS {PLAN}", world.other)

    [outcome] = world.served.sql(f"EXPLAIN ANALYZE {PLAN}", world.other)

    assert "acme" not in outcome["message"]
    world.served.sql("DROP QUERY mine", world.other)


def test_to_explain_does_nothing_but_explain(world: World) -> None:
    two = world.served.post(
        "/v1/explain", world.acme, json={"sql": f"{OWN};\n  DROP QUERY {THEIRS}"}
    )
    tried = world.served.post("/v1/explain", world.acme, json={"sql": f"DRY RUN {OWN}"})

    assert (two.status_code, tried.status_code) == (400, 400)
    error = two.json()["error"]
    assert error["message"] == "one query is explained at a time"
    assert error["position"] == {"line": 2, "column": 3}
    assert tried.json()["error"]["message"] == "a query was expected here"
    assert world.served.get(f"/v1/queries/{THEIRS}", world.acme).status_code == 200


def test_no_pattern_leaves_the_directories_that_are_allowed(tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    (allowed / "in").mkdir(parents=True)
    outside.mkdir()
    for folder in (allowed / "in", outside):
        (folder / "rows.csv").write_text("symbol,most\nACME,1\n")
    for good in ("in/rows.csv", "in/*.csv", "*/rows.csv", "in", "**/*.csv", "not/yet"):
        require_allowed(str(allowed / good), [allowed])

    for bad in ("*/../../outside/rows.csv", "in/../../outside/*.csv", "in/../in/rows.csv"):
        with pytest.raises(ForbiddenError, match="is not allowed"):
            require_allowed(f"{allowed}/{bad}", [allowed])
    (allowed / "in" / "link.csv").symlink_to(outside / "rows.csv")
    for bad in ("in/link.csv", "in/*.csv", "*/link.csv", "in"):
        with pytest.raises(ForbiddenError, match="is not allowed"):
            require_allowed(str(allowed / bad), [allowed])


def test_a_pattern_that_climbs_is_refused_over_http(tmp_path: Path) -> None:
    (tmp_path / "allowed" / "in").mkdir(parents=True)
    (tmp_path / "secret.csv").write_text("symbol,most\nACME,1\n")
    with Served(tmp_path / "root", paths=(tmp_path / "allowed",)) as served:
        served.sql("CREATE TABLE limits (symbol text, most double)")
        pattern = f"{tmp_path}/allowed/*/../../secret.csv"
        answer = served.post("/v1/sql", json={"sql": f"INSERT INTO limits FROM '{pattern}'"})
        rows = served.sql("SELECT * FROM limits")[0]["rows"]

    assert (answer.status_code, rows) == (403, [])


def test_rows_of_a_stream_that_reads_files_are_not_pushed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    stream = (
        "CREATE STREAM logged (symbol text, price double, ts timestamp) TIMESTAMP BY ts "
        f"FROM files(path => '{tmp_path}/in', format => 'ndjson')"
    )
    with Served(tmp_path / "root", paths=(tmp_path,)) as served:
        served.sql(stream)
        served.sql(STREAM)
        refused = served.push([trade("ACME", 1.0)], "logged")
        taken = served.push([trade("ACME", 1.0)])
        served.stop_engine()
        still = served.push([trade("ACME", 1.0)], "logged")

    assert [each.status_code for each in (refused, taken, still)] == [400, 200, 400]
    error = refused.json()["error"]
    assert error["message"] == 'rows cannot be pushed into stream "logged"'
    assert error["hint"] == "Push into a stream that is declared FROM push()."
