"""`millrace inspect`: what is in a root, also while an engine is running on it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from millrace.cli.terminal import make_console

NAME = "inspect"
SUMMARY = "show what is in a root: epochs, streams, queries, stores, sinks"
EPILOG = """\
Nothing is changed, and an engine may be running on the root: a lease keeps the files that are
being read. Of many queries only the first are shown, and all that do not run.

examples:
  millrace inspect /var/lib/alerts
  millrace inspect /var/lib/alerts --json | jq .counts
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("root", metavar="ROOT", help="the directory of the root")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Inspect a root."""
    from millrace.cli.inspection import inspect
    from millrace.cli.inspection_page import show
    from millrace.cli.reading import existing_root, leased

    root = existing_root(arguments.root)
    with leased(root):
        found = inspect(root)
    if arguments.json:
        print(json.dumps(asdict(found), indent=2))
    else:
        show(found, make_console())
    return 0
