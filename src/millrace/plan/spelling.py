"""Spelling: expressions as SQL for people; as JSON for machines see `plan.json_form`.

The SQL is what `lang` reads back. Numbers keep their type: 1 is a bigint, 1.5 a decimal and
1.5e0 a double; a constant below zero has its sign at once (-5), a negation has brackets (-(5)).
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias, assert_never

from millrace.plan.expressions import (
    Arithmetic,
    Both,
    Call,
    Case,
    Cast,
    Column,
    Compare,
    Either,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Negative,
    Not,
    Parameter,
    Scalar,
)
from millrace.plan.fold import fold
from millrace.plan.json_form import from_json, to_json

__all__ = ["RESERVED", "from_json", "identifier", "to_json", "to_text"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED = frozenset(
    re.findall(
        r"\w+",
        "ALL AND AS BETWEEN BY CASE CAST DATE DISTINCT ELSE END ESCAPE EXCEPT EXISTS FALSE FROM "
        "GROUP HAVING ILIKE IN INTERSECT IS JOIN LIKE LIMIT NOT NULL ON OR ORDER SELECT THEN "
        "TIMESTAMP TRUE UNION USING WHEN WHERE",
    )
)

# How tightly a text holds together. What stands beside an operator must hold tighter than it.
_OR, _AND, _NOT, _TEST, _CONCAT, _SUM, _PRODUCT, _SIGN, _ATOM = range(9)
_LEVELS = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "%": _PRODUCT, "||": _CONCAT}
_Text: TypeAlias = tuple[str, int]


def to_text(node: Expression) -> str:
    """Print an expression as SQL.

    >>> to_text(Arithmetic("*", Arithmetic("+", Column("a"), Literal(1)), Column("two words")))
    '(a + 1) * "two words"'
    """
    return fold(node, _text)[0]


def identifier(name: str) -> str:
    """Print a name, in quotes if it would be read as something else without."""
    if _PLAIN.fullmatch(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def _text(node: Expression, operands: list[_Text]) -> _Text:
    match node:
        case Column(name):
            return identifier(name), _ATOM
        case Literal(value):
            return _literal_text(value)
        case Parameter(number, _, _):
            return f"${number}", _ATOM
        case Both() | Either() | Not() | Compare() | IsNull() | In() | Like() | Matches():
            return _condition_text(node, operands)
        case Arithmetic(operator, _, _):
            return _arithmetic_text(operator, *operands)
        case Negative():
            number = isinstance(node.operand, Literal)
            return f"-({operands[0][0]})" if number else f"-{_at(operands[0], _ATOM)}", _SIGN
        case Case():
            return _case_text([text for text, _ in operands]), _ATOM
        case Cast(_, type_name):
            return f"CAST({operands[0][0]} AS {type_name})", _ATOM
        case Call(function, _):
            return f"{identifier(function)}({_list(operands)})", _ATOM
        case _:
            assert_never(node)


def _condition_text(
    node: Both | Either | Not | Compare | IsNull | In | Like | Matches, operands: list[_Text]
) -> _Text:
    match node:
        case Both():
            return f"{_at(operands[0], _AND)} AND {_at(operands[1], _NOT)}", _AND
        case Either():
            return f"{_at(operands[0], _OR)} OR {_at(operands[1], _AND)}", _OR
        case Not():
            return f"NOT ({operands[0][0]})", _NOT
        case Compare(operator, _, _):
            return f"{_side(operands[0])} {operator} {_side(operands[1])}", _TEST
        case IsNull():
            return f"{_side(operands[0])} IS NULL", _TEST
        case In():
            return f"{_side(operands[0])} IN ({_list(operands[1:])})", _TEST
        case Like(_, _, escape, ignore_case):
            word = "ILIKE" if ignore_case else "LIKE"
            end = "" if escape is None else f" ESCAPE {_quoted(escape)}"
            return f"{_side(operands[0])} {word} {_side(operands[1])}{end}", _TEST
        case Matches(_, _, ignore_case):
            word = "~*" if ignore_case else "~"
            return f"{_at(operands[0], _ATOM)} {word} {_at(operands[1], _ATOM)}", _TEST
        case _:
            assert_never(node)


def _at(text: _Text, level: int) -> str:
    """Put a text in brackets unless it holds together at least as tightly as `level`."""
    return text[0] if text[1] >= level else f"({text[0]})"


def _side(text: _Text) -> str:
    return _at(text, _CONCAT)


def _list(texts: list[_Text]) -> str:
    return ", ".join(text for text, _ in texts)


def _arithmetic_text(operator: str, left: _Text, right: _Text) -> _Text:
    level = _LEVELS[operator]
    if operator == "||":  # databases differ in how tightly it binds
        first = left[0] if left[1] == _CONCAT else _at(left, _ATOM)
        return f"{first} || {_at(right, _ATOM)}", level
    return f"{_at(left, level)} {operator} {_at(right, level + 1)}", level


def _case_text(texts: list[str]) -> str:
    pairs = zip(texts[:-1:2], texts[1:-1:2], strict=True)
    branches = "".join(f" WHEN {condition} THEN {value}" for condition, value in pairs)
    return f"CASE{branches} ELSE {texts[-1]} END"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _literal_text(value: Scalar) -> _Text:
    if isinstance(value, bool) or value is None:
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value], _ATOM
    if isinstance(value, int | Decimal | float):
        text = _number_text(value)
        return text, _SIGN if text.startswith("-") else _ATOM
    if isinstance(value, str):
        return _quoted(value), _ATOM
    if isinstance(value, bytes):
        return f"X'{value.hex()}'", _ATOM
    if isinstance(value, datetime):
        plain = value.astimezone(UTC).replace(tzinfo=None)
        return f"TIMESTAMP '{plain.isoformat(sep=' ')}'", _ATOM
    return f"DATE '{value.isoformat()}'", _ATOM


def _number_text(value: int | Decimal | float) -> str:
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, Decimal):
        text = f"{value:f}"
        return text if "." in text else text + "."
    if not math.isfinite(value):
        return f"CAST('{float(value)}' AS double)"
    text = repr(float(value))
    return text if "e" in text else text + "e0"
