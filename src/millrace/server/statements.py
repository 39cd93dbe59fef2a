"""Statements on behalf of somebody: what they may say, and which names they mean.

A script of a tenant is done on the session that all share. Each statement is first checked against
the role and the list of allowed paths, then its names are brought into the tenant's namespace, and
what comes back is told in the names that the tenant knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from millrace.engine.streams import SYSSTREAM
from millrace.errors import MillraceError, NameTakenError, UnknownNameError
from millrace.lang.declarations import (
    Connector,
    CreateQuery,
    CreateSink,
    CreateStream,
    CreateTable,
    CreateTemplate,
    CreateView,
    DeleteRows,
    Drop,
    DryRun,
    Explain,
    InsertFile,
    InsertRows,
    Pause,
    Read,
    Register,
    Show,
    Statement,
    UpdateRows,
)
from millrace.server.principals import ForbiddenError, Principal
from millrace.server.told_rows import require_hearing, told_to
from millrace.session.held import SessionHeld
from millrace.session.script import Outcome, Script
from millrace.session.session import Session

_CHANGES = (InsertRows, InsertFile, UpdateRows, DeleteRows)
_DECLARATIONS = (CreateStream, CreateSink, CreateTable, CreateView, Register)
_OWN = ("query", "template")


class OwnScript(Script):
    """Does statements for one principal.

    Parameters
    ----------
    paths
        The directories that statements may name files in.
    """

    def __init__(self, session: Session, who: Principal, paths: Sequence[Path] = ()) -> None:
        super().__init__(session)
        self._who, self._paths = who, paths

    def outcome(self, statement: Statement) -> Outcome:
        """Do one statement, if they may."""
        self.check(statement)
        with told_as_theirs(self._who):
            done = super().outcome(self._qualified(statement))
        table = done.table
        if isinstance(statement, Show) and table is not None:
            table = self._seen(statement.what, table)
        return Outcome(statement, _plain(done.message, self._who), table)

    def check(self, statement: Statement) -> None:
        """Refuse what the role does not allow, and files outside of the allowed directories."""
        if isinstance(statement, Show) and statement.what == "sinks":
            self._who.require_operator("SHOW SINKS")
        if not isinstance(statement, Show | Explain | Read | DryRun):
            self._who.require("writer")
        if isinstance(statement, DryRun):
            require_hearing(self.session, self._who, str(statement.query))
        ours = isinstance(statement, Drop) and statement.kind not in _OWN
        if ours or isinstance(statement, _DECLARATIONS):
            self._who.require_operator(" ".join(str(statement).split()[:2]).upper())
        if isinstance(statement, InsertFile):
            self._who.require_operator("INSERT FROM a file")
            require_allowed(statement.path, self._paths)
        if isinstance(statement, _CHANGES) and self._of_table(statement.template):
            self._who.require_operator("changing a table")
        if isinstance(statement, CreateStream | CreateTable) and statement.source is not None:
            self._check_connector(statement.source)
        if isinstance(statement, CreateSink):
            self._check_connector(statement.target)

    def _check_connector(self, connector: Connector) -> None:
        options = dict(connector.options)
        if "path" in options:
            require_allowed(str(options["path"]), self._paths)
        if "host" in options:
            raise ForbiddenError(
                "addresses are not taken over HTTP", hint="Put the statement into the script that "
                "the server is started with."
            )  # fmt: skip

    def _of_table(self, name: str) -> bool:
        return name in self.session.engine.registry.catalog.tables

    def _qualified(self, statement: Statement) -> Statement:
        """Return the statement with names as they are stored."""
        who = self._who
        match statement:
            case CreateQuery(name, _, into, _):
                return replace(statement, name=who.stored(name), into=into and who.stored(into))
            case CreateTemplate(name, _, _, _):
                return replace(statement, name=who.stored(name))
            case Drop(kind, name, _) if kind in _OWN:
                return replace(statement, name=who.found(name))
            case Pause(name, _):
                return replace(statement, name=who.found(name))
            case Explain(query, analyze) if isinstance(query, str):
                return Explain(who.found(query), analyze, written=statement.written)
            case InsertRows() | UpdateRows() | DeleteRows():
                if self._of_table(statement.template):
                    return statement
                return replace(statement, template=who.found(statement.template))
            case _:
                return statement

    def held(self) -> SessionHeld:
        """Return what they may read: their own queries, and what everybody shares."""
        return _TheirHeld(self.session, self._who)

    def _seen(self, what: str, table: pa.Table) -> pa.Table:
        """Leave out what is of others, and show names as they are written."""
        column = {"queries": "name", "templates": "name", "families": "feed"}.get(what)
        if column is None:
            return table
        names: list[str] = table[column].to_pylist()
        kept = table.filter(pa.array([self._who.sees(each) for each in names], pa.bool_()))
        for each in {column, "feed"} & set(kept.column_names):
            shown = [self._who.shown(name) for name in kept[each].to_pylist()]
            kept = kept.set_column(
                kept.column_names.index(each), each, pa.array(shown, pa.string())
            )
        return kept


class _TheirHeld(SessionHeld):
    """What a principal may read."""

    def __init__(self, session: Session, who: Principal) -> None:
        super().__init__(session)
        self._who = who

    def stored(self, name: str) -> str:
        """Return the name under which a query or template of theirs is stored."""
        return self._who.found(name)

    def rows(
        self, name: str, begin: int | None, end: int | None, columns: Sequence[str]
    ) -> pa.Table:
        """Return the rows that they may see; all columns, since one says whose a row is."""
        every = tuple(self._catalog.streams[name].schema.names) if name == SYSSTREAM else columns
        return told_to(self._who, name, super().rows(name, begin, end, every))

    def shown(self, stored: str) -> str:
        """Return how they write it; nothing if it is of others."""
        return self._who.shown(stored) if self._who.sees(stored) else ""


@contextmanager
def told_as_theirs(who: Principal) -> Iterator[None]:
    """Let errors speak of their names alone: lists of what else there is are left out."""
    try:
        yield
    except MillraceError as error:
        if not who.operator:
            if isinstance(error, UnknownNameError | NameTakenError):
                error.detail = error.hint = ""
            error.message = _plain(error.message, who)
            error.detail, error.hint = _plain(error.detail, who), _plain(error.hint, who)
        raise


def require_allowed(path: str, allowed: Sequence[Path]) -> None:
    """Refuse a path, or a pattern, outside of the directories that the operator allows."""
    fixed = path.split("*", 1)[0].split("?", 1)[0].split("[", 1)[0]
    base = Path(fixed if fixed.endswith("/") or fixed == path else str(Path(fixed).parent))
    real = base.resolve()
    if not any(real == each or each in real.parents for each in map(Path.resolve, allowed)):
        raise ForbiddenError(
            f'path "{path}" is not allowed',
            detail=f"Allowed are {', '.join(map(str, allowed)) or 'none'}.",
            hint="The server is started with --allow-path DIR for each directory to be named.",
        )


def _plain(text: str, who: Principal) -> str:
    return text.replace(f'"{who.tenant}/', '"') if who.tenant else text
