"""`millrace sql`: a shell on a server."""

from __future__ import annotations

import argparse
import sys

from millrace.cli.server_options import add_server_options, connected

NAME = "sql"
SUMMARY = "talk SQL to a server: a shell, or statements from a file or a pipe"
EPILOG = """\
On a terminal it is a shell with completion, history and colours; \\? lists its commands.
Statements end with ; and may have several lines. SUBSCRIBE query; prints answers as they come,
until Ctrl-C, and then says how to go on behind the last one.

With -c, -f, or when standard input is no terminal, the statements are done one after another up to
one that fails. In the formats json, csv and ndjson only rows go to standard output.

examples:
  millrace sql http://localhost:8642
  millrace sql -c 'SELECT symbol, price FROM big' --format csv
  millrace sql -f app.sql
  echo 'SHOW QUERIES' | millrace sql --format json | jq '.[].name'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_server_options(parser, positional=True)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("-c", "--command", metavar="SQL", help="do these statements and leave")
    what.add_argument("-f", "--file", metavar="FILE", help="do the statements of a file and leave")
    parser.add_argument(
        "--format",
        choices=["table", "json", "csv", "ndjson"],
        default="table",
        help="how rows are printed (table)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the shell, or statements."""
    from millrace.cli.scripts import read_script
    from millrace.cli.shell.printing import Printer
    from millrace.cli.shell.shell import Shell

    with connected(arguments) as client:
        shell = Shell(client, Printer(arguments.format))
        if arguments.command is not None:
            shell.script(arguments.command)
        elif arguments.file is not None:
            shell.script(read_script(arguments.file))
        elif not sys.stdin.isatty():
            shell.script(sys.stdin.read())
        else:
            return _shell(shell)
    return 0


def _shell(shell: object) -> int:
    from millrace.cli.shell.shell import Shell
    from millrace.errors import MachineError

    assert isinstance(shell, Shell), "made above"
    try:
        from millrace.cli.shell.prompt import talk
    except ImportError as cause:
        raise MachineError(
            "prompt_toolkit is not installed",
            hint="Install it with: pip install 'millrace[client]'",
        ) from cause
    shell.client.streams()  # whoever is not let in is told so before a prompt is shown
    shell.note(f"connected to {shell.client.url}; \\? for help, \\q to leave")
    return talk(shell)
