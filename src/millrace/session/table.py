"""A handle on a table: rows that change, and that queries join with streams.

    limits = session.table("limits", "symbol text, most double", key="symbol")
    limits.insert({"symbol": ["ACME", "BOLT"], "most": [100.0, 12.5]})
    limits.update({"most": 120.0}, "symbol = 'ACME'")
    limits.delete("most < 20")

A call changes all its rows or none, and what it did is durable when it returns. A plan that reads
the table sees the change from the first instant on about which it has not told anything yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import pyarrow as pa

from millrace.engine.contents import repeated
from millrace.engine.given_rows import Rows, table_of
from millrace.engine.tables import COPIES, TableSpec, consolidated
from millrace.errors import PlanError, SchemaError
from millrace.operators.relational.equal import numbered
from millrace.operators.select import matching
from millrace.plan.expressions import Expression
from millrace.plan.nodes import Selection
from millrace.plan.term import Term
from millrace.schema import type_name
from millrace.session.assigning import Computed, computed_values
from millrace.session.table_rows import fitted_rows, require_column, require_key

if TYPE_CHECKING:
    from millrace.lang.queries import Parsed
    from millrace.session.session import Session

Where: TypeAlias = "str | Term | Parsed"


class Table:
    """A table, by its name."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self.name = session, name

    @property
    def spec(self) -> TableSpec:
        """What was declared."""
        return self._session.engine.registry.catalog.table(self.name)

    @property
    def kinds(self) -> dict[str, str]:
        """The names of the columns' types."""
        return {each.name: type_name(each.type) for each in self.spec.schema}

    def __len__(self) -> int:
        return int(np.sum(self._rows()[1].column(COPIES).to_numpy()))

    def rows(self) -> pa.Table:
        """Return the rows as they are now."""
        return repeated(self._rows()[1])

    def insert(self, rows: Rows) -> int:
        """Add rows; return how many. A row whose key is there already is refused."""
        given = self.fit(rows)
        with self._session.updating:
            version, present = self._rows() if self.spec.key else (None, None)
            if present is not None:
                both = pa.concat_tables([present.drop_columns([COPIES]), given])
                require_key(self.spec, both)
            self._record([(given, 1)], version)
        return int(given.num_rows)

    def insert_missing(self, rows: Rows) -> int:
        """Add the rows that are not there just so; return how many. A row given twice is twice."""
        given = self.fit(rows)
        with self._session.updating:
            version, present = self._rows()
            wanted = consolidated(_copies(given, 1))
            missing = _minus(wanted, present)
            added = repeated(missing)
            require_key(self.spec, pa.concat_tables([repeated(present), added]))
            self._record([(added, 1)], version)
        return int(added.num_rows)

    def delete(self, where: Where | Rows) -> int:
        """Remove the rows for which a condition is true, or those given; return how many.

        Rows are given whole, and each takes away one that is equal, or by their keys alone. One
        that is not there is refused.
        """
        with self._session.updating:
            version, present = self._rows()
            if _is_condition(where):
                gone = repeated(self._matching(present, where))
            else:
                gone = self._given(present, table_of(where, "rows of a table"))
            self._record([(gone, -1)], version)
        return int(gone.num_rows)

    def update(self, values: Mapping[str, Any], where: Where) -> int:
        """Give columns other values in the rows for which a condition is true; return how many.

        A value is a constant, or a term over the row as it was: `{"n": millrace.col("n") + 1}`.
        """
        if not values:
            raise PlanError("no column is given another value")
        computed = {name: value for name, value in values.items() if isinstance(value, Term)}
        fixed = {name: [value] for name, value in values.items() if name not in computed}
        return self.update_rows(table_of(fixed, "values"), where, computed)

    def update_rows(self, values: pa.Table, where: Where, computed: Computed | None = None) -> int:
        """Give columns the values of one row, or of expressions, where a condition is true."""
        one = self._some(values)
        for name in computed or ():
            require_column(self.spec, name)
        with self._session.updating:
            version, present = self._rows()
            gone = repeated(self._matching(present, where))
            others = computed_values(self._session, gone, computed or {}, self.kinds, self.name)
            self._exchange(version, present, gone, _with_values(gone, one, self._some(others)))
        return int(gone.num_rows)

    def exchange(self, gone: pa.Table, values: pa.Table, others: pa.Table) -> int:
        """Give rows, which are given whole, the values of one row, and others for each of them."""
        rows = self.fit(gone)
        with self._session.updating:
            version, present = self._rows()
            self._given(present, rows)
            come = _with_values(rows, self._some(values), self._some(others))
            self._exchange(version, present, rows, come)
        return int(rows.num_rows)

    def _some(self, given: pa.Table) -> pa.Table:
        return fitted_rows(self.spec, given, some=True)

    def _exchange(self, version: int, present: pa.Table, gone: pa.Table, come: pa.Table) -> None:
        left = repeated(consolidated(pa.concat_tables([present, _copies(gone, -1)])))
        require_key(self.spec, pa.concat_tables([left, come]))
        self._record([(gone, -1), (come, 1)], version)

    def drop(self) -> None:
        """Forget the table and its rows; no query may read it any more."""
        self._session.change({"do": "drop table", "name": self.name})

    def fit(self, rows: Rows) -> pa.Table:
        """Bring rows into the declared types, or name what does not fit."""
        return fitted_rows(self.spec, table_of(rows, "rows of a table"))

    def _rows(self) -> tuple[int, pa.Table]:
        return self._session.engine.registry.table_rows(self.name)

    def _record(self, parts: list[tuple[pa.Table, int]], version: int | None) -> None:
        tables = [_copies(rows, sign) for rows, sign in parts if rows.num_rows]
        if not tables:
            return
        changes = consolidated(pa.concat_tables(tables)).combine_chunks()
        if changes.num_rows:
            change = {"do": "change table", "name": self.name, "rows": 0, "version": version}
            self._session.record([change], [as_change(self.spec, changes)])

    def _matching(self, present: pa.Table, where: Where) -> pa.Table:
        condition = self._condition(where)
        found = [
            batch.take(matching(Selection("", (), condition), batch, self._session.functions))
            for batch in present.combine_chunks().to_batches()
        ]
        return pa.Table.from_batches(found, present.schema)

    def _given(self, present: pa.Table, rows: pa.Table) -> pa.Table:
        """Return the rows that are meant by whole rows, or by keys."""
        spec = self.spec
        if spec.key and set(rows.column_names) == set(spec.key):
            wanted = fitted_rows(spec, rows, some=True).select(list(spec.key))
            there = present.select(list(spec.key))
        else:
            wanted = fitted_rows(spec, rows)
            there = present.drop_columns([COPIES])
        counted = consolidated(_copies(wanted, 1))
        left = _minus(counted, there.append_column(COPIES, present.column(COPIES)))
        missing = repeated(left)
        if missing.num_rows:
            raise PlanError(
                f'table "{self.name}" has no such row',
                detail=f"It is {missing.slice(0, 1).to_pylist()[0]}.",
                hint="No row of this call was taken away.",
            )
        if wanted.num_columns == present.num_columns - 1:
            return repeated(counted)
        return present.drop_columns([COPIES]).take(places_of(there, wanted))

    def _condition(self, where: Where) -> Expression:
        from millrace.lang.binder import bind_condition  # noqa: PLC0415  slow to import
        from millrace.lang.queries import condition_of  # noqa: PLC0415
        from millrace.plan.bind import bind_condition as bind_built  # noqa: PLC0415

        types = self._session.function_types
        if isinstance(where, Term):
            return bind_built(where.node, self.spec.schema, types)
        condition = condition_of(where) if isinstance(where, str) else where
        return bind_condition(condition, self.kinds, types, of=self.name)


def _is_condition(where: Where | Rows) -> TypeGuard[Where]:
    """Say whether rows are meant by a condition, in a text, built, or parsed."""
    return isinstance(where, str | Term) or hasattr(where, "tree")


def _with_values(rows: pa.Table, one: pa.Table, others: pa.Table) -> pa.Table:
    """Give columns the values of one row, and others those of as many rows as there are."""
    at = pa.array(np.zeros(rows.num_rows, np.int64))
    given = {name: one.column(name).take(at) for name in one.column_names}
    given |= {name: others.column(name) for name in others.column_names}
    columns = [given.get(name, rows.column(name)) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def as_change(spec: TableSpec, changes: pa.Table) -> pa.RecordBatch:
    """Return rows with their copies as the registry records them."""
    [batch] = changes.combine_chunks().to_batches()
    return pa.RecordBatch.from_arrays(batch.columns, schema=spec.changes)


def as_rows(spec: TableSpec, rows: pa.Table) -> pa.RecordBatch:
    """Return rows that come, as the registry records them."""
    return as_change(spec, _copies(rows, 1))


def _copies(rows: pa.Table, copies: int) -> pa.Table:
    return rows.append_column(COPIES, pa.array(np.full(rows.num_rows, copies, np.int64)))


def _minus(wanted: pa.Table, present: pa.Table) -> pa.Table:
    """Return how many copies of each wanted row are not there."""
    both = pa.concat_tables([wanted, present]).combine_chunks().to_batches()
    if not both:
        return wanted
    numbers, firsts = numbered(both[0].drop_columns([COPIES]))
    copies = both[0].column(COPIES).to_numpy()
    n_wanted = wanted.num_rows
    there = np.bincount(numbers[n_wanted:], copies[n_wanted:], len(firsts)).astype(np.int64)
    left = np.maximum(copies[:n_wanted] - there[numbers[:n_wanted]], 0)
    at = wanted.column_names.index(COPIES)
    return wanted.set_column(at, COPIES, pa.array(left))


def places_of(rows: pa.Table, wanted: pa.Table) -> pa.Array:
    """Return where each of some different rows is that are wanted."""
    [both] = pa.concat_tables([rows, wanted]).combine_chunks().to_batches()
    numbers, _ = numbered(both)
    at = np.flatnonzero(np.isin(numbers[: rows.num_rows], numbers[rows.num_rows :]))
    return pa.array(at)


def require_columns(spec: TableSpec, other: TableSpec) -> None:
    """Refuse to declare a table again with other columns, or another key."""
    if (spec.schema, spec.key) != (other.schema, other.key):
        raise SchemaError(
            f'table "{spec.name}" is declared otherwise in the root',
            detail=f"It is ({spec.schema}) with the key ({', '.join(spec.key)}) there.",
            hint="Declare it as it was, or drop the table first.",
        )
