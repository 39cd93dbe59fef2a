"""The functions of ours: what each name of `plan.signatures` computes, arrays in, an array out."""

from __future__ import annotations

import math
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from millrace.operators import bits, code_points
from millrace.operators import number_functions as numbers
from millrace.operators import text_functions as text
from millrace.operators import time_functions as time
from millrace.operators.arithmetic import compute
from millrace.operators.cast import cast
from millrace.operators.compare import as_type, compare
from millrace.operators.digests import md5
from millrace.operators.vectors import Datum, null
from millrace.plan.types import BOOLEAN, DOUBLE, common_type


def _mixed(*data: Datum) -> list[Datum]:
    """Bring arguments to the type that holds them all."""
    target = common_type([each.type for each in data])
    assert target is not None, "the binder lets only arguments through that mix"
    return [cast(each, target) for each in data]


def _coalesce(*data: Datum) -> Datum:
    return pc.coalesce(*_mixed(*data))


def _choose(condition: Datum, one: Datum, other: Datum) -> Datum:
    one, other = _mixed(one, other)
    return pc.if_else(pc.fill_null(as_type(condition, BOOLEAN), fill_value=False), one, other)


def _nullif(value: Datum, other: Datum) -> Datum:
    same = pc.fill_null(compare("=", value, other), fill_value=False)
    return pc.if_else(same, null(value.type), value)


def _negative_or_zero(number: Datum) -> Datum:
    return pc.less_equal(number, 0.0)


def _beyond_one(number: Datum) -> Datum:
    return pc.greater(pc.abs(number), 1.0)


FUNCTIONS: dict[str, Callable[..., Datum]] = {
    "abs": numbers.absolute,
    "sign": numbers.sign,
    "floor": numbers.floor,
    "ceil": numbers.ceil,
    "ceiling": numbers.ceil,
    "trunc": numbers.trunc,
    "round": numbers.rounded,
    "sqrt": numbers.defined(pc.sqrt, lambda number: pc.less(number, 0.0)),
    "ln": numbers.defined(pc.ln, _negative_or_zero),
    "log2": numbers.defined(pc.log2, _negative_or_zero),
    "log": numbers.logarithm,
    "log10": numbers.defined(pc.log10, _negative_or_zero),
    "exp": numbers.defined(pc.exp),
    "sin": numbers.defined(pc.sin, pc.is_inf),
    "cos": numbers.defined(pc.cos, pc.is_inf),
    "tan": numbers.defined(pc.tan, pc.is_inf),
    "asin": numbers.defined(pc.asin, _beyond_one),
    "acos": numbers.defined(pc.acos, _beyond_one),
    "atan": numbers.defined(pc.atan),
    "atan2": lambda *data: pc.atan2(*(as_type(each, DOUBLE) for each in data)),
    "degrees": numbers.defined(lambda number: pc.multiply(number, 180 / math.pi)),
    "radians": numbers.defined(lambda number: pc.multiply(number, math.pi / 180)),
    "pi": lambda: pa.scalar(math.pi, DOUBLE),
    "cbrt": numbers.cube_root,
    "power": numbers.power,
    "pow": numbers.power,
    "mod": lambda one, two: compute("%", one, two),
    "bitand": bits.bitwise(pc.bit_wise_and),
    "bitor": bits.bitwise(pc.bit_wise_or),
    "xor": bits.bitwise(pc.bit_wise_xor),
    "bitnot": bits.bitwise(pc.bit_wise_not),
    "bitshiftleft": bits.shift_left,
    "bitshiftright": bits.shift_right,
    "is_nan": numbers.is_nan,
    "greatest": lambda *data: numbers.extreme(greatest=True)(*_mixed(*data)),
    "least": lambda *data: numbers.extreme(greatest=False)(*_mixed(*data)),
    "coalesce": _coalesce,
    "ifnull": _coalesce,
    "nvl": _coalesce,
    "nullif": _nullif,
    "if": _choose,
    "iif": _choose,
    "length": text.length,
    "char_length": text.length,
    "octet_length": text.octet_length,
    "ascii": code_points.code_of,
    "chr": code_points.character_of,
    "initcap": code_points.initcap,
    "translate": code_points.translate,
    "md5": md5,
    "lower": text.unary(pc.utf8_lower),
    "upper": text.unary(pc.utf8_upper),
    "reverse": text.unary(pc.utf8_reverse),
    "trim": text.trimming(pc.utf8_trim),
    "ltrim": text.trimming(pc.utf8_ltrim),
    "rtrim": text.trimming(pc.utf8_rtrim),
    "substring": text.substring,
    "substr": text.substring,
    "left": text.left,
    "right": text.right,
    "repeat": text.repeat,
    "replace": text.replace,
    "starts_with": text.searching(pc.starts_with),
    "ends_with": text.searching(pc.ends_with),
    "contains": text.searching(pc.match_substring),
    "strpos": text.strpos,
    "instr": text.strpos,
    "position": lambda part, whole: text.strpos(whole, part),
    "split_part": text.split_part,
    "concat": text.concat,
    "concat_ws": text.concat_ws,
    "lpad": text.padding(before=True),
    "rpad": text.padding(before=False),
    "regexp_replace": text.regexp_replace,
    "regexp_extract": text.regexp_extract,
    "year": time.part(pc.year),
    "quarter": time.part(pc.quarter),
    "month": time.part(pc.month),
    "week": time.part(pc.iso_week),
    "day": time.part(pc.day),
    "dayofweek": time.part(time.day_of_week),
    "isodow": time.part(time.weekday),
    "dayofyear": time.part(pc.day_of_year),
    "dayname": time.dayname,
    "monthname": time.monthname,
    "last_day": time.last_day,
    "make_date": time.make_date,
    "hour": time.part(pc.hour),
    "minute": time.part(pc.minute),
    "second": time.part(pc.second),
    "millisecond": time.part(time.milliseconds),
    "microsecond": time.part(time.microseconds),
    "date_trunc": time.date_trunc,
    "date_add": time.date_add,
    "dateadd": time.date_add,
    "date_diff": time.date_diff,
    "datediff": time.date_diff,
    "time_bucket": time.time_bucket,
    "to_timestamp": time.to_timestamp,
    "epoch": time.epoch,
    "epoch_ms": time.epoch_ms,
    "strftime": time.strftime,
}
