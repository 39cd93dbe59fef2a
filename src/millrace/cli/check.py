"""`millrace check`: parse and bind a script, and do nothing."""

from __future__ import annotations

import argparse

from rich.text import Text

from millrace.cli.terminal import counted, make_console

NAME = "check"
SUMMARY = "parse and bind a script of statements, without running it"
EPILOG = """\
Every statement is parsed, names and types are checked, sources and sinks are looked up by their
kind. No file is opened, Spark is not started. The exit status is 1 if something is wrong.

examples:
  millrace check app.sql
  cat app.sql | millrace check -
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "script", metavar="SCRIPT", help="a file of statements, - for standard input"
    )


def run(arguments: argparse.Namespace) -> int:
    """Check a script; errors are raised."""
    from millrace.cli.dry_run import dry_run
    from millrace.cli.scripts import read_script

    text = read_script(arguments.script)
    with dry_run() as script:
        n_statements = sum(1 for _ in script.run(text))
    words = f"  {counted(n_statements, 'statement')} can be run"
    make_console().print(Text.assemble(("ok", "bold green"), words))
    return 0
