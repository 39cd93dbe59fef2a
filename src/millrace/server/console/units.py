"""Numbers with their units, and times: as a person reads them."""

from __future__ import annotations

import base64
import math
from datetime import UTC, date, datetime
from decimal import Decimal

from millrace.state.sizes import print_bytes

_SCALES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
LONGEST_CELL = 400


def print_number(value: float) -> str:
    """Print a number with about three digits, and thousands as k, M and G.

    Examples
    --------
    >>> print_number(0), print_number(12), print_number(1234), print_number(2_500_000)
    ('0', '12', '1,234', '2.5 M')
    >>> print_number(0.125), print_number(12.34), print_number(99_999)
    ('0.125', '12.3', '100 k')
    """
    if math.isnan(value) or math.isinf(value):
        return str(value)
    if abs(value) >= 10_000:
        for scale, unit in _SCALES:
            if abs(value) >= 0.9995 * scale:
                scaled = value / scale
                digits = f"{scaled:.0f}" if abs(scaled) >= 99.95 else f"{scaled:.1f}"
                return f"{digits.removesuffix('.0')} {unit}"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def print_span(seconds: float) -> str:
    """Print how long something took.

    Examples
    --------
    >>> print_span(0.0004), print_span(0.0123), print_span(2.5), print_span(75), print_span(7300)
    ('0.4 ms', '12 ms', '2.5 s', '1 min 15 s', '2 h 1 min')
    """
    if seconds < 0:
        return f"-{print_span(-seconds)}"
    if seconds < 0.01:
        return f"{seconds * 1e3:.2g} ms"
    if seconds < 1:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    return f"{hours // 24} days {hours % 24} h"


def print_value(value: float, unit: str) -> str:
    """Print a value in a unit: `s`, `B`, `%`, or a word.

    Examples
    --------
    >>> print_value(2048, "B"), print_value(0.5, "s"), print_value(0.31, "%")
    ('2.0 kB', '500 ms', '31 %')
    >>> print_value(1500, "rows/s"), print_value(3, "")
    ('1,500 rows/s', '3')
    """
    match unit:
        case "B":
            return print_bytes(value)
        case "s":
            return print_span(value)
        case "%":
            share = value * 100
            return f"{share:.0f} %" if share >= 10 or share == 0 else f"{share:.2g} %"
        case "":
            return print_number(value)
    return f"{print_number(value)} {unit}"


def print_ago(seconds: float) -> str:
    """Print how long ago something was.

    Examples
    --------
    >>> print_ago(0.3), print_ago(42), print_ago(600), print_ago(90_000)
    ('just now', '42 s ago', '10 min ago', '1 day ago')
    """
    if seconds < 2:
        return "just now"
    for scale, word in ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s")):
        count = int(seconds // scale)
        if count:
            plural = "s" if word == "day" and count > 1 else ""
            return f"{count} {word}{plural} ago"
    return "just now"


def print_cell(value: object) -> str:
    """Print a value of a table; what is long is cut.

    Examples
    --------
    >>> print_cell(None), print_cell(True), print_cell(1234567), print_cell(0.1), print_cell(b"ab")
    ('NULL', 'true', '1,234,567', '0.1', 'base64 YWI=')
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.10g}"
        case Decimal():
            return str(value)
        case datetime():
            text = value.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")
            return text.removesuffix("+00:00")
        case date():
            return value.isoformat()
        case bytes():
            return _cut(f"base64 {base64.b64encode(value).decode()}")
    return _cut(str(value))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_CELL else f"{text[:LONGEST_CELL]}…"
