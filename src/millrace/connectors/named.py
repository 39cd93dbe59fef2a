"""Sources and sinks by the names that SQL calls them, and the options each takes.

files(path => '/data/*.parquet')         read by the workers themselves
rate(rows_per_second => 10)              a row at regular times: its number, and its time
socket(host => 'localhost', port => 9)   lines of text, for tests; it keeps no position
push()                                   rows that clients of a server send
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from millrace.connectors.files import Files
from millrace.connectors.formats.options import ReadOptions
from millrace.errors import PlanError
from millrace.plan.nearest import nearest
from millrace.time import to_micros

_READING = {each.name for each in fields(ReadOptions)}

SOURCES: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "files": (frozenset({"path"}), frozenset({"format", "settle", *_READING})),
    "rate": (frozenset(), frozenset({"rows_per_second"})),
    "socket": (frozenset({"host", "port"}), frozenset()),
    "push": (frozenset(), frozenset()),
}
SINKS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "parquet": (frozenset({"path"}), frozenset({"roll_every", "roll_bytes", "roll_rows"})),
    "memory": (frozenset(), frozenset({"last"})),
    "console": (frozenset(), frozenset()),
}
"""For each kind the options that it needs, and those that it may have."""


def check_connector(what: str, kind: str, options: Mapping[str, Any]) -> str:
    """Return the kind in small letters, or say what there is; `what` is "source" or "sink"."""
    kinds = SOURCES if what == "source" else SINKS
    name = kind.lower()
    if name not in kinds:
        raise PlanError(
            f'{what} "{kind}" does not exist',
            detail=f"There are {', '.join(kinds)}.",
            hint=nearest(name, list(kinds)),
            node=("kind", kind),
        )
    needed, possible = kinds[name]
    known = sorted(needed | possible)
    for each in sorted(options.keys() - needed - possible):
        raise PlanError(
            f'option "{each}" of {name} does not exist',
            detail=f"The options are {', '.join(known) or 'none'}.",
            hint=nearest(each, known),
            node=("option", each),
        )
    for each in sorted(needed - options.keys()):
        raise PlanError(
            f'option "{each}" of {name} is missing',
            detail=f"The options are {', '.join(known)}.",
            hint=f"Write {name}({each} => ...).",
            node=("kind", kind),
        )
    return name


def files_source(options: Mapping[str, Any]) -> Files:
    """Make a source of files from the options of a statement.

    Examples
    --------
    >>> files_source({"path": "/data/*.csv", "delimiter": ";"}).options.delimiter
    ';'
    """
    read = ReadOptions(**{name: value for name, value in options.items() if name in _READING})
    settle = to_micros(options.get("settle", 0))
    return Files(str(options["path"]), options.get("format"), read, settle)
