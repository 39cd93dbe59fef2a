"""Which server a command talks to, and as whom."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from millrace.client.client import Client

URL, TOKEN, CA = "MILLRACE_URL", "MILLRACE_TOKEN", "MILLRACE_CA"
DEFAULT_URL = "http://127.0.0.1:8642"


def add_server_options(parser: argparse.ArgumentParser, *, positional: bool = False) -> None:
    """Declare where the server is, and the token."""
    words = f"the address of the server (${URL}, or {DEFAULT_URL})"
    if positional:
        parser.add_argument("url", metavar="URL", nargs="?", help=words)
    else:
        parser.add_argument("--url", help=words)
    parser.add_argument(
        "--token", help=f"the token to show; ${TOKEN} keeps it out of the list of processes"
    )
    parser.add_argument(
        "--ca", metavar="FILE", help=f"certificates to trust, in PEM, for https (${CA})"
    )


def connected(arguments: argparse.Namespace) -> Client:
    """Return a client of the server that is meant."""
    from millrace.client.connecting import connect

    url = arguments.url or os.environ.get(URL) or DEFAULT_URL
    token, ca = arguments.token or os.environ.get(TOKEN), arguments.ca or os.environ.get(CA)
    return connect(url, token, ca=ca or None)
