"""Which type an aggregate has; one that lacks something or has too much is refused."""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

from millrace.errors import PlanError
from millrace.plan.declared import Declared
from millrace.plan.relations import Aggregate
from millrace.plan.types import BIGINT, DOUBLE, NUMBERS, kind_of, scale_of, shown
from millrace.plan.typing import require_boolean
from millrace.schema import Schema


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
    match aggregate.kind:
        case "count":
            return BIGINT
        case "min" | "max" | "first" | "last" | "percentile_disc" | "only":
            return given
        case "array_agg":
            return pa.list_(given)
        case "sum":
            _require_numbers(aggregate, given)
            return _sum_type(given)
        case (
            "avg" | "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp" | "percentile_cont"
        ):  # fmt: skip
            _require_numbers(aggregate, given)
            return DOUBLE
        case _:
            assert_never(aggregate.kind)


def _check_parts(aggregate: Aggregate) -> None:
    kind = aggregate.kind
    if aggregate.operand is None and (kind != "count" or aggregate.distinct):
        raise PlanError(f"{kind} has no operand", hint="Only count(*) has none.")
    if (aggregate.by is not None) != (kind in ("first", "last")):
        raise PlanError(
            f"{kind} {'is of no order' if aggregate.by is None else 'has an order'}",
            hint="first and last are by an order, and no other aggregate is.",
        )
    if (aggregate.fraction is not None) != kind.startswith("percentile"):
        raise PlanError(
            f"{kind} {'is at no fraction' if aggregate.fraction is None else 'is at a fraction'}",
            hint="A percentile is at a fraction, and no other aggregate is.",
        )
    if aggregate.descending and kind != "percentile_disc":
        raise PlanError(
            f"{kind} is not descending", hint="Only percentile_disc depends on the direction."
        )
    if aggregate.fraction is not None and not 0 <= aggregate.fraction <= 1:
        raise PlanError(
            f"{kind} is at the fraction {aggregate.fraction}", hint="Choose one from 0 to 1."
        )


def _require_numbers(aggregate: Aggregate, given: pa.DataType) -> None:
    if kind_of(given) not in NUMBERS:
        raise PlanError(
            f"{aggregate.kind} of {shown(given)}",
            hint=f"{aggregate.kind} takes numbers.",
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
