"""What a value of a JSON or CSV source means, in slow plain Python."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation, localcontext

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds


class UnfitError(Exception):
    """The value is not one of that type."""


_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SPECIAL = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_MOMENT = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]{1,9}))?)?"
    r"(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?)?"
)
_TRUE, _FALSE = {"true", "t", "1"}, {"false", "f", "0"}


def read_value(kind: str, text: str, arrow: pa.DataType, *, loose: bool) -> object:
    """Read one value, of kind true, false, number, text or nested; raise `UnfitError`.

    Timestamps are given as microseconds and dates as days since 1970.
    """
    if kind == "nested":
        raise UnfitError
    if kinds.is_string(arrow) or kinds.is_binary(arrow):
        _need(kind == "text")
        return _text(text) if kinds.is_string(arrow) else _binary(text)
    if kinds.is_boolean(arrow):
        return _boolean(kind, text, loose=loose)
    _need(kind in {"number", "text"})
    text = text.strip(" \t")
    if kinds.is_decimal(arrow):
        return _decimal(text, arrow)
    if kinds.is_timestamp(arrow):
        if kind == "number" or (loose and _INTEGER.fullmatch(text)):
            return _integer(text, 64)
        return _moment(text)
    if kinds.is_date(arrow):
        _need(kind == "text")
        return _days(text)
    _need(loose or kind == "number")
    return _integer(text, arrow.bit_width) if kinds.is_integer(arrow) else _float(text, arrow)


def _need(fact: object) -> None:
    if not fact:
        raise UnfitError


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise UnfitError from None
    return text


def _binary(text: str) -> bytes:
    _need(text.isascii() and len(text) % 4 == 0)
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise UnfitError from None


def _boolean(kind: str, text: str, *, loose: bool) -> bool:
    if not loose:
        _need(kind in {"true", "false"})
        return kind == "true"
    word = text.strip(" \t").lower()
    _need(word in _TRUE | _FALSE)
    return word in _TRUE


def _integer(text: str, n_bits: int) -> int:
    _need(_INTEGER.fullmatch(text))
    value = int(text)
    _need(-(2 ** (n_bits - 1)) <= value < 2 ** (n_bits - 1))
    return value


def _float(text: str, arrow: pa.DataType) -> float:
    if _SPECIAL.fullmatch(text):
        return float(text)
    _need(_NUMBER.fullmatch(text))
    value = float(text)
    if kinds.is_float32(arrow):
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    _need(abs(value) != float("inf"))
    return value


def _decimal(text: str, arrow: pa.DataType) -> Decimal:
    _need(_NUMBER.fullmatch(text))
    with localcontext(prec=arrow.precision):
        try:
            value = Decimal(text)
            rounded = value.quantize(Decimal(1).scaleb(-arrow.scale))
        except InvalidOperation:
            raise UnfitError from None
    _need(rounded == value)
    return rounded


def _days(text: str) -> int:
    match = _DATE.fullmatch(text)
    if match is None:
        raise UnfitError
    try:
        return (date(*map(int, match.groups())) - date(1970, 1, 1)).days
    except ValueError:
        raise UnfitError from None


def _moment(text: str) -> int:
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise UnfitError
    day, hour, minute, second, fraction, sign, zone_hour, zone_minute = match.groups(default="0")
    try:
        time = datetime(1970, 1, 1, int(hour), int(minute), int(second), tzinfo=UTC)
        zone = datetime(1970, 1, 1, int(zone_hour), int(zone_minute), tzinfo=UTC)
    except ValueError:
        raise UnfitError from None
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    micros = (time - epoch) // timedelta(microseconds=1) + int(fraction.ljust(6, "0")[:6])
    shift = (zone - epoch) // timedelta(microseconds=1)
    return _days(day) * 86_400_000_000 + micros + (shift if sign == "-" else -shift)
