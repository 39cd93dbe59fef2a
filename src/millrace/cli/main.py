"""The command `millrace`: finds the subcommand, runs it, and turns errors into words.

Exit status: 0 if all is well, 1 if a problem was found, 2 if the command was called wrongly,
3 if a server cannot be reached, 130 if it was interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn, Protocol

import millrace
from millrace.cli import (
    backup,
    check,
    doctor,
    explain,
    inspect,
    query,
    restore,
    run,
    serve,
    sql,
    token,
    verify,
    warm,
)
from millrace.cli.demo import command as demo
from millrace.cli.terminal import interrupted, print_error
from millrace.errors import MillraceError, UnreachableError

_EPILOG = """\
exit status:
  0  all is well
  1  a problem was found
  2  the command was called wrongly
  3  a server cannot be reached

environment:
  MILLRACE_URL, MILLRACE_TOKEN  the server that sql and query talk to, and as whom
  MILLRACE_CA                   certificates that they trust, for https
  MILLRACE_JAVA_OPTIONS         further options of the JVM that Spark runs in
  MILLRACE_PRICES=known         do not measure what joins cost on this machine
  NO_COLOR                      print without colours
"""


class Command(Protocol):
    """What a module must have to be a command."""

    NAME: str
    SUMMARY: str
    EPILOG: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; return the exit status."""


COMMANDS: list[Command] = [
    *(demo, run, serve, token, sql, query),
    *(check, explain, inspect, verify, backup, restore, doctor, warm),
]


class _UsageError(MillraceError):
    """The command line cannot be understood."""

    code = "usage"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors have the form of all our errors."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing."""
        raise _UsageError(message, hint=f"See `{self.prog} --help`.")


def make_parser() -> argparse.ArgumentParser:
    """Make the parser of all commands."""
    shape = argparse.RawDescriptionHelpFormatter
    parser = _Parser(
        prog="millrace",
        description="A million standing SQL queries on one Spark stream.",
        epilog=_EPILOG,
        formatter_class=shape,
    )
    parser.add_argument("--version", action="version", version=f"millrace {millrace.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.NAME,
            help=command.SUMMARY,
            description=f"{command.SUMMARY[0].upper()}{command.SUMMARY[1:]}.",
            epilog=command.EPILOG,
            formatter_class=shape,
        )
        command.add_arguments(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status.

    Examples
    --------
    >>> main(["verify"])
    2
    """
    try:
        parsed = make_parser().parse_args(arguments)
        status: int = parsed.run(parsed)
    except _UsageError as error:
        print_error(error)
        return 2
    except UnreachableError as error:
        print_error(error)
        return 3
    except MillraceError as error:
        print_error(error)
        return 1
    except KeyboardInterrupt:
        return interrupted()
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
        return 0
    return status


if __name__ == "__main__":
    sys.exit(main())
