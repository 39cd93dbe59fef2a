"""Standing queries in FROM: read as views of their texts would be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import millrace
from millrace.engine.local import LocalRun
from millrace.errors import MillraceError
from millrace.plan.relations import Distinct, Source, Window, Windowed
from millrace.state.memory_root import MemoryRoot

ASKED = """
    CREATE QUERY dear AS SELECT symbol, price FROM trades WHERE price > 100;
    CREATE QUERY counts AS SELECT symbol, count(*) AS n FROM dear [RANGE 1 SECOND] GROUP BY symbol;
    CREATE VIEW wide AS SELECT symbol, price FROM trades WHERE price > 100;
"""


@pytest.fixture
def session() -> Iterator[millrace.Session]:
    with millrace.Session(MemoryRoot()) as made:
        columns = millrace.Feed("symbol text, price double, ts timestamp")
        made.stream("trades", columns, time="ts")
        made.execute(ASKED)
        yield made


def fed(session: millrace.Session) -> None:
    run = session.start()
    assert isinstance(run, LocalRun)
    prices = [50.0, 150.0, 250.0, 120.0, 130.0, 1.0]
    times = [datetime.fromtimestamp(at, UTC) for at in range(len(prices))]
    run.feed(trades=pa.table({"symbol": list("AABBAA"), "price": prices, "ts": times}))


@pytest.mark.parametrize(
    ("named", "spelt"),
    [
        (
            "SELECT symbol FROM dear WHERE price < 200",
            "SELECT symbol  FROM wide WHERE price < 200",
        ),
        (
            "SELECT d.symbol, n FROM dear [RANGE 2 SECONDS] d JOIN counts c ON c.symbol = d.symbol",
            "SELECT d.symbol, n FROM wide [RANGE 2 SECONDS] d JOIN (SELECT symbol, count(*) AS n "
            "FROM wide [RANGE 1 SECOND] GROUP BY symbol) c ON c.symbol = d.symbol",
        ),
    ],
)
def test_a_query_over_a_query_is_one_over_its_text(
    session: millrace.Session, named: str, spelt: str
) -> None:
    first = session.query(named, name="named")
    second = session.query(spelt, name="spelt")
    session.execute("DROP QUERY counts; DROP QUERY dear")  # what stands goes on
    fed(session)

    answers = [each.results().to_pylist() for each in (first, second)]
    assert answers[0] == answers[1] != []


@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v AS SELECT symbol FROM dear",
        "CREATE QUERY q AS SELECT symbol FROM built",
        "CREATE QUERY q AS SELECT symbol FROM above",
        "CREATE QUERY q AS SELECT symbol FROM q",
    ],
)
def test_other_things_are_not_read_so(session: millrace.Session, text: str) -> None:
    session.query(Distinct(Windowed(Source("trades"), Window("rows", 3), "t")), name="built")
    session.template("above", "SELECT symbol FROM trades WHERE price > :low", {"low": "double"})

    with pytest.raises(MillraceError, match="does not exist"):
        session.execute(text)


def test_a_server_reads_no_query_by_its_name(session: millrace.Session) -> None:
    session.reads_queries = False

    with pytest.raises(MillraceError, match='"dear" does not exist'):
        session.query("SELECT symbol FROM dear")
