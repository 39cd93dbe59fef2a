"""Signatures of the functions of ours: what each takes and which type it returns.

What they compute is in `operators.functions`; a test holds the two tables together.
A signature is written as its arguments' kinds: `number` is any number, `instant` a date or a
timestamp, `bytes` a text or a binary, `value` whatever there is, `any` what mixes with the other
arguments of that word; `[...]` may be left out and `...` repeats the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias, get_args

import pyarrow as pa

from millrace.plan.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INSTANTS,
    NUMBERS,
    TEXT,
    Kind,
    arithmetic_type,
    common_type,
    kind_of,
    widened,
)
from millrace.schema import TIMESTAMP

Types: TypeAlias = Sequence[pa.DataType]
Returns: TypeAlias = Callable[[Types], pa.DataType]

_ACCEPTED: dict[str, frozenset[Kind]] = {
    "number": NUMBERS,
    "integer": frozenset({"integer"}),
    "text": frozenset({"text"}),
    "boolean": frozenset({"boolean"}),
    "instant": INSTANTS,
    "bytes": frozenset({"text", "binary"}),
    "value": frozenset(get_args(Kind)),
}
_PHRASES = {"instant": "date or timestamp", "bytes": "text or binary"}


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes, and its type as a function of the types of its arguments."""

    takes: tuple[str, ...]
    n_required: int
    repeated: bool
    returns: Returns

    @classmethod
    def of(cls, text: str, returns: Returns | pa.DataType) -> Self:
        """Read a signature such as `text, integer, [integer]`."""
        words = text.split(", ") if text else []
        repeated = "..." in words
        takes = tuple(each.strip("[]") for each in words if each != "...")
        n_required = sum(not each.startswith("[") for each in words if each != "...")
        rule = returns if callable(returns) else lambda _: returns
        return cls(takes, n_required, repeated, rule)

    def describe(self, name: str) -> str:
        """Say in a message what the function takes."""
        words = [_PHRASES.get(each, each) for each in self.takes]
        shown = [word if at < self.n_required else f"[{word}]" for at, word in enumerate(words)] + [
            "..."
        ] * self.repeated
        return f"{name}({', '.join(shown)})"

    def accepts(self, types: Types) -> bool:
        """Say whether the function can be called with arguments of these types."""
        if not self.n_required <= len(types) <= (len(types) if self.repeated else len(self.takes)):
            return False
        mixed = [
            each for word, each in zip(self._words(types), types, strict=True) if word == "any"
        ]
        return common_type(mixed) is not None and all(
            word == "any" or kind_of(each) in _ACCEPTED[word] | {"null"}
            for word, each in zip(self._words(types), types, strict=True)
        )

    def _words(self, types: Types) -> list[str]:
        return [self.takes[min(at, len(self.takes) - 1)] for at in range(len(types))]


def _widened(types: Types) -> pa.DataType:
    return widened(types[0])


def _sign(types: Types) -> pa.DataType:
    return DOUBLE if kind_of(types[0]) == "floating" else BIGINT


def _remainder(types: Types) -> pa.DataType:
    return arithmetic_type("%", *types)


def _common(types: Types) -> pa.DataType:
    return common_type(types)


def _either(types: Types) -> pa.DataType:
    return common_type(types[1:])


def _first(types: Types) -> pa.DataType:
    return types[0]


_of = Signature.of
SIGNATURES: dict[str, Signature] = {
    **dict.fromkeys(("abs", "floor", "ceil", "ceiling", "trunc"), _of("number", _widened)),
    "round": _of("number, [integer]", _widened),
    "sign": _of("number", _sign),
    "mod": _of("number, number", _remainder),
    **dict.fromkeys(("sqrt", "cbrt", "ln", "log2", "log10", "exp"), _of("number", DOUBLE)),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), _of("number", DOUBLE)),
    **dict.fromkeys(("degrees", "radians"), _of("number", DOUBLE)),
    **dict.fromkeys(("power", "pow", "atan2"), _of("number, number", DOUBLE)),
    "log": _of("number, [number]", DOUBLE),
    "pi": _of("", DOUBLE),
    **dict.fromkeys(("bitand", "bitor", "xor"), _of("integer, integer", BIGINT)),
    "bitnot": _of("integer", BIGINT),
    **dict.fromkeys(("bitshiftleft", "bitshiftright"), _of("integer, integer", BIGINT)),
    "is_nan": _of("number", BOOLEAN),
    **dict.fromkeys(("greatest", "least", "coalesce"), _of("any, ...", _common)),
    **dict.fromkeys(("ifnull", "nvl"), _of("any, any", _common)),
    "nullif": _of("any, any", _first),
    **dict.fromkeys(("if", "iif"), _of("boolean, any, any", _either)),
    **dict.fromkeys(("length", "char_length"), _of("text", BIGINT)),
    "octet_length": _of("bytes", BIGINT),
    "ascii": _of("text", BIGINT),
    "chr": _of("integer", TEXT),
    "translate": _of("text, text, text", TEXT),
    **dict.fromkeys(("lower", "upper", "initcap", "reverse", "md5"), _of("text", TEXT)),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _of("text, [text]", TEXT)),
    **dict.fromkeys(("substring", "substr"), _of("text, integer, [integer]", TEXT)),
    **dict.fromkeys(("left", "right", "repeat"), _of("text, integer", TEXT)),
    "replace": _of("text, text, text", TEXT),
    **dict.fromkeys(("starts_with", "ends_with", "contains"), _of("text, text", BOOLEAN)),
    **dict.fromkeys(("position", "strpos", "instr"), _of("text, text", BIGINT)),
    "split_part": _of("text, text, integer", TEXT),
    "concat": _of("value, ...", TEXT),
    "concat_ws": _of("text, value, ...", TEXT),
    **dict.fromkeys(("lpad", "rpad"), _of("text, integer, [text]", TEXT)),
    "regexp_replace": _of("text, text, text, [text]", TEXT),
    "regexp_extract": _of("text, text, [integer]", TEXT),
    **dict.fromkeys(
        ("year", "quarter", "month", "week", "day", "dayofweek", "isodow", "dayofyear"),
        _of("instant", BIGINT),
    ),
    **dict.fromkeys(("dayname", "monthname"), _of("instant", TEXT)),
    "last_day": _of("instant", DATE),
    "make_date": _of("integer, integer, integer", DATE),
    **dict.fromkeys(
        ("hour", "minute", "second", "millisecond", "microsecond"), _of("instant", BIGINT)
    ),
    "date_trunc": _of("text, instant", TIMESTAMP),
    **dict.fromkeys(("date_add", "dateadd"), _of("text, integer, instant", TIMESTAMP)),
    **dict.fromkeys(("date_diff", "datediff"), _of("text, instant, instant", BIGINT)),
    "time_bucket": _of("integer, instant", TIMESTAMP),
    "to_timestamp": _of("number", TIMESTAMP),
    "epoch": _of("instant", DOUBLE),
    "epoch_ms": _of("instant", BIGINT),
    "strftime": _of("instant, text", TEXT),
}
IN_UNITS = ("date_trunc", "date_add", "dateadd", "date_diff", "datediff")
"""The functions whose first argument is a unit."""
UNITS = (
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond",
    "microsecond",
)  # fmt: skip
"""What `date_trunc` cuts a timestamp to; a week begins on Monday."""
