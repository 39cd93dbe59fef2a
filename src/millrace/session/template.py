"""A handle on a query template: its rows are standing queries.

    alert = session.template(
        "alert", "SELECT * FROM trades WHERE symbol = :sym AND price > :low",
        sym="text", low="double")
    ids = alert.insert(table)        # a million rows are a million queries
    alert.delete(ids.slice(0, 10))

A call changes all its rows or none; a row that does not fit is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millrace.engine.feeds import Family, FeedSpec
from millrace.engine.given_rows import Rows, table_of
from millrace.errors import PlanError, SchemaError
from millrace.plan.bind import nearest
from millrace.plan.levels import lengths_in
from millrace.plan.nodes import Selection
from millrace.reading.window import Instant
from millrace.schema import MISFITS
from millrace.session.arguments import ids_of
from millrace.session.following import Following, difference
from millrace.session.keeping import set_policy
from millrace.session.query import Query, read_answers

if TYPE_CHECKING:
    from millrace.session.session import Session

QUERY = "_query"


class ValueAt(NamedTuple):
    """Which value was refused: the row, counted from 0, and the parameter."""

    row: int
    parameter: str


class Template:
    """A template, by its name."""

    def __init__(self, session: Session, name: str, selection: Selection) -> None:
        self._session, self.name, self._selection = session, name, selection

    @property
    def feed(self) -> FeedSpec:
        """What was declared, and where answers go."""
        return self._session.engine.registry.catalog.feed(self.name)

    @property
    def family(self) -> Family:
        """The one plan of all its queries."""
        types = tuple(kind for _, kind in self.feed.parameters)
        return Family(self.name, self._selection, types, self.feed.number)

    def __len__(self) -> int:
        return len(self.ids())

    def ids(self) -> list[int]:
        """Return the ids of all its queries, ascending."""
        found: list[int] = self._session.engine.registry.ids_of(self.family).tolist()
        return found

    def insert(self, rows: Rows) -> pa.Array:
        """Register a query for each row of parameters; return their ids."""
        return self.exchange([], self.fit(rows))

    def insert_missing(self, rows: Rows) -> pa.Array:
        """Register a query for each row that none has yet; return the ids of the new ones."""
        wanted = self.fit(rows)
        present = self.rows()
        if present.num_rows:
            wanted = wanted.take(difference(present, wanted)[0])
        return self.exchange([], wanted)

    def exchange(self, gone: Sequence[int], constants: pa.RecordBatch) -> pa.Array:
        """Remove queries and register others, all or none; return the ids of the new ones.

        Parameters
        ----------
        gone
            The ids of those to remove.
        constants
            The parameters of those to register, as `fit` gives them.
        """
        changes: list[dict[str, Any]] = []
        tables: list[pa.RecordBatch] = []
        if gone:
            changes.append({"do": "drop queries", "rows": 0})
            tables.append(pa.record_batch({"qid": pa.array(gone, pa.uint64())}))
        if constants.num_rows:
            family, at = self.family.to_json(), len(tables)
            added = {"family": family, "n_rows": constants.num_rows, "rows": at}
            changes.append({"do": "add queries", **added})
            tables.append(constants)
        first = self._session.record(changes, tables) if changes else []
        start = first[0] if first else 0
        return pa.array(np.arange(start, start + constants.num_rows, dtype=np.uint64))

    def fit(self, rows: Rows) -> pa.RecordBatch:
        """Bring rows of parameters into the declared types, or name the one that does not fit."""
        return self._constants(table_of(rows, "rows of parameters"), dict(self.feed.parameters))

    def update(self, rows: Rows) -> None:
        """Give queries, named by the column `_query`, other parameters; they keep their ids.

        Columns that are not given keep their values.
        """
        given = table_of(rows, "rows of parameters")
        if QUERY not in given.column_names:
            raise SchemaError(
                f'column "{QUERY}" is missing',
                hint="It says which queries to change, by their ids.",
            )
        with self._session.updating:  # between reading the other columns and writing them back
            self._update(given)

    def _update(self, given: pa.Table) -> None:
        ids = pa.array(ids_of(given.column(QUERY)), pa.uint64())
        before = self._rows_of(ids)
        some = {name: kind for name, kind in self.feed.parameters if name in given.column_names}
        changed = self._constants(given.drop_columns([QUERY]), some)
        columns = [
            changed.column(f"p{list(some).index(name)}") if name in some else before.column(name)
            for name, _ in self.feed.parameters
        ]
        names = [f"p{at}" for at in range(len(columns))]
        table = pa.RecordBatch.from_arrays(
            [ids, *map(_one, columns)],
            names=["qid", *names],
        )
        change = {"do": "change queries", "family": self.family.to_json(), "rows": 0}
        self._session.record([change], [table])

    def delete(self, ids: Iterable[int] | pa.Array) -> None:
        """Remove queries by their ids."""
        listed = ids_of(ids)
        self._require_own(listed)
        self._session.drop_queries(listed)

    def follow(
        self, source: str | Callable[[], Rows], *, every: str | int = "10 seconds"
    ) -> Following:
        """Keep the queries equal to the rows of a table that changes.

        Parameters
        ----------
        source
            A Parquet or CSV file (or a pattern of such), or a function that returns the rows.
        every
            How often to look. A row that is new becomes a query, one that has gone is dropped,
            and the others stay as they are; a change is taken over whole or not at all.
        """
        following = Following(self, source, every)
        self._session.followers.append(following)
        return following

    def rows(self) -> pa.Table:
        """Return the parameters of all its queries, with their ids."""
        ids, constants = self._session.engine.registry.rows_of(self.family)
        columns = {QUERY: pa.array(ids.astype(np.int64))}
        for at, (name, _) in enumerate(self.feed.parameters):
            columns[name] = constants.column(f"p{at}")
        return pa.table(columns)

    def query(self, qid: int) -> Query:
        """Return a handle on one of its queries."""
        self._require_own(ids_of([qid]))
        return Query(self._session, qid, self.name)

    def results(
        self,
        last: int | None = None,
        *,
        begin: Instant | None = None,
        end: Instant | None = None,
    ) -> pa.Table:
        """Return the answers of all its queries that are kept, as `Query.results` does of one."""
        return read_answers(self._session, self.feed, None, last, begin, end)

    def set_policy(self, policy: str) -> None:
        """Keep answers that are retained in another way, as `Query.set_policy` does for one."""
        set_policy(self._session, self.feed, policy)

    def drop(self) -> None:
        """Remove the template and all its queries."""
        self._session.change({"do": "drop feed", "name": self.name})

    def _require_own(self, ids: list[int]) -> None:
        strange = [each for each in ids if each < 1]
        if not strange:
            asked = np.array(ids, np.uint64)
            strange = self._session.engine.registry.strangers(self.family, asked).tolist()
        if strange:
            raise SchemaError(f'template "{self.name}" has no query {strange[0]}')

    def _rows_of(self, ids: pa.Array) -> pa.Table:
        """Return the parameters of some queries, in the order asked; refuse strangers."""
        table = self.rows()
        at = pc.index_in(ids.cast(pa.int64()), value_set=table.column(QUERY).combine_chunks())
        if at.null_count:
            lost = ids.filter(pc.is_null(at))[0]
            raise SchemaError(f'template "{self.name}" has no query {lost}')
        return table.take(at)

    def _constants(self, given: pa.Table, parameters: dict[str, str]) -> pa.RecordBatch:
        """Bring rows into the declared types, or name what does not fit."""
        known = dict(self.feed.parameters)
        for name in given.column_names:
            if name not in known:
                raise SchemaError(
                    f'parameter "{name}" does not exist in template "{self.name}"',
                    detail=f"The parameters are {', '.join(known) or 'none'}.",
                    hint=nearest(name, list(known)),
                )
        columns = []
        for at, (name, kind) in enumerate(parameters.items()):
            if name not in given.column_names:
                raise SchemaError(
                    f'parameter "{name}" of template "{self.name}" is missing',
                    detail=f"The rows have the columns {', '.join(given.column_names)}.",
                )
            columns.append(fitted(_one(given.column(name)), name, kind, self.name))
            assert columns[at].null_count == 0, "NULL is refused"
            require_lengths(columns[at], name, self.feed)
        names = [f"p{at}" for at in range(len(columns))]
        return pa.RecordBatch.from_arrays(columns, names=names)


def fitted(values: pa.Array, name: str, kind: str, template: str) -> pa.Array:
    """Cast one parameter's values, or say which row does not fit and why."""
    target = Family("", Selection("", ()), (kind,)).schema.field(0).type
    if values.null_count:
        row = pc.index(pc.is_null(values), value=True).as_py()
        raise PlanError(
            f'parameter "{name}" of row {row + 1} is NULL',
            detail=f'Template "{template}" compares it, and nothing compares with NULL.',
            hint="Leave the row out.",
            node=ValueAt(row, name),
        )
    try:
        found = values if values.type == target else cast_values(values, target)
    except MISFITS as cause:
        row, value = first_misfit(values, target)
        raise PlanError(
            f'parameter "{name}" of row {row + 1} is not {kind}',
            detail=f"It is {value!r}.",
            hint="No row of this call was taken.",
            node=ValueAt(row, name),
        ) from cause
    if pa.types.is_list(target) and found.flatten().null_count:
        at = pc.index(pc.is_null(found.flatten()), value=True).as_py()
        row = found.value_parent_indices()[at].as_py()
        raise PlanError(
            f'parameter "{name}" of row {row + 1} has a NULL in its set',
            detail=f'Template "{template}" compares it, and nothing compares with NULL.',
            hint="Leave it out of the set.",
            node=ValueAt(row, name),
        )
    return found


def require_lengths(values: pa.Array, name: str, feed: FeedSpec) -> None:
    """Refuse values of a parameter that no window can have for its size or its slide."""
    place = f"p{[each for each, _ in feed.parameters].index(name)}"
    for stream in () if feed.plan is None else feed.plan.told:
        for length in lengths_in(stream):
            if length.name != place:
                continue
            least, greatest = length.least, length.greatest
            strange = pc.or_(pc.less(values, least), pc.greater(values, greatest))
            row = pc.index(strange, value=True).as_py()
            if row >= 0:
                raise PlanError(
                    f'parameter "{name}" of row {row + 1} is {values[row]}',
                    detail=f"It is the {length.what} of a window.",
                    hint=f"Take a number from {least} to {greatest}.",
                    node=ValueAt(row, name),
                )


def cast_values(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast values; a text is no number, also if it looks like one, and neither is TRUE."""
    if len(values) and _strange(values.type, target):
        message = f"{values.type} is not {target}"
        raise pa.ArrowInvalid(message)
    return values.cast(target)


def _strange(source: pa.DataType, target: pa.DataType) -> bool:
    if pa.types.is_dictionary(source):
        return _strange(source.value_type, target)
    if pa.types.is_list(target) or pa.types.is_large_list(target):
        return hasattr(source, "value_type") and _strange(source.value_type, target.value_type)
    truths = pa.types.is_boolean(source), pa.types.is_boolean(target)
    return truths[0] != truths[1] if any(truths) else _is_text(source) and _is_number(target)


def _is_number(kind: pa.DataType) -> bool:
    tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    return any(test(kind) for test in tests)


def _is_text(kind: pa.DataType) -> bool:
    tests = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(test(kind) for test in tests)


def first_misfit(values: pa.Array, target: pa.DataType) -> tuple[int, Any]:
    """Find the first value that cannot be cast, by halving."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast_values(values.slice(low, middle - low), target)
        except MISFITS:
            high = middle
        else:
            low = middle
    return low, values[low].as_py()


def _one(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    whole = column.combine_chunks()
    return whole if isinstance(whole, pa.Array) else whole.chunk(0)
