"""A server with a certificate: who trusts it speaks to it, others do not, none in the clear."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import trustme

import millrace
from millrace.errors import PlanError, UnreachableError
from millrace.testing.server_process import ServerProcess
from millrace.testing.serving import STREAM

ONCE = millrace.Patience(attempts=1)


@dataclass(frozen=True)
class Place:
    """A server, and the certificate of who issued its own."""

    server: ServerProcess
    ca: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    ca, certificate, key = (directory / name for name in ("ca.pem", "cert.pem", "key.pem"))
    authority.cert_pem.write_to_path(str(ca))
    issued.private_key_pem.write_to_path(str(key))
    for nth, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(certificate), append=nth > 0)
    options = ("--demo", "--tls-cert", str(certificate), "--tls-key", str(key))
    server = ServerProcess(directory / "root", *options, ca=ca)
    try:
        yield Place(server.start(), ca)
    finally:
        server.stop()


def test_a_client_that_trusts_it_pushes_and_reads(place: Place) -> None:
    with millrace.connect(place.server.url, ca=place.ca) as client:
        client.execute(STREAM)
        query = client.query("SELECT symbol FROM trades", name="all", retain="1 hour")
        changes = query.changes(timeout=20)
        client.push("trades", [{"symbol": "ACME", "price": 1.0, "ts": datetime.now(UTC)}])
        told = next(changes)

        assert told.to_arrow()["symbol"].to_pylist() == ["ACME"]


def test_a_command_trusts_what_it_is_told_to(place: Place) -> None:
    command = [sys.executable, "-m", "millrace.cli.main", "query", "list", "--json"]
    given = ["--url", place.server.url, "--ca", str(place.ca)]

    said = subprocess.run([*command, *given], capture_output=True, text=True, check=True)

    assert json.loads(said.stdout) is not None


def test_a_client_that_does_not_trust_it_sends_nothing(place: Place) -> None:
    with (
        millrace.connect(place.server.url, "secret", patience=ONCE) as client,
        pytest.raises(UnreachableError, match="certificate"),
    ):
        client.execute("SHOW QUERIES")


def test_nothing_is_served_in_the_clear(place: Place) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(place.server.url.replace("https", "http") + "/v1/health")


def test_a_file_without_certificates_is_named(place: Place, tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")

    with pytest.raises(PlanError, match="certificates cannot be read"):
        millrace.connect(place.server.url, ca=tmp_path / "none.pem")
