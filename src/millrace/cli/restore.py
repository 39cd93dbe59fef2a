"""`millrace restore`: make a root of a backup."""

from __future__ import annotations

import argparse
from pathlib import Path

NAME = "restore"
SUMMARY = "make a root of a backup"
EPILOG = """\
ROOT must not exist, or be empty. The engine that is started on it goes on behind the commit that
the backup was made at. Do not run it beside the engine that it was copied from, if both deliver to
the same sinks.

examples:
  millrace restore /backups/alerts-monday.tar /var/lib/alerts
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("source", type=Path, metavar="BACKUP", help="what `backup` made")
    parser.add_argument("root", type=Path, metavar="ROOT", help="where to")


def run(arguments: argparse.Namespace) -> int:
    """Restore a root."""
    from millrace.reading.backup import restore

    restore(arguments.source, arguments.root)
    print(f'"{arguments.root}" is restored')
    return 0
