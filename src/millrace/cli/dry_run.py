"""A session that forgets everything: scripts are checked and explained on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from millrace.lang.declarations import CreateSink, InsertFile, Statement
from millrace.session.script import Outcome, Script
from millrace.session.session import Session
from millrace.state.memory_root import MemoryRoot


class DryScript(Script):
    """Does everything that leaves no trace outside of the session's memory."""

    def outcome(self, statement: Statement) -> Outcome:
        """Check sinks and files by name alone; do anything else."""
        if isinstance(statement, CreateSink):
            self.check_sink(statement)
            return Outcome(statement, f'sink "{statement.name}" can be attached')
        if isinstance(statement, InsertFile):
            template = self.template(statement.template)
            return Outcome(statement, f'"{template.name}" can take rows')
        return super().outcome(statement)


@contextmanager
def dry_run() -> Iterator[DryScript]:
    """Give a script runner on a session in memory."""
    with Session(MemoryRoot(), threads=False) as session:
        yield DryScript(session, _unseen)


def _unseen(query: str, epoch: int, table: pa.Table) -> None:
    """Take no notice: nothing is delivered."""
