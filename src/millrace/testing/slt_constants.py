"""Constants of templates in `.slt` files: `(10, 'a'), (20, [b c])`, a row of parameters each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa

from millrace.engine.parameters import SET, parameter_schema
from millrace.testing.slt_values import read_value

_PARAMETER = re.compile(r"\s*(\w+)\s+(\w+(?:\s*\([^)]*\))?(?:\[\])?)\s*(?:,|$)")
_ROW = re.compile(r"\s*\(((?:[^()']|'(?:[^']|'')*')*)\)\s*,?")
_VALUE = re.compile(r"\s*(\[(?:[^\]']|'(?:[^']|'')*')*\]|[xe]?'(?:[^']|'')*'|[^\s,\[\]']+)\s*,?")
_NAMED = re.compile(r"(?<!:):(\w+)")
_LABEL = re.compile(r"\s*(#\d+)(.*)", re.DOTALL)


def parameters_of(text: str) -> dict[str, str]:
    """Read the parameters of a template: names and types.

    >>> parameters_of("low double, some text[]")
    {'low': 'double', 'some': 'text[]'}
    """
    return {each[1]: each[2] for each in _PARAMETER.finditer(text)}


def numbered(name: str, text: str) -> tuple[str, str]:
    """Return the name of one query of a template, and the rest.

    >>> numbered("above", "#2 (15)")
    ('above#2', ' (15)')
    """
    found = _LABEL.fullmatch(text)
    return (name, text) if found is None else (f"{name}{found[1]}", found[2])


def constants_of(text: str, parameters: dict[str, str]) -> pa.Table:
    """Read rows of constants.

    A column that cannot be read by its parameter's type is text, so that it is refused by whom it
    is given to; so are columns without a parameter.
    """
    rows = [_values(each) for each in _split(text, _ROW, "a row of constants")]
    if len({len(row) for row in rows}) > 1:
        raise ValueError("rows of constants have different lengths")
    names = [*parameters, *(f"more{at}" for at in range(len(rows[0]) if rows else 0))]
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(
        {
            name: _column(column, parameters.get(name))
            for name, column in zip(names, columns, strict=False)
        }
    )


def written(text: str, values: Mapping[str, Any]) -> str:
    """Write constants where a text has parameters.

    >>> written("a = :x AND b IN (:some)", {"x": "it's", "some": [1, 2]})
    "a = 'it''s' AND b IN (1, 2)"
    """
    return _NAMED.sub(lambda found: _spelt(values[found[1]]), text)


def _spelt(value: object) -> str:
    match value:
        case list():
            return ", ".join(map(_spelt, value))
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case date():
            return f"{'TIMESTAMP' if isinstance(value, datetime) else 'DATE'} '{value}'"
        case None:
            return "NULL"
        case _:
            return str(value)


def _values(text: str) -> list[str]:
    return _split(text, _VALUE, "a constant")


def _split(text: str, pattern: re.Pattern[str], what: str) -> list[str]:
    found, at = [], 0
    while text[at:].strip():
        each = pattern.match(text, at)
        if each is None:
            raise ValueError(f"this is not how {what} is written: {text[at:]}")
        found.append(each[1])
        at = each.end()
    return found


def _column(tokens: list[str], kind: str | None) -> pa.Array:
    if kind is None:
        return pa.array(tokens)
    arrow = parameter_schema((kind,)).field(0).type
    try:
        if kind.endswith(SET):
            member = arrow.value_type
            sets = [[read_value(each, member) for each in _values(one[1:-1])] for one in tokens]
            return pa.array(sets, arrow)
        return pa.array([read_value(each, arrow) for each in tokens], arrow)
    except (ValueError, ArithmeticError, pa.ArrowException):
        return pa.array([None if each == "NULL" else each.strip("'") for each in tokens])
