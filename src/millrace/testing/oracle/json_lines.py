"""What a line of NDJSON means, with Python's own JSON reader."""

from __future__ import annotations

import json
from dataclasses import dataclass

from millrace.schema import Schema
from millrace.testing.oracle.values import UnfitError, read_value


@dataclass(frozen=True, slots=True)
class _Number:
    literal: str


def _refuse(word: str) -> object:
    raise UnfitError(word)


def _kind(value: object) -> tuple[str, str]:
    if isinstance(value, bool):
        return ("true" if value else "false"), ""
    if isinstance(value, _Number):
        return "number", value.literal
    return ("text", value) if isinstance(value, str) else ("nested", "")


def read_line(line: bytes, schema: Schema) -> dict[str, object] | None:
    """Return the row that a line holds, None for a blank line; raise `UnfitError` for neither."""
    if not line.strip(b" \t\r\n"):
        return None
    pairs: list[tuple[str, object]] = []

    def keep(found: list[tuple[str, object]]) -> dict[str, object]:
        pairs[:] = found  # the outermost object is the last to be finished
        return dict(found)

    try:
        value = json.loads(
            line.decode(),
            object_pairs_hook=keep,
            parse_int=_Number,
            parse_float=_Number,
            parse_constant=_refuse,
        )
    except ValueError as cause:  # JSONDecodeError and UnicodeDecodeError
        raise UnfitError from cause
    if not isinstance(value, dict):
        raise UnfitError
    names = [name for name, _ in pairs if name in schema]
    if len(names) != len(set(names)):
        raise UnfitError
    return {column.name: _read(value.get(column.name), column.type) for column in schema}


def _read(value: object, arrow: object) -> object:
    return None if value is None else read_value(*_kind(value), arrow, loose=False)
