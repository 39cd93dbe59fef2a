"""Which type an aggregate has; one that lacks something or has too much is refused."""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

from millrace.errors import PlanError
from millrace.plan.declared import Declared
from millrace.plan.relations import Aggregate, AggregateKind
from millrace.plan.types import BIGINT, DOUBLE, NUMBERS, Kind, kind_of, scale_of, shown
from millrace.plan.typing import require_boolean
from millrace.schema import Schema

BY_ORDER = ("first", "last")
"""The aggregates of the row where another value is the least or the greatest."""
PAIRED = ("covar_pop", "covar_samp", "corr")
"""The aggregates of two numbers of each row."""
ADDED = ("count", "sum", "avg", "var_pop", "var_samp", "stddev_pop", "stddev_samp", *PAIRED)
"""The aggregates that can be added up, and taken away again."""
LISTS = ("array_agg", "string_agg")
"""The aggregates that may have an order."""
_WHOLE: frozenset[Kind] = frozenset({"integer"})
_TEXTS: frozenset[Kind] = frozenset({"text"})
_TAKES: dict[str, tuple[frozenset[Kind], str]] = {
    **dict.fromkeys((*ADDED[1:], "percentile_cont"), (NUMBERS, "numbers")),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), (_WHOLE, "whole numbers")),
    "string_agg": (_TEXTS, "texts"),
}


def aggregate_type(aggregate: Aggregate, schema: Schema, declared: Declared) -> pa.DataType:
    """Return the type of an aggregate over rows of these columns."""
    _check_parts(aggregate)
    if aggregate.where is not None:
        require_boolean(aggregate.where, declared.type_of(aggregate.where, schema))
    if aggregate.by is not None:
        declared.type_of(aggregate.by, schema)
    if aggregate.operand is None:
        return BIGINT
    given = declared.type_of(aggregate.operand, schema)
    _require_kind(aggregate, given)
    if aggregate.kind in PAIRED and aggregate.by is not None:
        _require_kind(aggregate, declared.type_of(aggregate.by, schema))
    return result_type(aggregate.kind, given)


def result_type(kind: AggregateKind, given: pa.DataType) -> pa.DataType:
    """Return the type of an aggregate of values of a type."""
    match kind:
        case "count":
            return BIGINT
        case "array_agg":
            return pa.list_(given)
        case "sum":
            return _sum_type(given)
        case (
            "avg" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp" | "percentile_cont"
            | "covar_pop" | "covar_samp" | "corr"
        ):  # fmt: skip
            return DOUBLE
        case (
            "min" | "max" | "first" | "last" | "percentile_disc" | "mode" | "only"
            | "bit_and" | "bit_or" | "bit_xor" | "string_agg"
        ):  # fmt: skip
            return given
        case _:
            assert_never(kind)


def taken(kind: AggregateKind, given: pa.DataType) -> str:
    """Say what an aggregate takes if values of a type are something else, otherwise nothing."""
    kinds, what = _TAKES.get(kind, (frozenset(), ""))
    return what if kinds and kind_of(given) not in kinds else ""


def _check_parts(aggregate: Aggregate) -> None:
    kind = aggregate.kind
    if aggregate.operand is None and (kind != "count" or aggregate.distinct):
        raise PlanError(f"{kind} has no operand", hint="Only count(*) has none.")
    if (aggregate.by is not None) != (kind in (*BY_ORDER, *PAIRED)) and kind not in LISTS:
        raise PlanError(
            f"{kind} {'is of no order' if aggregate.by is None else 'has an order'}",
            hint="first, last and those of two values have one, and lists may; no other has.",
        )
    if (aggregate.separator is not None) != (kind == "string_agg"):
        raise PlanError(
            f"{kind} {'has no' if aggregate.separator is None else 'has a'} separator",
            hint="string_agg has one, and no other aggregate has.",
        )
    if (aggregate.fraction is not None) != kind.startswith("percentile"):
        raise PlanError(
            f"{kind} {'is at no fraction' if aggregate.fraction is None else 'is at a fraction'}",
            hint="A percentile is at a fraction, and no other aggregate is.",
        )
    by_order = kind in LISTS and aggregate.by is not None
    if (aggregate.descending and kind != "percentile_disc" and not by_order) or (
        aggregate.nulls_first and not by_order
    ):
        raise PlanError(
            f"{kind} is not descending",
            hint="Only percentile_disc, and lists that have an order, depend on the direction.",
        )
    if aggregate.fraction is not None and not 0 <= aggregate.fraction <= 1:
        raise PlanError(
            f"{kind} is at the fraction {aggregate.fraction}", hint="Choose one from 0 to 1."
        )


def _require_kind(aggregate: Aggregate, given: pa.DataType) -> None:
    wanted = taken(aggregate.kind, given)
    if wanted:
        raise PlanError(
            f"{aggregate.kind} of {shown(given)}",
            hint=f"{aggregate.kind} takes {wanted}.",
            node=aggregate.operand,
        )


def _sum_type(given: pa.DataType) -> pa.DataType:
    match kind_of(given):
        case "integer":
            return BIGINT
        case "decimal":
            return pa.decimal128(38, scale_of(given))
        case _:
            return DOUBLE
