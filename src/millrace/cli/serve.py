"""`millrace serve`: an engine and its HTTP gateways on a root."""

from __future__ import annotations

import argparse
from pathlib import Path

NAME = "serve"
SUMMARY = "serve a root over HTTP: push rows, register queries, read and follow answers"
EPILOG = """\
The statements of SCRIPT are done when the engine starts, and again at each start; what stands in
the root goes on where it was. Gateways are up at once and serve what is committed; the engine
follows. SIGTERM or Ctrl-C finishes the epoch in flight, tells subscribers, and ends.

Nobody is let in without a token, see `millrace token`; --demo lets everybody in who is on this
machine. Statements over HTTP name files only in the directories of --allow-path.

examples:
  millrace serve --root /tmp/try --local --demo
  millrace token add --root /var/lib/alerts --role admin
  millrace serve app.sql --root /var/lib/alerts --gateways 2
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("script", nargs="?", type=Path, metavar="SCRIPT",
                        help="statements to begin with")  # fmt: skip
    parser.add_argument("--root", required=True, type=Path, metavar="DIR",
                        help="where everything durable is kept")  # fmt: skip
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="what to bind to")
    parser.add_argument("--port", type=int, default=8642, metavar="N", help="0 takes a free one")
    parser.add_argument("--gateways", type=int, default=1, metavar="N", help="how many processes")
    parser.add_argument("--tokens", type=Path, metavar="FILE", help="where tokens are kept, if not "
                        "in the root")  # fmt: skip
    parser.add_argument("--demo", action="store_true", help="let everybody in, on loopback only")
    parser.add_argument("--local", action="store_true", help="run epochs without Spark")
    parser.add_argument("--cores", default="*", metavar="N", help="how many tasks run at once")
    parser.add_argument("--tls-cert", type=Path, metavar="FILE", help="a certificate, for https")
    parser.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    parser.add_argument("--functions", type=Path, metavar="FILE",
                        help="Python with functions that queries may call")  # fmt: skip
    parser.add_argument("--allow-path", type=Path, action="append", default=[], metavar="DIR",
                        help="let statements over HTTP name files there")  # fmt: skip
    parser.add_argument("--trigger", default="20ms", metavar="TIME",
                        help="the least time between two epochs, such as 100ms")  # fmt: skip
    parser.add_argument("--max-body", type=int, metavar="BYTES", help="the largest body")
    parser.add_argument("--max-rate", type=float, metavar="N", help="requests a second and token")
    parser.add_argument("--max-result", type=int, metavar="ROWS", help="the largest answer")


def run(arguments: argparse.Namespace) -> int:
    """Serve."""
    from millrace.server.limits import Limits
    from millrace.server.options import ServerOptions
    from millrace.server.supervisor import Supervisor
    from millrace.time import to_micros

    given = {
        "body_bytes": arguments.max_body,
        "requests_per_second": arguments.max_rate,
        "result_rows": arguments.max_result,
    }
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    trigger = arguments.trigger
    options = ServerOptions(
        root=arguments.root.absolute(),
        script=arguments.script,
        host=arguments.host,
        port=arguments.port,
        gateways=arguments.gateways,
        tokens=arguments.tokens,
        demo=arguments.demo,
        local=arguments.local,
        cores=arguments.cores,
        tls_cert=arguments.tls_cert,
        tls_key=arguments.tls_key,
        functions=arguments.functions and arguments.functions.absolute(),
        paths=tuple(each.absolute() for each in arguments.allow_path),
        limits=limits,
        settings={"trigger": int(trigger) if trigger.isdigit() else to_micros(trigger)},
    )
    return Supervisor(options, lambda line: print(line, flush=True)).run()
