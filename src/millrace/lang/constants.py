"""Constants: what a literal of the text is worth as a value of a type.

One function converts one literal, and the bulk path (`columns.py`) uses the same rules for
many, so that a text means the same whether it is bound alone or as one of a family.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal, InvalidOperation
from typing import cast

from millrace.plan.expressions import Scalar
from millrace.plan.instants import read_date, read_timestamp

NATURAL = {
    int: "bigint",
    Decimal: "double",
    float: "double",
    str: "text",
    bytes: "binary",
    date: "date",
    datetime: "timestamp",
}
"""The type of a constant that nothing stands beside; a fraction is then a double."""


class NotOfTypeError(Exception):
    """A literal is not a value of the type; the argument says why, as a clause."""


def to_bigint(value: Scalar) -> int:
    """Return a number as a bigint."""
    number = _number(value)
    if number != number.to_integral_value():
        raise NotOfTypeError("is not a whole number")
    if not -(2**63) <= number < 2**63:
        raise NotOfTypeError("is out of the range of bigint")
    return int(number)


def to_double(value: Scalar) -> float:
    """Return a number as a double."""
    try:
        number = float(str(value) if isinstance(value, Decimal) else cast(float, value))
    except (ValueError, OverflowError):
        number = math.inf
    if math.isinf(number) or math.isnan(number):
        raise NotOfTypeError("is out of the range of double")
    return number


_WIDE = Context(prec=76)


def to_decimal(scale: int) -> Callable[[Scalar], Decimal]:
    """Return what makes a number a decimal of 38 digits, `scale` of them behind the point."""
    unit = Decimal(1).scaleb(-scale)

    def convert(value: Scalar) -> Decimal:
        number = _number(value)
        if scale_of(number) > scale or number.adjusted() >= 38 - scale:
            raise NotOfTypeError(f"does not fit into decimal(38,{scale})")
        return number.quantize(unit, context=_WIDE)

    return convert


def to_timestamp(value: Scalar) -> datetime:
    """Return a text, or a timestamp, as a timestamp in UTC."""
    if isinstance(value, datetime):
        return value
    moment = read_timestamp(str(value))
    if moment is None:
        raise NotOfTypeError("is not a timestamp")
    return moment


def to_date(value: Scalar) -> date:
    """Return a text, or a date, as a date."""
    if isinstance(value, date):
        return value
    day = read_date(str(value))
    if day is None:
        raise NotOfTypeError("is not a date")
    return day


def to_bytes(value: Scalar) -> bytes:
    """Return the digits of X'...' as bytes."""
    if isinstance(value, bytes):
        return value
    try:
        return bytes.fromhex(str(value))
    except ValueError:
        raise NotOfTypeError("is not a whole number of bytes, two digits each") from None


def to_text(value: Scalar) -> str:
    """Return a text as it is."""
    return str(value)


def converter(kind: str) -> Callable[[Scalar], Scalar]:
    """Return what makes a literal a value of the type of that name."""
    if kind.startswith("decimal("):
        return to_decimal(int(kind.removesuffix(")").split(",")[1]))
    return _CONVERTERS[kind]


def hint_for(kind: str) -> str:
    """Return how a value of a type is written."""
    return _HINTS.get(kind, "")


def scale_of(number: Decimal) -> int:
    """Return how many digits a number has behind its point."""
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def number_of(text: str) -> int | Decimal | float:
    """Return the number that a literal spells: 1 is an int, 1.5 a decimal, 15e-1 a double."""
    if text.isdigit():
        return int(Decimal(text)) if len(text) > 4000 else int(text)
    if "e" in text or "E" in text:
        try:
            return float(text)
        except ValueError:
            raise NotOfTypeError("is not a number") from None
    return _number(text)


def negative(number: int | Decimal | float) -> int | Decimal | float:
    """Return a number with the other sign, all its digits kept."""
    return number.copy_negate() if isinstance(number, Decimal) else -number


def _number(value: Scalar) -> Decimal:
    try:
        return Decimal(str(value))
    except (InvalidOperation, ValueError, TypeError):
        raise NotOfTypeError("is not a number") from None


_CONVERTERS: dict[str, Callable[[Scalar], Scalar]] = {
    "bigint": to_bigint,
    "double": to_double,
    "text": to_text,
    "binary": to_bytes,
    "date": to_date,
    "timestamp": to_timestamp,
}
_HINTS = {
    "bigint": "Write it with a point to make it a double.",
    "date": "Write it as in '2024-05-01'.",
    "timestamp": "Write it as in '2024-05-01T12:00:00Z'.",
    "binary": "Write it as in X'00FF'.",
}
