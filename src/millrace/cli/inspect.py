"""`millrace inspect`: what is in a root, also while an engine is running on it."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from millrace.cli.terminal import make_console

if TYPE_CHECKING:
    from millrace.state.root import Root

NAME = "inspect"
SUMMARY = "show what is in a root: epochs, streams, queries, stores, sinks"
EPILOG = """\
Nothing is changed, and an engine may be running on the root: a lease keeps the files that are
being read. Of many queries only the first are shown, and all that do not run.

--dead-letters and --late list the newest rows that were set aside, with when they came, from where
and why, instead.

examples:
  millrace inspect /var/lib/alerts
  millrace inspect /var/lib/alerts --dead-letters
  millrace inspect /var/lib/alerts --late 100 --json
  millrace inspect /var/lib/alerts --json | jq .counts
"""

MOST = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("root", metavar="ROOT", help="the directory of the root")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    which = parser.add_mutually_exclusive_group()
    for option, what in (("--dead-letters", "dead letters"), ("--late", "late rows of a stream")):
        which.add_argument(option, type=_count, nargs="?", const=MOST, metavar="N",
                           help=f"list the newest {what} ({MOST})")  # fmt: skip


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not greater than 0")
    return number


def run(arguments: argparse.Namespace) -> int:
    """Inspect a root."""
    from millrace.cli.inspection import inspect
    from millrace.cli.inspection_page import show
    from millrace.cli.reading import existing_root, leased

    root = existing_root(arguments.root)
    if arguments.dead_letters is not None or arguments.late is not None:
        return _list_aside(root, arguments)
    with leased(root):
        found = inspect(root)
    if arguments.json:
        print(json.dumps(asdict(found), indent=2))
    else:
        show(found, make_console())
    return 0


def _list_aside(root: Root, arguments: argparse.Namespace) -> int:
    """List dead letters, or the late rows of each stream."""
    from millrace.cli.reading import leased
    from millrace.cli.scripts import print_table
    from millrace.cli.set_aside import as_json, dead_letters, late_rows

    with leased(root):
        if arguments.late is None:
            found = {"dead letters": dead_letters(root, arguments.dead_letters)}
        else:
            found = dict(late_rows(root, arguments.late))
    if arguments.json:
        print(json.dumps({name: as_json(table) for name, table in found.items()}, indent=2))
        return 0
    console = make_console()
    if not any(table.num_rows for table in found.values()):
        console.print("no dead letters" if arguments.late is None else "no late rows")
        return 0
    for name, table in found.items():
        title = f"late rows of {name}" if arguments.late is not None else name
        print_table(table, console, title, most=table.num_rows)
    return 0
