"""Declarations of tables and views: checked, recorded, and given again without effect."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from millrace.engine.given_rows import Rows, table_of
from millrace.engine.tables import TableSpec
from millrace.engine.views import ViewSpec
from millrace.errors import NameTakenError, SchemaError
from millrace.schema import Schema
from millrace.session.planning import bound_relation
from millrace.session.table import Table, as_rows, require_columns
from millrace.session.table_rows import fitted_rows, require_key

if TYPE_CHECKING:
    from millrace.lang.queries import Parsed
    from millrace.session.session import Session


def declare_table(
    session: Session,
    name: str,
    columns: str | Schema | Rows,
    key: tuple[str, ...],
    rows: Rows | None = None,
) -> Table:
    """Declare a table, with the rows that it begins with; nothing is done if it exists so."""
    if not isinstance(columns, str | Schema):
        given = rows = table_of(columns, "rows of a table")
        columns = Schema.from_arrow(given.schema)
    spec = TableSpec(name, Schema.of(columns) if isinstance(columns, str) else columns, key)
    known = session.engine.registry.catalog.tables.get(name)
    if known is not None:
        require_columns(known, spec)
        return Table(session, name)
    changes: list[dict[str, Any]] = [{"do": "add table", "table": spec.to_json()}]
    tables = []
    if rows is not None:
        given = fitted_rows(spec, table_of(rows, "rows of a table"))
        require_key(spec, given)
        if given.num_rows:
            tables.append(as_rows(spec, given))
            changes.append({"do": "change table", "name": name, "rows": 0})
    session.record(changes, tables)
    return Table(session, name)


def declare_view(
    session: Session, name: str, query: str | Parsed, columns: tuple[str, ...] = ()
) -> None:
    """Declare a view; its query is bound to find out whether it can be, and what it reads."""
    text = query if isinstance(query, str) else str(query)
    spec = ViewSpec(name, text, columns)
    known = session.engine.registry.catalog.views.get(name)
    if known is not None:
        if replace(known, reads=()) != spec:
            raise NameTakenError(
                f'view "{name}" exists already and is another query',
                hint="Drop it first, or choose another name.",
            )
        return
    bound = bound_relation(query, session, queries=False)  # which may be dropped
    if columns and len(columns) != len(bound.schema.names):
        raise SchemaError(
            f'view "{name}" names {len(columns)} columns and its query has '
            f"{len(bound.schema.names)}"
        )
    if len({each.casefold() for each in columns}) < len(columns):
        raise SchemaError(f'view "{name}" names a column twice')
    reads = replace(spec, reads=_names_in(session, query))
    session.change({"do": "add view", "view": reads.to_json()})


def _names_in(session: Session, query: str | Parsed) -> tuple[str, ...]:
    """Return the streams, tables and views that a query names, by the way they are written."""
    from sqlglot import exp  # noqa: PLC0415  slow to import

    from millrace.lang.queries import query_of  # noqa: PLC0415

    catalog = session.engine.registry.catalog
    tree = (query_of(query) if isinstance(query, str) else query).tree
    written = {each.name.casefold() for each in tree.find_all(exp.Table)}
    known = (*catalog.streams, *catalog.tables, *catalog.views)
    return tuple(each for each in known if each.casefold() in written)
