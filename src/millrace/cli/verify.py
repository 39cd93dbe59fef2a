"""`millrace verify`: compare every file that a root needs with its checksums."""

from __future__ import annotations

import argparse

from rich.text import Text

from millrace.cli.terminal import counted, make_console, print_error
from millrace.state.sizes import print_bytes

NAME = "verify"
SUMMARY = "compare every file that a root needs with its checksums"
EPILOG = """\
Reads all files that the newest manifest names, and the logs that lead to it. An engine may be
running meanwhile. Damaged files are named, and the exit status is then 1.

examples:
  millrace verify /var/lib/alerts
  millrace verify /mnt/copy/alerts && echo 'the copy is good'
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("root", metavar="ROOT", help="the directory of the root")


def run(arguments: argparse.Namespace) -> int:
    """Verify a root; 1 if something is damaged."""
    from millrace.cli.reading import existing_root, leased
    from millrace.cli.verification import verify

    console = make_console()
    root = existing_root(arguments.root)
    with leased(root):
        findings = verify(root, console)
    for error in findings.wrong:
        print_error(error, console)
    amount = f"{counted(findings.n_files, 'file')}, {print_bytes(findings.n_bytes)}"
    if findings.wrong:
        verdict = f"{counted(len(findings.wrong), 'problem')} in {amount}"
        console.print(Text(verdict, "bold red"))
        return 1
    console.print(Text.assemble(("ok", "bold green"), f"  {amount}: every checksum is right"))
    return 0
