"""The entry of a server's processes: `python -m millrace.server.process engine|gateway OPTIONS`.

A process ends with the one that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time

from millrace.errors import MillraceError
from millrace.server.options import ServerOptions

FATAL_STATUS = 3


def main(arguments: list[str]) -> int:
    """Run a process; return its exit status."""
    kind, text, *rest = arguments
    options = ServerOptions.from_json(text)
    from millrace.server.engine_process import log_to, run_engine  # noqa: PLC0415

    number = rest[1] if len(rest) > 1 else ""
    log_to(options.root / "logs" / f"{kind}{number}.log")
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    try:
        if kind == "engine":
            _interrupt_nobody()
            run_engine(options)
        else:
            from millrace.server.gateway_process import run_gateway  # noqa: PLC0415

            run_gateway(options, int(rest[0]), console=int(rest[2]) if len(rest) > 2 else None)
    except MillraceError as error:
        sys.stderr.write(f"error: {error}\n")
        return FATAL_STATUS
    return 0


def _interrupt_nobody() -> None:
    """Let the engine's threads wait until a processor is free, with the same share of it.

    Those who answer, and wake for some microseconds, then need not wait until an epoch that has
    just got its file lets go of the processor.
    """
    if hasattr(os, "SCHED_BATCH"):
        with contextlib.suppress(OSError):  # where that is not allowed, it is not needed
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
