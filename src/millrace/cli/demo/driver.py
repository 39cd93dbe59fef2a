"""The process that is killed: local Spark, a session, and a report of every epoch.

It reports on a pipe of its own, one JSON document a line, because the JVM and Python's workers
share its standard output. It ends when its standard input ends: so it never outlives the viewer.

    {"event": "spark", ...}      Spark is up
    {"event": "compiled", ...}   the kernels are compiled, or were so before
    {"event": "root", ...}       the root is open, and everything is declared
    {"event": "open"}            the streaming query is started
    {"event": "epoch", ...}      an epoch is committed: its statistics and the state after it
    {"event": "answers", ...}    a query's newest answers, as the callback sink received them
    {"event": "closed"}          everything that was committed is delivered
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

import millrace
from millrace.cli.demo import alerts
from millrace.cli.demo.questions import DELAY_SECONDS, QUESTIONS, RETAIN, SCHEMA, STREAM
from millrace.connectors.decode import warm_decoders
from millrace.engine.backend import Run
from millrace.engine.warm import warm
from millrace.server.audit import Audit
from millrace.server.commands import Commands
from millrace.server.engine_host import EngineHost
from millrace.server.quotas import Quotas
from millrace.session.telling import tell_of_itself
from millrace.time import MILLISECOND, SECOND

POLL_SECONDS = 0.05
TRIGGER = 200 * MILLISECOND
TARGET = 4 * SECOND  # on a slow machine, better long epochs than ever smaller ones
NEWEST = 4
CHANGE_SECONDS = 0.5


class Reports:
    """The driver's end of the pipe."""

    def __init__(self, descriptor: int) -> None:
        os.set_inheritable(descriptor, False)
        self._pipe = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()

    def send(self, event: str, **fields: object) -> None:
        """Send one document."""
        line = json.dumps({"event": event, **fields})
        with self._lock:
            self._pipe.write(f"{line}\n")

    def answers(self, query: str, epoch: int, table: pa.Table) -> None:
        """Send the newest rows of an answer: what a callback sink calls."""
        rows = table.select(["id", "symbol", "price", "size", "_late"]).sort_by("id")
        newest = rows.slice(max(rows.num_rows - NEWEST, 0))
        self.send(
            "answers",
            query=query,
            epoch=epoch,
            n_rows=table.num_rows,
            first=rows.column("id")[0].as_py(),
            newest=newest.to_pylist(),
        )


def main(base: Path, descriptor: int) -> None:
    """Run until standard input ends."""
    from millrace.spark.launch import local_spark

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    reports = Reports(descriptor)
    began = time.monotonic()
    warming = threading.Thread(target=compile_kernels)
    warming.start()
    spark = local_spark(app="millrace demo", memory="512m")
    reports.send("spark", seconds=time.monotonic() - began)
    warming.join()
    reports.send("compiled", seconds=time.monotonic() - began)
    opening = time.monotonic()
    settings = millrace.Settings(trigger=TRIGGER, target=TARGET)
    with millrace.Session(base / "engine", spark=spark, settings=settings) as session:
        declare(session, base, reports)
        host = hosted(session, base / "engine")
        epoch = session.engine.manifest.epoch
        reports.send("root", seconds=time.monotonic() - opening, epoch=epoch)
        run = session.start()
        reports.send("open")
        changing = threading.Thread(target=change_alerts, args=(session, run), daemon=True)
        changing.start()
        watch(session, run, reports)
        host.stop()
    reports.send("closed", epoch=session.engine.manifest.epoch)
    spark.stop()


def hosted(session: millrace.Session, root: Path) -> EngineHost:
    """Let the gateway beside us reach the session, and the engine tell of itself."""
    tell_of_itself(session)
    return EngineHost(Commands(session, audit=Audit(root), quotas=Quotas()), root)


def compile_kernels() -> None:
    """Let numba compile what workers will need, and keep it on the disk, while Spark starts.

    It takes a while on the first run after an installation, and next to nothing from then on.
    """
    warm()
    warm_decoders()


def declare(session: millrace.Session, base: Path, reports: Reports) -> None:
    """Say what the stream is, what is asked, and where answers go."""
    source = millrace.Files(str(base / "incoming"), format="ndjson")
    session.stream(
        STREAM,
        source,
        time="ts",
        schema=SCHEMA,
        delay=f"{DELAY_SECONDS} seconds",
        key="symbol",
        retain=RETAIN,
    )
    for question in QUESTIONS:
        session.query(question.text, name=question.name)
    alerts.declare(session)
    session.sink(millrace.ParquetSink(base / "answers", roll_every="2 seconds"))
    session.sink(millrace.CallbackSink(reports.answers))


def change_alerts(session: millrace.Session, run: Run) -> None:
    """Drop some alerts and add others, again and again, while epochs run."""
    template = session.standing(alerts.NAME)
    assert isinstance(template, millrace.Template), "alerts are a template"
    while not run.wait(CHANGE_SECONDS):
        with contextlib.suppress(millrace.MillraceError):  # the session is closing
            alerts.change_some(template)


def watch(session: millrace.Session, run: Run, reports: Reports) -> None:
    """Report epochs until the viewer closes the pipe."""
    closing = threading.Event()
    threading.Thread(target=_await_end, args=(closing,), daemon=True).start()
    last = session.engine.manifest.epoch
    while not closing.is_set() and not run.wait(0):
        for statistics in session.statistics():
            if statistics.epoch > last:
                last = statistics.epoch
                reports.send("epoch", statistics=statistics.to_json(), **state(session))
                if statistics.dead:
                    reports.send("dead", **newest_dead_letter(session))
        closing.wait(POLL_SECONDS)


def state(session: millrace.Session) -> dict[str, Any]:
    """Sum up what the root holds now, and where the sinks are."""
    manifest = session.engine.manifest
    kept = [store for store in manifest.stores.values() if not store.queue]
    return {
        "counts": manifest.facts.get("counts", {}),
        "term": manifest.term,
        "runs": sum(len(store.runs) for store in kept),
        "rows": sum(store.rows for store in kept),
        "bytes": sum(piece.bytes for piece in manifest.pieces()),
        "files": len(manifest.files()),
        "standing": session.engine.registry.population.n_rows,
        "families": len(session.engine.registry.catalog.families),
        "sinks": [[each.name, each.state, each.next_epoch - 1] for each in session.sinks()],
    }


def newest_dead_letter(session: millrace.Session) -> dict[str, str]:
    """Return why the last unreadable line could not be read, and its text."""
    letters = session.dead_letters()
    last = letters.sort_by("_time").slice(letters.num_rows - 1).to_pylist()[0]
    return {"reason": last["reason"], "raw": last["raw"].decode(errors="replace")[:200]}


def _await_end(closing: threading.Event) -> None:
    sys.stdin.read()
    closing.set()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
