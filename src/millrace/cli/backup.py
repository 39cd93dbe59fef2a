"""`millrace backup`: copy a root, also while an engine runs on it."""

from __future__ import annotations

import argparse
from pathlib import Path

NAME = "backup"
SUMMARY = "copy a root as of its newest commit, while its engine may run"
EPILOG = """\
TARGET is a new directory, or a file whose name ends in .tar, .tar.gz or .tgz. It holds everything
up to one commit, what was pushed and is not counted yet, and what is registered. Rows in sources
outside of the root (files, Kafka) are not in it: an engine that is started on the restored root
reads on from where the commit was.

examples:
  millrace backup /var/lib/alerts /backups/alerts-monday.tar
  millrace restore /backups/alerts-monday.tar /var/lib/alerts-again
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("root", type=Path, metavar="ROOT", help="the root to copy")
    parser.add_argument("target", type=Path, metavar="TARGET", help="where to")


def run(arguments: argparse.Namespace) -> int:
    """Copy a root."""
    from millrace.reading.backup import backup, opened_target

    with opened_target(arguments.target) as target:
        epoch = backup(arguments.root, target)
    print(f'"{arguments.target}" holds the root as of epoch {epoch}')
    return 0
