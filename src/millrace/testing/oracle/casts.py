"""What a cast means for one value, in plain Python."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as tests

from millrace.plan.types import kind_of
from millrace.testing.oracle.values import UnfitError, read_value

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Typed:
    """A value and its type."""

    type: pa.DataType
    value: Any


def cast_value(given: Typed, target: pa.DataType) -> object:
    """Return a value as another type, None where it cannot be."""
    value, source, wanted = given.value, kind_of(given.type), kind_of(target)
    if value is None or given.type == target:
        return value
    if source == "text":
        return _read(value, target)
    if wanted == "text":
        return _written(value, given.type)
    if wanted == "boolean":
        return value != 0
    if wanted == "date":
        return value.date()
    if wanted == "timestamp":
        return datetime.combine(value, time(), UTC)
    return _number(value, target)


def _number(value: Any, target: pa.DataType) -> object:  # noqa: ANN401
    kind = kind_of(target)
    if kind == "floating":
        return _single(float(value)) if tests.is_float32(target) else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if kind == "decimal":
        return _decimal(value, target)
    whole = round(value) if isinstance(value, float) else int(_half_up(Decimal(value), 0))
    limit = 2 ** (target.bit_width - 1)
    return whole if -limit <= whole < limit else None


def _single(value: float) -> float | None:
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    return None if math.isinf(single) and not math.isinf(value) else single


def _half_up(value: Decimal, scale: int) -> Decimal:
    with localcontext(prec=500):
        return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)


def _decimal(value: Any, target: pa.DataType) -> Decimal | None:  # noqa: ANN401
    """Round to the scale; a double after it was multiplied as one, while that is exact."""
    scale = target.scale
    if isinstance(value, float) and abs(product := value * float(10**scale)) < 2.0**53:
        rounded = Decimal(f"{_half_up(Decimal(product), 0):f}E-{scale}")
    else:
        rounded = _half_up(Decimal(value), scale)
    with localcontext(prec=500):
        return rounded if abs(rounded.scaleb(scale)) < 10**target.precision else None


def _written(value: Any, source: pa.DataType) -> str | None:  # noqa: ANN401
    kind = kind_of(source)
    if kind == "floating":
        return float_text(value, source)
    if kind == "decimal":
        return f"{value:.{source.scale}f}"
    if kind == "boolean":
        return "true" if value else "false"
    if kind == "binary":
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            return None
    if kind == "timestamp":
        return f"{value.replace(tzinfo=None).isoformat(' ', 'microseconds')}Z"
    return str(value)


def float_text(value: float, source: pa.DataType) -> str:
    """Write the fewest digits that are read back as the same number."""
    if not math.isfinite(value):
        return str(value)
    shortest = str(np.float32(value)) if tests.is_float32(source) else repr(value)
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, point = "".join(map(str, digits)), len(digits) + exponent
    minus = "-" if sign else ""
    if text == "0":
        return f"{minus}0"
    if -6 <= point - 1 < 10:
        return minus + f"{Decimal((0, digits, exponent)):f}"
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{minus}{mantissa}e{point - 1:+d}"


def _read(text: str, target: pa.DataType) -> object:
    if tests.is_binary(target):
        return text.encode()
    if tests.is_decimal(target):
        return _read_decimal(text.strip(" \t"), target)
    try:
        temporal = tests.is_temporal(target)
        value = read_value("text", text, target, loose=not temporal)
    except UnfitError:
        return None
    if tests.is_date(target):
        return date(1970, 1, 1) + timedelta(days=int(str(value)))
    if tests.is_timestamp(target):
        return _EPOCH + timedelta(microseconds=int(str(value)))
    return value


def _read_decimal(text: str, target: pa.DataType) -> Decimal | None:
    try:
        read_value("number", text, pa.float64(), loose=False)
        value = Decimal(text)
    except (UnfitError, InvalidOperation):
        return None
    return _decimal(value, target) if value.is_finite() else None
