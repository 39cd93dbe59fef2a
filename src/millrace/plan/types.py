"""Types of expressions: which kinds there are, and which type holds the values of several.

Numbers widen as `integer < decimal < floating`. There is no way from text to numbers but a cast.
The rules are used twice, by the binder and by what runs, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Literal as OneOf
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as tests

from millrace.errors import PlanError
from millrace.plan.expressions import Operation, Scalar
from millrace.schema import TIMESTAMP, type_name

Kind: TypeAlias = OneOf[
    "null", "boolean", "integer", "decimal", "floating", "text", "binary", "date", "timestamp"
]
NUMBERS: frozenset[Kind] = frozenset({"integer", "decimal", "floating"})
INSTANTS: frozenset[Kind] = frozenset({"date", "timestamp"})
BIGINT, DOUBLE, TEXT, BOOLEAN = pa.int64(), pa.float64(), pa.string(), pa.bool_()
DATE = pa.date32()

_TESTS: tuple[tuple[Callable[[pa.DataType], bool], Kind], ...] = (
    (tests.is_null, "null"),
    (tests.is_boolean, "boolean"),
    (tests.is_integer, "integer"),
    (tests.is_decimal, "decimal"),
    (tests.is_floating, "floating"),
    (tests.is_string, "text"),
    (tests.is_binary, "binary"),
    (tests.is_date, "date"),
    (tests.is_timestamp, "timestamp"),
)
_KINDS: dict[pa.DataType, Kind] = {}
_DIGITS = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


def kind_of(arrow: pa.DataType) -> Kind:
    """Return the class of values to which a type belongs."""
    kind = _KINDS.get(arrow)
    if kind is None:
        kind = _KINDS[arrow] = next(kind for test, kind in _TESTS if test(arrow))
    return kind


def shown(arrow: pa.DataType) -> str:
    """Name a type in a message."""
    return "NULL" if tests.is_null(arrow) else type_name(arrow)


def common_type(types: Iterable[pa.DataType]) -> pa.DataType | None:
    """Return the type that holds values of all of these, or None if they do not mix.

    A decimal has no more than 38 digits: beside decimal(38, 0), decimal(38, 30) makes
    decimal(38, 30), and what does not fit into it is NULL.
    """
    distinct = {each for each in types if each != pa.null()}
    if len(distinct) <= 1:
        return next(iter(distinct), pa.null())
    found = {kind_of(each) for each in distinct}
    if found <= INSTANTS:
        return TIMESTAMP
    if not found <= NUMBERS:
        return None
    if "floating" in found:
        return DOUBLE
    if "decimal" in found:
        scale = max(scale_of(each) for each in distinct)
        whole = max(_precision(each) - scale_of(each) for each in distinct)
        return pa.decimal128(min(38, whole + scale), scale)
    return max(distinct, key=_precision)


def scale_of(arrow: pa.DataType) -> int:
    """Return how many digits an exact number has behind the point."""
    return int(arrow.scale) if tests.is_decimal(arrow) else 0


def _precision(arrow: pa.DataType) -> int:
    return int(arrow.precision) if tests.is_decimal(arrow) else _DIGITS[arrow]


def widened(arrow: pa.DataType) -> pa.DataType:
    """Return the type in which numbers of a type are computed; NULL counts as an integer."""
    kind = kind_of(arrow)
    if kind == "decimal":
        return pa.decimal128(38, arrow.scale)
    return DOUBLE if kind == "floating" else BIGINT


def arithmetic_type(
    operator: Operation, left: pa.DataType, right: pa.DataType
) -> pa.DataType | None:
    """Return the type of `left operator right`, or None if there is no such operation.

    Integers make a bigint. Beside a decimal they make a decimal of 38 digits that is exact, or
    NULL if it has more; only a quotient is a double then, as it is hardly ever exact. The
    difference of two instants is a bigint, of microseconds.
    """
    if operator == "||":
        return TEXT if {kind_of(left), kind_of(right)} <= {"text", "null"} else None
    found = {kind_of(left), kind_of(right)}
    if operator == "-" and found <= INSTANTS:
        return BIGINT
    if not found <= NUMBERS | {"null"}:
        return None
    if "floating" in found or (operator == "/" and "decimal" in found):
        return DOUBLE
    if "decimal" not in found:
        return BIGINT
    scales = [scale_of(widened(each)) for each in (left, right)]
    return _decimal(sum(scales) if operator == "*" else max(scales))


def _decimal(scale: int) -> pa.DataType:
    if scale > 38:
        raise PlanError(
            f"a product with {scale} digits behind the point is too long",
            detail="A decimal has 38 digits at most.",
            hint="Cast a factor to a decimal of smaller scale, or to double.",
        )
    return pa.decimal128(38, scale)


def literal_type(value: Scalar) -> pa.DataType:
    """Return the type of a constant."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise PlanError(f"timestamp {value} has no time zone", hint="Use datetime.UTC.")
        return TIMESTAMP
    if isinstance(value, Decimal):
        return _decimal_type(value)
    if isinstance(value, str):
        return _text_type(value)
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        raise PlanError(f"{value} is out of the range of bigint", hint="Write it with a point.")
    return next(arrow for python, arrow in _LITERALS if isinstance(value, python))


_LITERALS = (
    (type(None), pa.null()),
    (bool, BOOLEAN),
    (int, BIGINT),
    (float, DOUBLE),
    (bytes, pa.binary()),
    (date, pa.date32()),
)


def _decimal_type(value: Decimal) -> pa.DataType:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise PlanError(f"{value} is not a decimal", hint="Use the double of that name.")
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > 38:
        raise PlanError(f"{value} has more than the 38 digits of a decimal", hint="Round it.")
    return pa.decimal128(precision, scale)


def _text_type(value: str) -> pa.DataType:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PlanError(f"text {value!r} holds half of a surrogate pair") from None
    return TEXT
