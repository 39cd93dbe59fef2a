"""Doing INSERT, UPDATE and DELETE: rows of a table, or of a template, whose rows are queries.

An INSERT adds the rows that are not there yet, also those that a question finds: a script may be
run again. A statement changes all its rows or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from millrace.errors import PlanError
from millrace.lang.binder import bind_condition
from millrace.lang.declarations import (
    DeleteRows,
    InsertFile,
    InsertFound,
    InsertRows,
    Statement,
    UpdateRows,
)
from millrace.lang.queries import Parsed
from millrace.lang.words import Value
from millrace.operators.select import matching
from millrace.plan.nodes import Selection
from millrace.schema import type_name
from millrace.session.assigning import computed_values, require_kinds
from millrace.session.following import read_rows
from millrace.session.parameter_rows import constants_table, require_known
from millrace.session.table import Table
from millrace.session.template import QUERY, Template

if TYPE_CHECKING:
    from millrace.session.script import Script
    from millrace.session.session import Session

Change: TypeAlias = InsertRows | InsertFile | InsertFound | UpdateRows | DeleteRows


def change_rows(script: Script, asked: Change) -> str:
    """Do a statement that changes rows, and say how many."""
    if asked.template in script.session.engine.registry.catalog.tables:
        return _change_table(script, asked)
    return _change_template(script, asked)


def given_columns(session: Session, statement: Statement) -> tuple[str, ...]:
    """Return the parameters, or columns, for which an INSERT gives values."""
    if not isinstance(statement, InsertRows | InsertFound):
        return ()
    table = session.engine.registry.catalog.tables.get(statement.template)
    if table is not None:
        return statement.columns or tuple(table.schema.names)
    feed = session.engine.registry.catalog.feeds.get(statement.template)
    return statement.columns or tuple(name for name, _ in (feed.parameters if feed else ()))


def _change_table(script: Script, asked: Change) -> str:
    table = script.session.standing_table(asked.template)
    match asked:
        case InsertRows() | InsertFound():
            return _added(table, _rows(script, asked, table.kinds, "column"))
        case InsertFile(_, path):
            return _added(table, read_rows(path))
        case UpdateRows():
            return f"{_update_table(script, table, asked):,} rows changed"
        case DeleteRows(_, where):
            found = script.rows_for(asked)
            n_rows = table.delete(where) if found is None else table.delete(found)
            return f"{n_rows:,} rows deleted"


def _update_table(script: Script, table: Table, asked: UpdateRows) -> int:
    computed = _computed(asked.values, table.kinds, "column")
    names, row = _constants(asked.values)
    given = constants_table(names, [row], table.kinds.items(), what="column")
    found = script.rows_for(asked)
    if found is None:
        return table.update_rows(given, asked.where, computed)
    rows, others = _parted(found, list(computed), table.kinds)
    return table.exchange(rows, given, others)


def _change_template(script: Script, asked: Change) -> str:
    template = script.template(asked.template)
    kinds = dict(template.feed.parameters)
    match asked:
        case InsertRows() | InsertFound():
            return _inserted(template, _rows(script, asked, kinds, "parameter"))
        case InsertFile(_, path):
            return _inserted(template, read_rows(path))
        case UpdateRows():
            return f"{_update_template(script, template, asked):,} queries changed"
        case DeleteRows(_, where):
            found = script.rows_for(asked)
            if found is None:
                found = _where(script.session, template, where)
            template.delete(found.column(QUERY).combine_chunks())
            return f"{found.num_rows:,} queries deleted"


def _update_template(script: Script, template: Template, asked: UpdateRows) -> int:
    session, kinds = script.session, dict(template.feed.parameters)
    computed = _computed(asked.values, kinds, "parameter")
    names, row = _constants(asked.values)
    found = script.rows_for(asked)
    with session.updating:
        if found is None:
            rows = _where(session, template, asked.where)
            others = computed_values(session, rows, computed, kinds, template.name)
        else:
            rows, others = _parted(found, list(computed), kinds)
        given = constants_table(names, [row] * rows.num_rows, kinds.items())
        both = {name: each.column(name) for each in (given, others) for name in each.column_names}
        if rows.num_rows:
            template.update(pa.table({**both, QUERY: rows.column(QUERY)}))
    return int(rows.num_rows)


def _parted(
    found: pa.Table, names: Sequence[str], kinds: Mapping[str, str]
) -> tuple[pa.Table, pa.Table]:
    """Part rows from the values that stand behind them, for columns of these names."""
    n_whole = found.num_columns - len(names)
    others = found.select(range(n_whole, found.num_columns)).rename_columns(list(names))
    require_kinds(names, others.schema.types, kinds)
    return found.select(range(n_whole)), others


def _computed(
    values: Sequence[tuple[str, Value | Parsed]], kinds: Mapping[str, str], what: str
) -> dict[str, Parsed]:
    """Return what is given by expressions."""
    found = {name: value for name, value in values if isinstance(value, Parsed)}
    for name in found:
        require_known(name, kinds, what)
    return found


def _constants(
    values: Sequence[tuple[str, Value | Parsed]],
) -> tuple[tuple[str, ...], tuple[Value, ...]]:
    """Return what is given by constants: the names, and one row of values."""
    found = [(name, value) for name, value in values if not isinstance(value, Parsed)]
    return tuple(name for name, _ in found), tuple(value for _, value in found)


def _rows(
    script: Script, asked: InsertRows | InsertFound, kinds: Mapping[str, str], what: str
) -> pa.Table:
    """Return the rows that an INSERT gives."""
    names = given_columns(script.session, asked)
    if isinstance(asked, InsertRows):
        _require_width(asked, names, len(asked.rows[0]), what)
        return constants_table(names, asked.rows, kinds.items(), what=what)
    for name in names:
        require_known(name, kinds, what)
    found = script.rows_for(asked)
    assert found is not None, "it asks a question"
    _require_width(asked, names, found.num_columns, what)
    require_kinds(names, found.schema.types, kinds)
    return pa.Table.from_arrays(found.columns, names=list(names))


def _where(session: Session, template: Template, where: Parsed) -> pa.Table:
    """Return the rows of a template for which a condition is true; sets are in none."""
    rows = template.rows()
    columns = {
        each.name: type_name(each.type) for each in rows.schema if not pa.types.is_list(each.type)
    }
    condition = bind_condition(where, columns, session.function_types, of=template.name)
    batches = rows.combine_chunks().to_batches()
    hits = [matching(Selection("", (), condition), each, session.functions) for each in batches]
    return pa.Table.from_batches(
        [each.take(at) for each, at in zip(batches, hits, strict=True)], rows.schema
    )


def _inserted(template: Template, rows: pa.Table) -> str:
    n_new = len(template.insert_missing(rows))
    there = rows.num_rows - n_new
    return f"{n_new:,} queries inserted" + (f", {there:,} were there already" if there else "")


def _added(table: Table, rows: pa.Table) -> str:
    n_new = table.insert_missing(rows)
    there = rows.num_rows - n_new
    return f"{n_new:,} rows inserted" + (f", {there:,} were there already" if there else "")


def _require_width(
    asked: InsertRows | InsertFound, names: Sequence[str], width: int, what: str
) -> None:
    if len(names) == width:
        return
    kind = "template" if what == "parameter" else "table"
    sets = "A set is written in brackets of its own: (('ACME', 'BOLT'), 5)."
    raise PlanError(
        f'a row has {width} values and {kind} "{asked.template}" {len(names)} {what}s',
        detail=f"The {what}s are {', '.join(names)}.",
        hint=sets if what == "parameter" and isinstance(asked, InsertRows) else "",
        node=("value", 0, 0),
    )
