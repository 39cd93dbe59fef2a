"""What each function of ours means for one row, in plain Python."""

from __future__ import annotations

import hashlib
import math
import re
from calendar import IllegalMonthError, day_name, month_name, monthrange
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from millrace.plan.types import kind_of
from millrace.testing.oracle.casts import Typed, cast_value
from millrace.testing.oracle.operations import compared, computed

Function: TypeAlias = Callable[..., Any]
_EPOCH, _MICRO = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_MONDAY = datetime(2000, 1, 3, tzinfo=UTC)
"""Where buckets of time begin."""
_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SIZES = {
    "week": timedelta(weeks=1), "day": timedelta(days=1), "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1), "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1), "microsecond": timedelta(microseconds=1),
}  # fmt: skip


def _strict(function: Function) -> Function:
    """Take plain values and return None if one of them is NULL."""

    def apply(_: pa.DataType, *given: Typed) -> object:
        values = [each.value for each in given]
        return None if None in values else function(*values)

    return apply


def _double(function: Function) -> Function:
    """Take doubles; outside of where the function is defined there is NULL."""

    def apply(*values: Any) -> float | None:  # noqa: ANN401
        doubles = [float(each) for each in values]
        if len(doubles) == 1 and math.isnan(doubles[0]):
            return math.nan
        try:
            return float(function(*doubles))
        except ValueError:
            return None
        except OverflowError:
            return math.inf

    return _strict(apply)


def _power(base: float, exponent: float) -> float:
    if base == 0 and exponent < 0:
        raise ValueError
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


def _log(one: float, other: float | None = None) -> float:
    if other is None:
        return math.log10(one)
    base = math.log10(one)
    if base == 0:
        raise ValueError
    return math.log10(other) / base


def _cbrt(number: float) -> float:
    return float(np.cbrt(number))


def _shift_left(number: int, places: int) -> int | None:
    if places < 0 or (number and places > 63):
        return None
    moved = number << places if number else 0
    return moved if -(2**63) <= moved < 2**63 else None


def _shift_right(number: int, places: int) -> int | None:
    return None if places < 0 else number >> min(places, 64)


def _rounding(mode: str) -> Function:
    """Return a function that rounds numbers in the way that a mode of `decimal` names."""

    def apply(arrow: pa.DataType, number: Typed, places: Typed | None = None) -> object:
        n_digits = 0 if places is None else places.value
        if number.value is None or n_digits is None:
            return None
        if kind_of(arrow) == "floating":
            return _round_float(float(number.value), n_digits, mode)
        return _round_exact(Decimal(number.value), n_digits, mode, arrow)

    return apply


def _round_exact(number: Decimal, n_digits: int, mode: str, arrow: pa.DataType) -> object:
    scale = arrow.scale if kind_of(arrow) == "decimal" else 0
    with localcontext(prec=500):
        if n_digits < scale:
            unit = Decimal(1).scaleb(-max(n_digits, -100))
            number = (number / unit).quantize(Decimal(1), mode) * unit
        if kind_of(arrow) == "integer":
            return int(number) if -(2**63) <= number < 2**63 else None
        number = number.quantize(Decimal(1).scaleb(-scale))
        return number if abs(number.scaleb(scale)) < 10**38 else None


def _round_float(number: float, n_digits: int, mode: str) -> float:
    if not math.isfinite(number):
        return number
    if abs(n_digits) > 308:
        return number if n_digits > 0 else 0.0
    power = float(f"1e{abs(n_digits)}")
    up = number * power if n_digits >= 0 else number / power
    if math.isinf(up):
        return number
    whole = float(Decimal(up).quantize(Decimal(1), mode)) if abs(up) < 2**53 else up
    whole = math.copysign(whole, number)
    down = whole / power if n_digits >= 0 else whole * power
    return number if math.isinf(down) else down


def _sign(arrow: pa.DataType, number: Typed) -> object:
    if number.value is None or _nan(number.value):
        return number.value
    unit = (number.value > 0) - (number.value < 0)
    return float(unit) if kind_of(arrow) == "floating" else unit


def _abs(arrow: pa.DataType, number: Typed) -> object:
    if number.value is None or (number.value == -(2**63) and kind_of(arrow) == "integer"):
        return None
    return number.value.copy_abs() if isinstance(number.value, Decimal) else abs(number.value)


def _extreme(*, greatest: bool) -> Function:
    def apply(arrow: pa.DataType, *given: Typed) -> object:
        values = [cast_value(each, arrow) for each in given]
        known = [each for each in values if each is not None]
        return (max if greatest else min)(known, key=_ordered) if known else None

    return apply


def _ordered(value: Any) -> Any:  # noqa: ANN401
    return (True, 0.0) if _nan(value) else (False, value)


def _nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _coalesce(arrow: pa.DataType, *given: Typed) -> object:
    return next((cast_value(each, arrow) for each in given if each.value is not None), None)


def _nullif(_: pa.DataType, value: Typed, other: Typed) -> object:
    return None if compared("=", value.value, other.value) else value.value


def _if(arrow: pa.DataType, condition: Typed, one: Typed, other: Typed) -> object:
    return cast_value(one if condition.value else other, arrow)


def _substring(text: str, first: int, n_characters: int = 2**62) -> str | None:
    if n_characters < 0:
        return None
    places = range(len(text))
    return "".join(text[at] for at in places if first <= at + 1 < first + n_characters)


def _left(text: str, count: int) -> str:
    return text[:count] if count else ""


def _right(text: str, count: int) -> str:
    return text[max(0, len(text) - count) :] if count >= 0 else text[-count:]


def _repeat(text: str, times: int) -> str | None:
    return text * times if max(len(text), 1) * times <= 10_000 else None


def _character(code: int) -> str | None:
    return chr(code) if 0 <= code <= 0x10FFFF and not 0xD800 <= code < 0xE000 else None


def _initcap(text: str) -> str:
    before = " " + text
    return "".join(
        each.lower() if last.isalnum() else each.upper()
        for last, each in zip(before, text, strict=False)
    )


def _translate(text: str, old: str, new: str) -> str:
    others = {each: new[at : at + 1] for at, each in reversed([*enumerate(old)])}
    return "".join(others.get(each, each) for each in text)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _octet_length(text: str | bytes) -> int:
    return len(text.encode() if isinstance(text, str) else text)


def _texts(given: Iterable[Typed]) -> list[str]:
    """Return values as texts, without those that are none."""
    found = [cast_value(each, pa.string()) for each in given]
    return [str(each) for each in found if each is not None]


def _concat_ws(_: pa.DataType, separator: Typed, *given: Typed) -> str | None:
    if separator.value is None:
        return None
    return str(separator.value).join(_texts(given))


def _pad(*, before: bool) -> Function:
    def apply(text: str, count: int, filler: str = " ") -> str | None:
        if count > 10_000:
            return None
        text = text[: max(count, 0)]
        missing = max(count, 0) - len(text)
        space = (filler * missing)[:missing]
        return space + text if before else text + space

    return _strict(apply)


def _split_part(text: str, separator: str, number: int) -> str:
    parts = text.split(separator) if separator else [text]
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if number and 0 <= at < len(parts) else ""


def _regexp_replace(text: str, pattern: str, new: str, flags: str = "") -> str:
    mode = re.IGNORECASE if "i" in flags else 0
    return re.sub(pattern, new, text, count=0 if "g" in flags else 1, flags=mode)


def _regexp_extract(text: str, pattern: str, group: int = 0) -> str | None:
    found = re.search(pattern, text)
    if group > re.compile(pattern).groups:
        return None
    return "" if found is None else found[group] or ""


def _moment(instant: date) -> datetime:
    return instant if isinstance(instant, datetime) else datetime.combine(instant, time(), UTC)


def _trunc(unit: str, instant: date) -> datetime:
    moment = _moment(instant)
    midnight = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "year":
            return midnight.replace(month=1, day=1)
        case "quarter":
            return midnight.replace(month=(moment.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return midnight.replace(day=1)
        case "week":
            return midnight - timedelta(days=moment.weekday())
        case "day":
            return midnight
        case "hour" | "minute" | "second":
            kept = {"hour": "hours", "minute": "minutes", "second": "seconds"}[unit]
            return moment - (moment - midnight) % timedelta(**{kept: 1})
        case _:
            micros = 1000 if unit == "millisecond" else 1
            return moment.replace(microsecond=moment.microsecond // micros * micros)


def _add(unit: str, number: int, instant: date) -> datetime | None:
    """Go so many units on; by months, to the same day or the last of the month."""
    moment = _moment(instant)
    try:
        if unit not in _MONTHS:
            return moment + number * _SIZES[unit]
        year, month = divmod(moment.year * 12 + moment.month - 1 + number * _MONTHS[unit], 12)
        return moment.replace(
            year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1])
        )
    except (OverflowError, ValueError, IllegalMonthError):
        return None


def _diff(unit: str, first: date, last: date) -> int:
    """Count how often a unit begins between two instants."""
    one, other = (_trunc(unit, _moment(each)) for each in (first, last))
    if unit in _MONTHS:
        months = (other.year - one.year) * 12 + other.month - one.month
        return months // _MONTHS[unit]
    return (other - one) // _SIZES[unit]


def _last_day(instant: date) -> date:
    return date(instant.year, instant.month, monthrange(instant.year, instant.month)[1])


def _make_date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except (OverflowError, ValueError):
        return None


def _bucket(width: int, instant: date) -> datetime | None:
    moment = _moment(instant)
    try:
        return moment - (moment - _MONDAY) // _MICRO % width * _MICRO
    except (OverflowError, ZeroDivisionError):
        return None


def _from_seconds(seconds: Any) -> datetime | None:  # noqa: ANN401
    try:
        micros = seconds * 10**6 if isinstance(seconds, int) else round(float(seconds) * 10**6)
        return _EPOCH + timedelta(microseconds=micros)
    except (OverflowError, ValueError):
        return None


def _strftime(instant: date, pattern: str) -> str | None:
    moment = _moment(instant)
    parts = {
        "Y": f"{moment.year:04}", "y": f"{moment.year % 100:02}", "m": f"{moment.month:02}",
        "d": f"{moment.day:02}", "H": f"{moment.hour:02}", "M": f"{moment.minute:02}",
        "S": f"{moment.second:02}", "j": f"{moment.timetuple().tm_yday:03}", "%": "%",
    }  # fmt: skip
    try:
        return re.sub("(?s)%(.?)", lambda each: parts[each[1]], pattern)
    except KeyError:
        return None


def _micros_of(instant: date) -> int:
    moment = _moment(instant)
    return moment.second * 10**6 + moment.microsecond


def _part(name: str) -> Function:
    return _strict(lambda instant: getattr(instant, name, 0))


FUNCTIONS: dict[str, Function] = {
    "abs": _abs,
    "sign": _sign,
    "floor": _rounding(ROUND_FLOOR),
    "ceil": _rounding(ROUND_CEILING),
    "ceiling": _rounding(ROUND_CEILING),
    "trunc": _rounding(ROUND_DOWN),
    "round": _rounding(ROUND_HALF_UP),
    "sqrt": _double(math.sqrt),
    "ln": _double(math.log),
    "log2": _double(math.log2),
    "log": _double(_log),
    "log10": _double(math.log10),
    "exp": _double(math.exp),
    "sin": _double(math.sin),
    "cos": _double(math.cos),
    "tan": _double(math.tan),
    "asin": _double(math.asin),
    "acos": _double(math.acos),
    "atan": _double(math.atan),
    "atan2": _double(math.atan2),
    "degrees": _double(math.degrees),
    "radians": _double(math.radians),
    "pi": _strict(lambda: math.pi),
    "cbrt": _double(_cbrt),
    "power": _double(_power),
    "pow": _double(_power),
    "mod": lambda arrow, one, two: computed("%", one, two, arrow),
    "bitand": _strict(lambda one, other: one & other),
    "bitor": _strict(lambda one, other: one | other),
    "xor": _strict(lambda one, other: one ^ other),
    "bitnot": _strict(lambda number: ~number),
    "bitshiftleft": _strict(_shift_left),
    "bitshiftright": _strict(_shift_right),
    "is_nan": _strict(_nan),
    "greatest": _extreme(greatest=True),
    "least": _extreme(greatest=False),
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "nvl": _coalesce,
    "nullif": _nullif,
    "if": _if,
    "iif": _if,
    "length": _strict(len),
    "char_length": _strict(len),
    "octet_length": _strict(_octet_length),
    "ascii": _strict(lambda text: ord(text[0]) if text else 0),
    "chr": _strict(_character),
    "initcap": _strict(_initcap),
    "translate": _strict(_translate),
    "md5": _strict(_md5),
    "lower": _strict(str.lower),
    "upper": _strict(str.upper),
    "reverse": _strict(lambda text: text[::-1]),
    "trim": _strict(lambda text, ends=" ": text.strip(ends) if ends else text),
    "ltrim": _strict(lambda text, ends=" ": text.lstrip(ends) if ends else text),
    "rtrim": _strict(lambda text, ends=" ": text.rstrip(ends) if ends else text),
    "substring": _strict(_substring),
    "substr": _strict(_substring),
    "left": _strict(_left),
    "right": _strict(_right),
    "repeat": _strict(_repeat),
    "replace": _strict(lambda text, old, new: text.replace(old, new) if old else text),
    "starts_with": _strict(str.startswith),
    "ends_with": _strict(str.endswith),
    "contains": _strict(str.__contains__),
    "strpos": _strict(lambda text, part: text.find(part) + 1),
    "instr": _strict(lambda text, part: text.find(part) + 1),
    "position": _strict(lambda part, text: text.find(part) + 1),
    "split_part": _strict(_split_part),
    "concat": lambda _, *given: "".join(_texts(given)),
    "concat_ws": _concat_ws,
    "lpad": _pad(before=True),
    "rpad": _pad(before=False),
    "regexp_replace": _strict(_regexp_replace),
    "regexp_extract": _strict(_regexp_extract),
    "year": _part("year"),
    "quarter": _strict(lambda instant: (instant.month + 2) // 3),
    "month": _part("month"),
    "week": _strict(lambda instant: instant.isocalendar().week),
    "day": _part("day"),
    "dayofweek": _strict(lambda instant: instant.isoweekday() % 7),
    "isodow": _strict(lambda instant: instant.isoweekday()),
    "dayofyear": _strict(lambda instant: instant.timetuple().tm_yday),
    "dayname": _strict(lambda instant: day_name[instant.weekday()]),
    "monthname": _strict(lambda instant: month_name[instant.month]),
    "last_day": _strict(_last_day),
    "make_date": _strict(_make_date),
    "hour": _part("hour"),
    "minute": _part("minute"),
    "second": _part("second"),
    "millisecond": _strict(lambda instant: _micros_of(instant) // 1000),
    "microsecond": _strict(_micros_of),
    "date_trunc": _strict(_trunc),
    "date_add": _strict(_add),
    "dateadd": _strict(_add),
    "date_diff": _strict(_diff),
    "datediff": _strict(_diff),
    "time_bucket": _strict(lambda width, each: _bucket(width, each) if width > 0 else None),
    "to_timestamp": _strict(_from_seconds),
    "epoch": _strict(lambda instant: float((_moment(instant) - _EPOCH) // _MICRO) / 10**6),
    "epoch_ms": _strict(lambda instant: (_moment(instant) - _EPOCH) // timedelta(milliseconds=1)),
    "strftime": _strict(_strftime),
}
