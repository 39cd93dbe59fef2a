"""Clients that mean harm, or do not know what they do: refused, and nobody else notices."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pyarrow as pa
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from millrace.errors import MillraceError
from millrace.server.answers_http import ARROW, NDJSON
from millrace.server.arrow_checks import read_arrow
from millrace.server.wire import arrow_stream
from millrace.testing.serving import STREAM, Served, trade

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
PATH = "/v1/streams/trades/rows"
QUICK = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
TABLE = pa.table(
    {"symbol": ["A", "B"], "price": [1.0, 2.0], "ts": pa.array([0, 1], pa.timestamp("us"))}
)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("hostile") / "root") as served:
        served.sql(STREAM)
        served.sql("CREATE TABLE limits (symbol text, most double)")
        served.post("/v1/queries", json={"sql": "SELECT symbol FROM trades", "name": "all"})
        yield served
        _require_well(served)


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_every_route_keeps_to_its_document(open_server: Served, mode: GenerationMode) -> None:
    """Whether what it is asked fits the document or not."""
    document = schemathesis.openapi.from_url(f"{open_server.url}/openapi.json")
    operations = [each.ok() for each in document.get_all_operations() if isinstance(each, Ok)]
    if mode.is_negative:  # any text is a name: what takes no more than that takes what it is given
        operations = [each for each in operations if each.body or each.query]

    for operation in operations:

        @settings(QUICK, max_examples=12 if mode.is_positive else 8)
        @given(operation.as_strategy(mode))
        def keeps_to_it(case: Any) -> None:
            if case.path.endswith("/changes"):
                case.query = {**(case.query or {}), "wait": 0}
            response = case.call(headers={"accept": "application/json"}, timeout=30)
            case.validate_response(response, checks=CHECKS)

        keeps_to_it()

    assert len(operations) > (30 if mode.is_positive else 20)


def _require_well(served: Served, token: str = "") -> None:
    """An honest client is served as ever."""
    cursor = served.get("/v1/queries/all/changes", token).json()["cursor"]
    assert served.push([trade("honest", 1.0, 3_500)], token=token).status_code == 200
    answer = served.get(f"/v1/queries/all/changes?cursor={cursor}&wait=30", token).json()
    assert "honest" in {row["symbol"] for row in answer["rows"]}


@QUICK
@given(st.binary(max_size=300))
@pytest.mark.parametrize("kind", [ARROW, NDJSON, "application/json"])
def test_bytes_that_mean_nothing_are_refused(open_server: Served, kind: str, body: bytes) -> None:
    answer = open_server.post(PATH, content=body, headers={"content-type": kind})

    assert answer.status_code in (200, 400), answer.text


@settings(max_examples=300)
@given(st.integers(0, 1 << 30), st.binary(min_size=1, max_size=4))
def test_arrow_with_flipped_bytes_is_read_or_refused(place: int, bytes_: bytes) -> None:
    data = bytearray(arrow_stream(TABLE).to_pybytes())
    at = place % len(data)
    data[at : at + len(bytes_)] = bytes_

    try:
        table = read_arrow(bytes(data), most_rows=100)
    except MillraceError:
        return
    table.validate(full=True)
    assert table.num_rows <= 100


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_arrow_is_refused(open_server: Served, codec: str) -> None:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, TABLE.schema, options=options) as writer:
        writer.write_table(TABLE)

    answer = open_server.post(
        PATH, content=sink.getvalue().to_pybytes(), headers={"content-type": ARROW}
    )

    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "the Arrow stream is compressed"


@pytest.mark.parametrize(
    "body",
    [
        "[" * 100_000,
        '{"symbol":' * 50_000,
        '[{"symbol": "A", "price": 1e999, "ts": "1970-01-01"}]',
        '[{"symbol": "A", "price": NaN, "ts": "1970-01-01"}]',
        '[{"symbol": "\\ud800", "price": 1, "ts": "1970-01-01"}]',
        '[{"symbol": "A", "price": 1, "ts": "999999-01-01"}]',
        "[1, null, [], {}]",
        "null",
        '"text"',
        "\x00",
    ],
)
def test_json_that_goes_too_far_is_refused(open_server: Served, body: str) -> None:
    answer = open_server.post(PATH, content=body.encode())

    assert answer.status_code == 400, answer.text
    assert set(answer.json()["error"]) >= {"code", "message", "detail", "hint", "position"}


WORDS = [
    "SELECT",
    "FROM",
    "WHERE",
    "trades",
    "all",
    "symbol",
    "price",
    "ts",
    "*",
    "(",
    ")",
    ",",
    ";",
    "=",
    ">",
    "<",
    "'A'",
    "1",
    "1e999",
    "NULL",
    "CREATE",
    "QUERY",
    "STREAM",
    "TEMPLATE",
    "AS",
    "INSERT",
    "INTO",
    "VALUES",
    "DROP",
    "PAUSE",
    "EXPLAIN",
    "ANALYZE",
    "SHOW",
    "QUERIES",
    "[RANGE",
    "1",
    "second]",
    "GROUP",
    "BY",
    "count(*)",
    "JOIN",
    "ON",
    "AND",
    "OR",
    "NOT",
    "BETWEEN",
    "LIKE",
    "'%'",
    ":p",
    "--",
    "/*",
    "*/",
    '"',
    "`",
    "\\",
    "\x00",
    "é",
    "🙂",
    "push()",
    "files(path",
    "=>",
    "'/etc/passwd')",
    "UNION",
    "ALL",
    "WITH",
    "(unbounded",
    "=",
    "allowed)",
    "DELETE",
    "UPDATE",
    "SET",
    "TRUE",
]


class Strangers:
    """A server on which one tenant stands by while others say things without sense."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.operator, self.stranger, self.honest = (
            served.tokens.add("admin", tenant)[0] for tenant in ("", "mallory", "acme")
        )
        served.sql(STREAM, self.operator)
        served.sql(STREAM.replace("trades", "ours"), self.operator)
        for who in (self.stranger, self.honest):
            asked = {"sql": "SELECT symbol FROM trades", "name": "all"}
            served.post("/v1/queries", who, json=asked)


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Strangers]:
    with Served(tmp_path_factory.mktemp("strangers") / "root", demo=False) as served:
        found = Strangers(served)
        yield found
        _require_well(served, found.honest)
        assert served.get("/v1/queries?limit=1", found.honest).json()["total"] == 1


@pytest.mark.parametrize(
    ("who", "path"),
    [
        ("stranger", "/v1/explain"),
        ("stranger", "/v1/sql"),
        ("stranger", "/v1/queries"),
        ("operator", "/v1/sql"),
    ],
)
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join))
def test_statements_without_sense_are_refused_in_words(
    strangers: Strangers, who: str, path: str, text: str
) -> None:
    """The operator may drop what is there, and so speaks of a stream that nobody else reads."""
    text = text.replace("trades", "ours") if who == "operator" else text

    answer = strangers.served.post(path, getattr(strangers, who), json={"sql": text})

    assert answer.status_code in (200, 201, 400, 403, 404, 409), (text, answer.text)
    assert "root:" not in answer.text


STATEMENTS = [
    "SELECT symbol, price FROM trades WHERE price > 1 AND symbol LIKE 'A%'",
    "CREATE QUERY one AS SELECT symbol, count(*) AS n FROM trades [RANGE 1 second] GROUP BY symbol",
    "CREATE QUERY TEMPLATE two (sym TEXT) AS SELECT price FROM trades WHERE symbol = :sym",
    "INSERT INTO two VALUES ('A'), ('B'); UPDATE two SET sym = 'C' WHERE sym = 'A'",
    "SELECT a.symbol FROM trades [RANGE 1 second] a, trades [ROWS 2] b WHERE a.price = b.price",
    "SELECT symbol FROM all BEGIN NOW - 1 hour END NOW",
]


@pytest.mark.parametrize("path", ["/v1/sql", "/v1/queries"])
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(STATEMENTS).map(str.split),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 2), st.sampled_from(WORDS)), max_size=3),
)
def test_statements_that_nearly_have_sense_are_done_or_refused(
    strangers: Strangers, path: str, words: list[str], changes: list[tuple[int, int, str]]
) -> None:
    """Words are put in, put in the place of others, or left out."""
    for at, taken, given_word in changes:
        words[at % len(words) : at % len(words) + taken] = [given_word] * (taken < 2)
        words = words or ["SELECT"]

    answer = strangers.served.post(path, strangers.stranger, json={"sql": " ".join(words)})

    assert answer.status_code in (200, 201, 400, 403, 404, 409), (words, answer.text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 2_000 + "1" + ")" * 2_000 + " FROM trades",
        "SELECT symbol FROM trades WHERE " + " AND ".join(["price > 1"] * 5_000),
        "SELECT symbol FROM trades WHERE symbol IN (" + ", ".join(["'A'"] * 20_000) + ")",
        "SELECT " + ", ".join(f"price AS c{at}" for at in range(3_000)) + " FROM trades",
        "SELECT '" + "x" * 500_000 + "' AS x FROM trades",
        "-" * 100_000,
        "/*" * 50_000,
    ],
    ids=["deep", "long", "set", "wide", "text", "comment", "comments"],
)
def test_statements_that_are_too_much_leave_the_server_alive(
    open_server: Served, text: str
) -> None:
    answer = open_server.post("/v1/explain", json={"sql": text})

    assert answer.status_code in (200, 400, 413), answer.text[:300]
    assert open_server.get("/v1/ready").status_code == 200


def test_many_registrations_at_once_are_all_answered(open_server: Served) -> None:
    """Ten thousand in one request, and meanwhile some hundred, a hundred at a time.

    `python -m bench.server --only registrations` tries ten thousand of these, too.
    """
    limits = httpx.Limits(max_connections=101)

    async def crowd() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=open_server.url, limits=limits, timeout=120) as who:
            many = [asked(f"bulk_{number}", number) for number in range(10_000)]
            bulk = asyncio.create_task(who.post("/v1/queries/bulk", json={"add": many}))
            ones = [who.post("/v1/queries", json=asked(f"crowd_{number}", number))
                    for number in range(300)]  # fmt: skip
            return [await bulk, *await asyncio.gather(*ones)]

    bulk, *ones = asyncio.run(crowd())

    assert bulk.status_code == 200
    assert {each.status_code for each in ones} == {201}
    for word, count in (("bulk_", 10_000), ("crowd_", 300)):
        page = open_server.get(f"/v1/queries?search={word}&limit=1").json()
        assert page["total"] == count
    assert (
        open_server.post("/v1/queries/bulk", json={"drop": bulk.json()["ids"]}).status_code == 200
    )


def asked(name: str, number: int) -> dict[str, str]:
    """Return a query to register, unlike all others, into a feed that they share."""
    text = f"SELECT symbol FROM trades WHERE price > {random.Random(number).random()}"
    return {"sql": text, "name": name, "into": "crowd"}


def test_a_request_that_stops_in_the_middle_harms_nobody(open_server: Served) -> None:
    async def half() -> None:
        for _ in range(20):
            _, writer = await asyncio.open_connection("127.0.0.1", open_server.port)
            writer.write(b"POST /v1/streams/trades/rows HTTP/1.1\r\nHost: localhost\r\n"
                         b"Content-Length: 1000\r\n\r\n[{")  # fmt: skip
            await writer.drain()
            writer.close()

    asyncio.run(half())

    _require_well(open_server)
