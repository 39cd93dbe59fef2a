"""Membership: `x IN (...)` with constants, with other expressions, or with a set for each row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as tests

from millrace.operators.cast import cast
from millrace.operators.compare import as_type, compare
from millrace.operators.vectors import Datum, as_array, masked, null, vector
from millrace.plan.types import INSTANTS, common_type, kind_of, scale_of
from millrace.schema import TIMESTAMP


def among(operand: Datum, options: Sequence[Datum]) -> Datum:
    """Return whether the operand equals an option: unknown if not, and an option is NULL."""
    constants = [each for each in options if isinstance(each, pa.Scalar)]
    truth: Datum = pa.scalar(value=False)
    if not _of_one_type([operand.type, *(each.type for each in constants)]):
        constants = []
    if constants:
        truth = among_constants(operand, _gathered(operand, constants))
    for each in options:
        if not constants or not isinstance(each, pa.Scalar):
            truth = pc.or_kleene(truth, compare("=", operand, each))
    return truth


def _of_one_type(types: Sequence[pa.DataType]) -> bool:
    """Say whether a type holds the values of all these; of decimals, none has 39 digits."""
    if any(map(tests.is_floating, types)) or not any(map(tests.is_decimal, types)):
        return True
    exact = [each for each in types if not tests.is_null(each)]
    whole = [each.precision - each.scale if tests.is_decimal(each) else 19 for each in exact]
    return max(whole) + max(map(scale_of, exact)) <= 38


def _gathered(operand: Datum, constants: Sequence[pa.Scalar]) -> pa.Array:
    """Return constants as one array of the type that holds them all."""
    target = common_type([operand.type, *(each.type for each in constants)])
    assert target is not None, "the binder lets only options through that mix"
    found = [each.as_py() if each.type == target else as_type(each, target).as_py()
             for each in constants]  # fmt: skip
    return pa.array(found, target)


def among_constants(operand: Datum, options: pa.Array) -> Datum:
    """Return whether the operand is one of the values of an array, by a hash table."""
    if not len(options):
        return pa.scalar(value=False)
    if not _of_one_type([operand.type, options.type]):
        return among(operand, list(options))
    operand, options = _aligned(operand, options)
    if tests.is_null(options.type) or options.null_count == len(options):
        return null(pa.bool_())
    if isinstance(operand, pa.Scalar):
        return among_constants(pa.array([operand.as_py()], operand.type), options)[0]
    if tests.is_floating(options.type) and pc.any(pc.equal(options, 0.0)).as_py():
        zeros = pa.array([0.0, -0.0], options.type)  # the hash table tells them apart
        options = pa.concat_arrays([options, zeros])
    found = pc.is_in(operand, value_set=options, skip_nulls=True)
    if tests.is_floating(options.type) and pc.any(pc.is_nan(options)).as_py():
        found = pc.or_(found, pc.fill_null(pc.is_nan(operand), fill_value=False))  # whatever bits
    if operand.null_count:
        found = masked(found, operand.is_null())
    return pc.or_kleene(found, null(pa.bool_())) if options.null_count else found


def _aligned(operand: Datum, options: Datum) -> tuple[Datum, Datum]:
    kinds = {kind_of(operand.type), kind_of(options.type)}
    if "text" in kinds and kinds & INSTANTS:  # the values of a parameter
        operand, options = (
            cast(each, TIMESTAMP) if tests.is_string(each.type) else each
            for each in (operand, options)
        )
    target = common_type([operand.type, options.type])
    assert target is not None, "the binder lets only options through that mix"
    return as_type(operand, target), as_type(options, target)


def among_sets(operand: Datum, sets: pa.Array) -> pa.Array:
    """Return whether each row's operand is in that row's list; an absent list is unknown.

    The lists are laid end to end, each value beside its row's operand:

        operand   7        7 7 7 | 8 8        equal   . # . | . .
        lists     [3, 7, 9], [1, 2]           row     #       .

    Cost: one comparison for each value of each list.
    """
    # Not list_parent_indices: an absent list may still have values, which flatten leaves out.
    sizes = vector(pc.list_value_length(sets)).values
    rows = np.repeat(np.arange(len(sets)), sizes)
    operands = as_array(operand, len(sets)).take(pa.array(rows))
    equal = vector(compare("=", operands, sets.flatten()))
    found = np.zeros(len(sets), np.bool_)
    found[rows[equal.values if equal.valid is None else equal.values & equal.valid]] = True
    known = sets.is_valid().to_numpy(zero_copy_only=False)
    if equal.valid is not None:
        known = known.copy()
        known[rows[~equal.valid]] = False
    return pa.array(found, mask=~(known | found))
