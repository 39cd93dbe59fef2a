"""DuckDB judges the definition of CQL at every instant.

What a plan of relations means at an instant is plain SQL over what its windows show then. So the
windows are written to tables of DuckDB, the plan is printed as SQL, and the bags must be equal.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, assert_never

import duckdb
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from millrace.plan.aggregate_types import LISTS, PAIRED
from millrace.plan.expressions import Literal
from millrace.plan.nodes import Output
from millrace.plan.relation_types import relation_schema
from millrace.plan.relations import (
    Aggregate,
    Asked,
    Combined,
    Distinct,
    Filter,
    Group,
    Hop,
    Join,
    Order,
    Project,
    Relation,
    Table,
    Top,
    Windowed,
)
from millrace.plan.spelling import to_text
from millrace.testing.oracle.aggregates import same
from millrace.testing.oracle.relations import Definition
from millrace.testing.relation_strategies import DECLARED, LAST, Worlds, plans, worlds

NAMES = {"percentile_cont": "quantile_cont", "percentile_disc": "quantile_disc"}


def leaves(node: Relation) -> Iterator[Windowed | Table]:
    match node:
        case Windowed() | Table():
            yield node
        case Join() | Combined():
            yield from leaves(node.left)
            yield from leaves(node.right)
        case Asked():
            yield from leaves(node.input)
            yield from leaves(node.subquery)
        case Filter() | Project() | Group() | Distinct() | Top() | Hop():
            yield from leaves(node.input)
        case _:
            assert_never(node)


def names(node: Relation) -> list[str]:
    """Return the names of columns; the types of a subquery's would need what is around it."""
    match node:
        case Windowed() | Table():
            return list(relation_schema(node, DECLARED).names)
        case Join():
            return names(node.left) + names(node.right)
        case Combined():
            return names(node.left)
        case Project():
            return [each.name for each in node.outputs]
        case Group():
            return [*(each.name for each in node.keys), *(each.name for each in node.aggregates)]
        case Asked():
            return [*names(node.input), node.name]
        case Filter() | Distinct() | Top() | Hop():
            return names(node.input)
        case _:
            assert_never(node)


def sql(node: Relation) -> str:  # noqa: C901  a case for each node
    """Print a plan as DuckDB's SQL over tables that are called like the aliases of its leaves."""
    match node:
        case Windowed(_, _, alias) | Table(_, alias):
            return f'SELECT * FROM "{alias}"'
        case Filter(given, condition):
            return f"SELECT * FROM ({sql(given)}) WHERE {to_text(condition)}"
        case Project(given, outputs):
            return f"SELECT {_items(outputs)} FROM ({sql(given)})"
        case Join(kind, left, right, condition):
            on = "true" if condition is None else to_text(condition)
            return f"SELECT * FROM ({sql(left)}) {kind.upper()} JOIN ({sql(right)}) ON {on}"
        case Group():
            return _group(node)
        case Distinct(given):
            return f"SELECT DISTINCT * FROM ({sql(given)})"
        case Combined(kind, left, right, keep_all):
            return f"({sql(left)}) {kind.upper()} {'ALL' if keep_all else ''} ({sql(right)})"
        case Asked(given, name):
            return f'SELECT *, {_answer(node)} AS "{name}" FROM ({sql(given)})'
        case Hop(given):
            return sql(given)
        case Top():
            return _top(node)
        case _:
            assert_never(node)


def _items(outputs: tuple[Output, ...]) -> str:
    return ", ".join(f'{to_text(each.value)} AS "{each.name}"' for each in outputs)


def _group(node: Group) -> str:
    """Print a group over computed columns: SQL takes sum(x) to where x is from, if only that."""
    parts = [(each.name, each.value) for each in node.keys]
    for each in node.aggregates:
        found = {"of": each.operand, "by": each.by, "where": each.where}
        parts += [(f"{each.name}.{what}", value) for what, value in found.items() if value]
    computed = ", ".join(f'{to_text(value)} AS "{name}"' for name, value in parts)
    keys = [f'"{each.name}"' for each in node.keys]
    items = [*keys, *(f'{_call(each)} AS "{each.name}"' for each in node.aggregates)]
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(items)} FROM (SELECT {computed or 1} FROM ({sql(node.input)})){by}"


def _call(each: Aggregate) -> str:
    operand = "*" if each.operand is None else f'"{each.name}.of"'
    if each.kind == "percentile_cont":  # DuckDB's is a decimal of decimals
        operand = f"{operand}::DOUBLE"
    conditions = [] if each.where is None else [f'"{each.name}.where"']
    if each.kind in PAIRED:
        return _pairs(each, conditions)
    if each.kind in LISTS:
        return _list(each, operand, conditions)
    if each.kind == "percentile_disc" and each.descending:
        return _from_the_greatest(each, operand, conditions)
    order = f" ORDER BY {operand}" if each.kind == "mode" else ""  # of several the first that comes
    if each.by is not None:  # of ties the least or the greatest
        way, by = "ASC" if each.kind == "first" else "DESC", f'"{each.name}.by"'
        conditions += [f"{operand} IS NOT NULL", f"{by} IS NOT NULL"]
        order = f" ORDER BY {by} {way}, {operand} {way}"
    fraction = "" if each.fraction is None else f", {each.fraction}"
    distinct = "DISTINCT " if each.distinct and each.by is None else ""
    where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    name = "array_agg" if each.by is not None else NAMES.get(each.kind, each.kind)
    call = f"{name}({distinct}{operand}{fraction}{order}){where}"
    if each.kind in ("var_pop", "stddev_pop"):  # DuckDB's is 0 of one value, also of infinity
        finite = f"bool_and(isfinite({operand}::DOUBLE)){where}"
        return f"CASE WHEN NOT {finite} THEN 'nan'::DOUBLE ELSE {call} END"
    return call if each.by is None else f"({call})[1]"


def _pairs(each: Aggregate, conditions: list[str]) -> str:
    one, other = (f'"{each.name}.{what}"::DOUBLE' for what in ("of", "by"))
    where = " AND ".join([*conditions, f"{one} IS NOT NULL", f"{other} IS NOT NULL"])
    where = f" FILTER (WHERE {where})"
    finite = f"bool_and(isfinite({one}) AND isfinite({other})){where}"
    call = f"{each.kind}({one}, {other}){where}"
    if each.kind == "corr":  # DuckDB's is NaN where one of them never changes
        same = f"min({one}){where} = max({one}){where} OR min({other}){where} = max({other}){where}"
        call = f"CASE WHEN {same} THEN NULL ELSE {call} END"
    enough = f"count(*){where} > {int(each.kind == 'covar_samp')}"
    return f"CASE WHEN NOT {enough} THEN NULL WHEN NOT {finite} THEN 'nan'::DOUBLE ELSE {call} END"


def _from_the_greatest(each: Aggregate, operand: str, conditions: list[str]) -> str:
    distinct = "DISTINCT " if each.distinct else ""
    where = f" FILTER (WHERE {' AND '.join([*conditions, f'{operand} IS NOT NULL'])})"
    values = f"list({distinct}{operand} ORDER BY {operand} DESC){where}"
    place = f"ceil({each.fraction} * count({distinct}{operand}){where})"
    return f"({values})[greatest({place}, 1)::INTEGER]"


def _list(each: Aggregate, operand: str, conditions: list[str]) -> str:
    conditions += [f"{operand} IS NOT NULL"] if each.kind == "string_agg" else []
    order = f"{operand} ASC NULLS FIRST"
    if each.by is not None:
        by = operand if each.distinct else f'"{each.name}.by"'
        way, nulls = "DESC" if each.descending else "ASC", "FIRST" if each.nulls_first else "LAST"
        order = f"{by} {way} NULLS {nulls}" + ("" if each.distinct else f", {order}")
    where = f" FILTER (WHERE {' AND '.join(conditions)})" if conditions else ""
    separator = "" if each.separator is None else f", '{each.separator}'"
    distinct = "DISTINCT " if each.distinct else ""
    return f"{each.kind}({distinct}{operand}{separator} ORDER BY {order}){where}"


def _answer(node: Asked) -> str:
    answers = sql(node.subquery)
    match node.kind:
        case "exists":
            return f"EXISTS ({answers})"
        case "scalar":
            return f"({answers})"
        case "in":
            return _contains(node, answers)
        case _:
            assert_never(node.kind)


def _contains(node: Asked, answers: str) -> str:
    """Print IN; of several columns by what it means, which DuckDB does not do if correlated."""
    operands = [to_text(each) for each in node.operands]
    if len(operands) == 1:
        return f"({operands[0]} {node.operator} ANY ({answers}))"
    pairs = zip(operands, names(node.subquery), strict=True)
    equal = " AND ".join(f'{operand} = "{name}"' for operand, name in pairs)
    return (
        f"CASE WHEN EXISTS (SELECT * FROM ({answers}) WHERE {equal}) THEN true "
        f"WHEN EXISTS (SELECT * FROM ({answers}) WHERE ({equal}) IS NULL) THEN NULL "
        "ELSE false END"
    )


def _top(node: Top) -> str:
    columns = [f'"{name}"' for name in names(node.input)]
    given = [each for each in node.order if not isinstance(each.value, Literal)]  # 1 is a column
    order = [*map(_ordered, given), *(f"{name} ASC NULLS FIRST" for name in columns)]
    return (
        f"SELECT * FROM ({sql(node.input)}) ORDER BY {', '.join(order)} "
        f"LIMIT {node.limit} OFFSET {node.offset}"
    )


def _ordered(order: Order) -> str:
    way = "DESC" if order.descending else "ASC"
    return f"{to_text(order.value)} {way} NULLS {'FIRST' if order.nulls_first else 'LAST'}"


# ---- judgement -----------------------------------------------------------------------------------


def written(arrow: pa.DataType) -> str:
    if pa.types.is_list(arrow):
        return f"{written(arrow.value_type)}[]"
    if pa.types.is_integer(arrow):
        return "BIGINT"
    if pa.types.is_decimal(arrow):
        return f"DECIMAL({arrow.precision}, {arrow.scale})"
    if pa.types.is_timestamp(arrow):
        return "TIMESTAMP"
    return {"double": "DOUBLE", "string": "VARCHAR", "bool": "BOOLEAN"}[str(arrow)]


def judged(plan: Relation, definition: Definition, at: int) -> list[tuple[Any, ...]]:
    """Ask DuckDB about a plan over what the leaves of it hold at an instant."""
    with duckdb.connect() as database:
        for leaf in leaves(plan):
            schema = relation_schema(leaf, DECLARED)
            columns = ", ".join(f'"{each.name}" {written(each.type)}' for each in schema)
            database.execute(f'CREATE TABLE "{leaf.alias}" ({columns})')
            rows = [list(row.values()) for row in definition.relation(leaf, at)]
            if rows:
                marks = ", ".join("?" for _ in schema)
                database.executemany(f'INSERT INTO "{leaf.alias}" VALUES ({marks})', rows)
        return database.execute(sql(plan)).fetchall()


def alike(value: Any) -> Any:
    """Return what is equal for values that are the same up to the ninth digit."""
    if isinstance(value, float) and math.isfinite(value):
        value = round(value, 9)
    if isinstance(value, datetime):  # DuckDB's have no zone
        return value.replace(tzinfo=UTC)
    return tuple(map(alike, value)) if isinstance(value, list) else same(value)


def counted(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(map(alike, row)) for row in rows)


FEWER = settings(max_examples=max(settings.default.max_examples // 2, 1))  # type: ignore[union-attr]
INSTANTS = st.sampled_from([*range(6, LAST + 5), *range(6)])  # early there is little to see


def agree(plan: Relation, world: Worlds, at: int) -> None:
    definition = Definition(DECLARED, *world)

    found = [tuple(row.values()) for row in definition.relation(plan, at)]

    assert counted(found) == counted(judged(plan, definition, at))


@FEWER
@given(plans(), worlds(), INSTANTS)
def test_duckdb_agrees_at_every_instant(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)


@FEWER
@given(plans(1, root="group"), worlds(), INSTANTS)
def test_duckdb_agrees_about_aggregates(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)


@FEWER
@given(plans(2, root="asked"), worlds(), INSTANTS)
def test_duckdb_agrees_about_subqueries(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)


@FEWER
@given(plans(1, root="top"), worlds(), INSTANTS)
def test_duckdb_agrees_about_order(plan: Relation, world: Worlds, at: int) -> None:
    agree(plan, world, at)
