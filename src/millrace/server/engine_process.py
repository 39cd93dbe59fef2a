"""The engine process: opens the root, declares what is declared, runs epochs until told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from contextlib import ExitStack
from pathlib import Path
from types import FrameType

from millrace.engine.local_loop import LoopBackend
from millrace.engine.settings import Settings
from millrace.engine.sysstream import UNHEARD
from millrace.server.audit import Audit
from millrace.server.commands import Commands
from millrace.server.engine_host import EngineHost
from millrace.server.functions import read_functions
from millrace.server.options import ServerOptions
from millrace.server.quotas import Quotas
from millrace.server.tokens import Tokens
from millrace.session.script import Script
from millrace.session.session import Session
from millrace.session.telling import tell_of_itself

POLL_SECONDS = 0.2
DRAIN_SECONDS = 10.0

_logger = logging.getLogger(__name__)


def run_engine(options: ServerOptions, stopping: threading.Event | None = None) -> None:
    """Run the engine of a server until it is told to stop."""
    stop = stopping or _stopped_by_signals()
    with ExitStack() as stack:
        backend: object = LoopBackend() if options.local else _spark(options, stack)
        session = Session(options.root, spark=backend, settings=Settings(**options.settings))
        session.reads_queries = False
        stack.callback(session.close, drain=DRAIN_SECONDS)
        for name, (function, returns) in read_functions(options.functions).items():
            session.function(name, function, returns=returns)
        _serve(session, options, stop, stack)


def _serve(
    session: Session, options: ServerOptions, stop: threading.Event, stack: ExitStack
) -> None:
    tokens = Tokens(options.token_path)
    audit = Audit(options.root)
    stack.callback(audit.close)
    commands = Commands(
        session, audit=audit, quotas=Quotas(lambda: tokens.quotas(now=True)), paths=options.paths
    )
    tell_of_itself(session, unheard=UNHEARD)
    script = Script(session)
    if options.script is not None:
        for outcome in script.run(options.script.read_text()):
            _logger.info("%s", outcome.message)
    commands.declared.restore(script)
    host = EngineHost(commands, options.root)
    stack.callback(host.stop)
    run = session.start()
    _logger.info("engine up: root=%s", options.root)
    while not stop.is_set() and not run.wait(POLL_SECONDS):
        pass
    _logger.info("engine stops: the epoch in flight is finished")
    host.stop()


def _spark(options: ServerOptions, stack: ExitStack) -> object:
    from millrace.spark.launch import local_spark, stop_spark  # noqa: PLC0415  slow to import

    log = options.root / "logs" / "spark.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    spark = local_spark(cores=options.cores, app="millrace serve", log=log)
    stack.callback(stop_spark, spark)
    _take_signals_again()
    return spark


_stop = threading.Event()


def _take(number: int, frame: FrameType | None) -> None:
    del number, frame
    _stop.set()


def _take_signals_again() -> None:
    """Spark has handlers of its own."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, _take)


def _stopped_by_signals() -> threading.Event:
    _take_signals_again()
    return _stop


def log_to(path: Path) -> None:
    """Write what this process has to say into a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    file = logging.FileHandler(path, encoding="utf-8")
    file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(file)
    logging.getLogger("millrace").setLevel(logging.INFO)
