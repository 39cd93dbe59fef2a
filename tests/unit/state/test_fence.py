"""The fence: one engine at a time, terms that grow, and a holder that can be named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from millrace.errors import FencedError, InUseError
from millrace.state.fence import KEPT_TERMS, Fence, Holder
from millrace.state.posix_root import PosixRoot
from millrace.state.process import Process
from millrace.state.root import Root
from millrace.state.root_lock import RootLock

CHILD = """
import sys, time
from millrace.state.fence import Fence
from millrace.state.posix_root import PosixRoot
fence = Fence.acquire(PosixRoot(sys.argv[1], durable=False), who="the child")
fence.record_child(int(sys.argv[2]))
print(fence.term, flush=True)
time.sleep(60)
"""


@pytest.fixture
def holding_child(posix: PosixRoot) -> Callable[[], subprocess.Popen[str]]:
    """Start a process that holds the root; return when it does."""

    def start() -> subprocess.Popen[str]:
        source = str(Path(__file__).parents[3] / "src")
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(posix.path), str(os.getpid())],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )
        assert child.stdout is not None
        assert child.stdout.readline().strip().isdigit()
        return child

    return start


def end(child: subprocess.Popen[str]) -> None:
    child.send_signal(signal.SIGKILL)
    child.communicate()


def test_terms_grow_and_only_the_newest_are_kept(root: Root) -> None:
    terms = []
    for _ in range(10):
        fence = Fence.acquire(root, who="engine")
        terms.append(fence.term)
        fence.release()

    assert terms == list(range(1, 11))
    kept = [entry.name for entry in root.list("terms/")]
    assert kept == [f"terms/{term:012d}" for term in range(11 - KEPT_TERMS, 11)]


def test_a_second_engine_is_refused_and_told_who_holds_the_root(root: Root) -> None:
    fence = Fence.acquire(root, who="the first engine")

    with pytest.raises(InUseError, match="is in use") as caught:
        Fence.acquire(root, who="the second")
    assert f"the first engine, process {os.getpid()} on " in caught.value.detail

    fence.release()
    Fence.acquire(root, who="the second").release()


def test_a_released_root_has_no_previous_holder(root: Root) -> None:
    Fence.acquire(root, who="first").release()
    fence = Fence.acquire(root, who="second")

    assert fence.previous is None
    fence.release()
    fence.release()


def test_an_engine_that_was_overtaken_notices(root: Root) -> None:
    fence = Fence.acquire(root, who="first")
    fence.check()
    root.put_if_absent(f"terms/{fence.term + 1:012d}", b"{}")

    with pytest.raises(FencedError, match="has been taken over") as caught:
        fence.check()
    assert "This engine has term 1, the newest is 2." in caught.value.detail
    fence.release()


def test_a_holder_in_another_process_is_named_and_its_kill_frees_the_root(
    posix: PosixRoot, holding_child: Callable[[], subprocess.Popen[str]]
) -> None:
    child = holding_child()
    try:
        with pytest.raises(InUseError) as caught:
            Fence.acquire(posix, who="parent")
        assert f"the child, process {child.pid}" in caught.value.detail
    finally:
        end(child)

    fence = Fence.acquire(posix, who="parent")

    assert fence.term == 2
    assert fence.previous is not None
    assert fence.previous.process.pid == child.pid
    assert fence.previous.here
    assert not fence.previous.process.alive
    assert [each.pid for each in fence.previous.children] == [os.getpid()]
    assert fence.previous.children[0].alive
    fence.release()


def test_a_torn_lock_text_is_read_as_none(posix: PosixRoot) -> None:
    posix.path.mkdir(parents=True)
    for text in ('{"who": "half', "", "[]", '{"who": 1}'):
        (posix.path / "lock").write_text(text)
        fence = Fence.acquire(posix, who="next")
        assert fence.previous is None
        fence.release()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_no_child_process_inherits_the_lock(posix: PosixRoot) -> None:
    fence = Fence.acquire(posix, who="parent")
    started = subprocess.Popen(["sleep", "30"], close_fds=False)
    forked = os.fork()
    if forked == 0:
        time.sleep(30)
        os._exit(0)
    try:
        time.sleep(0.1)  # the forked child closes its copy as its first act
        fence.release()
        Fence.acquire(posix, who="next").release()
    finally:
        started.kill()
        started.wait()
        os.kill(forked, signal.SIGKILL)
        os.waitpid(forked, 0)


def test_a_shorter_text_replaces_a_longer_one(root: Root) -> None:
    lock = RootLock(root)
    assert lock.take()
    lock.write(b"a long text")
    lock.write(b"short")

    assert lock.read() == b"short"
    lock.release()
    assert not lock.held


def test_a_process_is_known_by_its_start() -> None:
    me = Process.of(os.getpid())

    assert me.alive
    assert not Process(me.pid, me.started + 1).alive
    assert not Process.of(2**22 + 1).alive
    child = subprocess.Popen(["true"])
    zombie = Process.of(child.pid)
    time.sleep(0.1)
    assert not zombie.alive, "a process that only waits to be reaped does not run"
    child.wait()


def test_a_holder_survives_json() -> None:
    holder = Holder.this_process("me")

    assert Holder.from_json(holder.to_json()) == holder
