"""`millrace explain`: how the queries of a script would run."""

from __future__ import annotations

import argparse
from itertools import filterfalse

from rich.text import Text

from millrace.cli.terminal import make_console

NAME = "explain"
SUMMARY = "show how the queries of a script would run, and what they share"
EPILOG = """\
Every query and template of the script is explained, or only the one named: how its rows are found
in the index, what is evaluated on the rows that are left, and with how many others it shares its
plan. Nothing is run.

examples:
  millrace explain app.sql
  millrace explain app.sql big
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "script", metavar="SCRIPT", help="a file of statements, - for standard input"
    )
    parser.add_argument("query", metavar="QUERY", nargs="?", help="only this query or template")


def run(arguments: argparse.Namespace) -> int:
    """Explain the queries of a script."""
    from millrace.cli.dry_run import dry_run
    from millrace.cli.scripts import read_script
    from millrace.engine.hidden import is_hidden
    from millrace.session.explanation import explain_query

    text, console = read_script(arguments.script), make_console()
    with dry_run() as script:
        for _ in script.run(text):
            pass
        catalog = script.session.engine.registry.catalog
        population = script.session.engine.registry.population
        known = dict.fromkeys([*filterfalse(is_hidden, population.names), *(
            each.name for each in catalog.feeds.values() if each.kind == "template"
        )])  # fmt: skip
        for name in [arguments.query] if arguments.query else known:
            console.print(Text(name, "bold cyan"))
            console.print(Text(f"{explain_query(script.session, name)}\n"), soft_wrap=True)
    return 0
