"""The engine's end of the socket: what goes wrong once does not end it, and a stop is quick."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from millrace.server import engine_host
from millrace.server.engine_host import EngineHost
from millrace.server.principals import OPERATOR, Principal
from millrace.server.wire import Frame, send, socket_path


class Stub:
    """Commands that only take notes."""

    def __init__(self) -> None:
        registry, manifest = SimpleNamespace(number=0), SimpleNamespace(epoch=0)
        engine = SimpleNamespace(told=None, registry=registry, manifest=manifest)
        self.session = SimpleNamespace(engine=engine)
        self.looks = 0
        self.begun: list[str] = []
        self.go_on = threading.Event()

    def run(self, name: str, who: Principal, frame: Frame) -> Frame:
        self.begun.append(name)
        self.go_on.wait(20)
        return Frame({})

    def expire(self) -> int:
        self.looks += 1
        raise RuntimeError("a fault")

    def quieten(self) -> int:
        return 0

    def work(self) -> dict[str, Any]:
        return {}


def until(true: Any) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.01)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    monkeypatch.setattr(engine_host, "TICK_SECONDS", 0.01)
    monkeypatch.setattr(engine_host, "THREADS", 1)
    return Stub()


def test_a_fault_does_not_end_the_looking_after(
    stub: Stub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = EngineHost(stub, tmp_path)  # type: ignore[arg-type]  # a stand-in
    try:
        until(lambda: stub.looks > 3)
    finally:
        host.stop()

    assert "queries not looked after, later" in caplog.text
    assert "a fault" in caplog.text


def test_a_gateway_that_cannot_be_told_is_cut_off(
    stub: Stub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = EngineHost(stub, tmp_path)  # type: ignore[arg-type]  # a stand-in
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gateway:
            gateway.settimeout(20)
            gateway.connect(str(socket_path(tmp_path)))
            assert gateway.recv(1)
            host.tell({"event": object()})
            while gateway.recv(1_000):
                pass
    finally:
        host.stop()

    assert "gateway cut off" in caplog.text


def test_commands_that_wait_are_not_begun_by_a_stop(stub: Stub, tmp_path: Path) -> None:
    host = EngineHost(stub, tmp_path)  # type: ignore[arg-type]  # a stand-in
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as gateway:
        gateway.connect(str(socket_path(tmp_path)))
        for number, name in enumerate(("long", "waiting")):
            send(gateway, Frame({"id": number, "do": name, "who": OPERATOR.to_json()}))
        until(lambda: stub.begun and host._pool._work_queue.qsize() == 1)
        stopping = threading.Thread(target=host.stop)
        stopping.start()
        stopping.join(0.5)
        stub.go_on.set()
        stopping.join(20)

    assert stub.begun == ["long"]
