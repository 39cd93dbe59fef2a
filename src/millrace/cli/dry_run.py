"""A session that forgets everything: scripts are checked and explained on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from millrace.connectors.globs import require_listable
from millrace.connectors.sinks.parquet import ParquetSink
from millrace.errors import UnknownNameError
from millrace.lang.declarations import (
    Connector,
    CreateSink,
    CreateStream,
    InsertFile,
    Read,
    Statement,
)
from millrace.lang.errors import LanguageError
from millrace.session.script import Outcome, Script
from millrace.session.session import Session
from millrace.state.memory_root import MemoryRoot
from millrace.state.names import TERMS


class DryScript(Script):
    """Does everything that leaves no trace outside of the session's memory."""

    def outcome(self, statement: Statement) -> Outcome:
        """Check sinks and files by name alone; do anything else."""
        if isinstance(statement, CreateSink):
            self.check_sink(statement)
            return Outcome(statement, f'sink "{statement.name}" can be attached')
        known = self.session.engine.registry.catalog.tables
        if isinstance(statement, InsertFile) and statement.template in known:
            return Outcome(statement, f'"{statement.template}" can take rows')
        if isinstance(statement, InsertFile):
            template = self.template(statement.template)
            return Outcome(statement, f'"{template.name}" can take rows')
        return super().outcome(statement)

    def rows_for(self, statement: Statement) -> pa.Table | None:
        """Check a question; for those that change rows nothing is found yet."""
        found = super().rows_for(statement)
        return found if found is None or isinstance(statement, Read) else found.slice(0, 0)

    def first_rows(self, source: Connector) -> pa.Table | None:
        """Look at the source of a table's rows by name alone."""
        self.check_rows(source)
        return None


@contextmanager
def dry_run() -> Iterator[DryScript]:
    """Give a script runner on a session in memory."""
    with Session(MemoryRoot(), threads=False) as session:
        yield DryScript(session, _unseen)


def rehearse_script(text: str, then: str, root: Path) -> None:
    """Refuse what can be refused before a script is run on a root, and `then` at its end.

    The statements are tried on a session in memory, as `check` does, and the directories of
    sources and sinks are looked at. What `then` names may also stand in the root already.
    """
    with dry_run() as script:
        for outcome in script.run(text):
            _look_outside(outcome.statement, script)
        try:
            for _ in script.run(then):
                pass
        except (UnknownNameError, LanguageError) as error:
            unknown = isinstance(error, UnknownNameError) or error.code == "CQL001"
            if unknown and (root / TERMS).exists():
                return
            error.add_note("in --then")
            raise


def _look_outside(statement: Statement, script: DryScript) -> None:
    if isinstance(statement, CreateStream) and statement.source.kind.lower() == "files":
        require_listable(str(dict(statement.source.options)["path"]))
    if isinstance(statement, CreateSink):
        sink = script.sink_of(statement)
        if isinstance(sink, ParquetSink):
            sink.rehearse_place()


def _unseen(query: str, epoch: int, table: pa.Table) -> None:
    """Take no notice: nothing is delivered."""
