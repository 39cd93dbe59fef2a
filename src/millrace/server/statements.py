"""Statements on behalf of somebody: what they may say, and which names they mean.

A script of a tenant is done on the session that all share. Each statement is first checked against
the role and the list of allowed paths, then its names are brought into the tenant's namespace, and
what comes back is told in the names that the tenant knows.
"""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from millrace.errors import MillraceError, NameTakenError, UnknownNameError
from millrace.lang.declarations import (
    Alter,
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
    InsertFound,
    InsertRows,
    Pause,
    Read,
    Register,
    Show,
    Statement,
    Subscribe,
    UpdateRows,
)
from millrace.lang.errors import LanguageError, Span
from millrace.lang.row_changes import question_of
from millrace.lang.statements import parse
from millrace.server.principals import ForbiddenError, Principal
from millrace.session.script import Outcome, Script
from millrace.session.session import Session

QUESTIONS = (Explain, Show)
"""What only asks, and may take long; what is read, or tried on history, is so in gateways."""
_CHANGES = (InsertRows, InsertFile, InsertFound, UpdateRows, DeleteRows)
_DECLARATIONS = (CreateStream, CreateSink, CreateTable, CreateView, Register)
_OWN = ("query", "template")


class OwnScript(Script):
    """Does statements for one principal.

    Parameters
    ----------
    paths
        The directories that statements may name files in.
    rows
        What a gateway has found for a statement that needs a question answered.
    """

    def __init__(
        self,
        session: Session,
        who: Principal,
        paths: Sequence[Path] = (),
        rows: pa.Table | None = None,
    ) -> None:
        super().__init__(session)
        self._who, self._paths, self._rows = who, paths, rows

    def outcome(self, statement: Statement) -> Outcome:
        """Do one statement, if they may."""
        self.check(statement)
        try:
            stored = self._qualified(statement)
        except UnknownNameError as error:
            if isinstance(statement, Drop) and statement.if_exists:
                return Outcome(statement, error.message)
            raise
        with told_as_theirs(self._who):
            done = super().outcome(stored)
        table, message = done.table, _plain(done.message, self._who)
        if isinstance(statement, Show) and table is not None:
            table = self._seen(statement.what, table)
        if isinstance(stored, Subscribe) and isinstance(statement, Subscribe):
            message = message.replace(stored.name, statement.name)
        return Outcome(statement, message, table)

    def rows_for(self, statement: Statement) -> pa.Table | None:
        """Return what a gateway has found for a statement that asks a question."""
        assert question_of(statement) is None or self._rows is not None, "gateways read"
        return self._rows

    def sees(self, feed: str) -> bool:
        """Say whether a feed is theirs."""
        return self._who.sees(feed)

    def check(self, statement: Statement) -> None:
        """Refuse what the role does not allow, and files outside of the allowed directories."""
        if isinstance(statement, Show) and statement.what == "sinks":
            self._who.require_operator("SHOW SINKS")
        assert not isinstance(statement, Read | DryRun), "gateways read by themselves"
        if not isinstance(statement, Show | Explain):
            self._who.require("writer")
        ours = isinstance(statement, Drop | Alter) and statement.kind not in _OWN
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
            case Drop(kind, name, _) | Alter(kind, name, _) if kind in _OWN:
                return replace(statement, name=who.found(name, kind))
            case Pause(name, _) | Subscribe(name, _):
                return replace(statement, name=who.found(name))
            case Explain(query, analyze) if isinstance(query, str):
                return Explain(who.found(query), analyze, written=statement.written)
            case InsertRows() | InsertFound() | UpdateRows() | DeleteRows():
                if self._of_table(statement.template):
                    return statement
                return replace(statement, template=who.found(statement.template, "template"))
            case _:
                return statement

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


def one_explained(text: str) -> Explain:
    """Return the only statement of a text, which is an EXPLAIN; nothing is done if it is not."""
    statements = parse(text)
    if len(statements) > 1:
        second = statements[1].written
        raise LanguageError(
            "one query is explained at a time",
            source=text,
            span=Span(second.first, second.first + len(second.text)),
            detail=f"There are {len(statements)} statements; none of them was done.",
            hint="Send statements to /v1/sql.",
        )
    if not isinstance(statements[0], Explain):
        raise LanguageError(
            "a query was expected here",
            source=text,
            span=Span(0, len(text)),
            hint="Send other statements to /v1/sql.",
        )
    return statements[0]


def changes_something(statement: Statement) -> bool:
    """Say whether a statement is one for the audit log, and not only asks."""
    return not isinstance(statement, (*QUESTIONS, Subscribe))


def require_allowed(path: str, allowed: Sequence[Path]) -> None:
    """Refuse a path, or a pattern, outside of the directories that the operator allows.

    What is found there now may not lead outside either, by a link or by "..".
    """
    fixed = path.split("*", 1)[0].split("?", 1)[0].split("[", 1)[0]
    base = Path(fixed if fixed.endswith("/") or fixed == path else str(Path(fixed).parent))
    inside = [each.resolve() for each in allowed]
    good = ".." not in Path(path).parts and _is_inside(base, inside)
    if not good or not all(_is_inside(each, inside) for each in _named(path)):
        raise ForbiddenError(
            f'path "{path}" is not allowed',
            detail=f"Allowed are {', '.join(map(str, allowed)) or 'none'}, without .. and links "
            "that lead elsewhere.",
            hint="The server is started with --allow-path DIR for each directory to be named.",
        )


def _is_inside(path: Path, allowed: Sequence[Path]) -> bool:
    real = path.resolve()
    return any(real == each or each in real.parents for each in allowed)


def _named(path: str) -> Iterator[Path]:
    """Yield what a pattern names; of a directory, the links that are in it."""
    for each in glob.iglob(path, recursive=True):  # noqa: PTH207  a pattern may be absolute
        yield Path(each)
        within = glob.iglob(f"{glob.escape(each)}/*")  # noqa: PTH207  of a file, none
        yield from (inner for inner in map(Path, within) if inner.is_symlink())


def _plain(text: str, who: Principal) -> str:
    return text.replace(f'"{who.tenant}/', '"') if who.tenant else text
