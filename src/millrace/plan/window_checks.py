"""Which windows are refused: those that have no meaning, or never show anything."""

from __future__ import annotations

from millrace.errors import PlanError
from millrace.plan.nearest import nearest
from millrace.plan.relations import Window
from millrace.schema import Schema


def check_window(window: Window, schema: Schema) -> None:
    """Refuse a window over a stream of these columns that does not fit, and say why."""
    for name in window.by:
        _require_column(name, schema)
    if isinstance(window.slide, int) and window.slide < 1:
        raise PlanError(f"the slide of the window is {window.slide}", hint="Slide by 1 or more.")
    if window.kind == "rows":
        _check_rows(window)
    else:
        _check_range(window)


def _require_column(name: str, schema: Schema) -> None:
    if name not in schema:
        raise PlanError(
            f'column "{name}" does not exist',
            detail=f"The columns are {', '.join(schema.names)}.",
            hint=nearest(name, schema.names),
        )


def _check_rows(window: Window) -> None:
    if isinstance(window.size, int) and window.size < 1:
        raise PlanError(f"the window is of {window.size} rows", hint="Take 1 or more.")
    if window.since is not None or window.until is not None or window.lag != 0:
        raise PlanError(
            "a window of rows is fixed in time", hint="Only a range has a begin, an end or a lag."
        )


def _check_range(window: Window) -> None:
    if window.by:
        raise PlanError("a range is partitioned", hint="Leave the partition out; a key needs none.")
    for what, length in (("size", window.size), ("lag", window.lag)):
        if isinstance(length, int) and length < 0:
            raise PlanError(f"the {what} of the window is {length}", hint="Time runs forward.")
    if window.since is not None and window.until is not None and window.since > window.until:
        raise PlanError(
            "the window ends before it begins",
            detail=f"It begins at {window.since} and ends at {window.until}.",
        )
    if isinstance(window.size, int) and window.lag > window.size:
        raise PlanError(
            "the window shows nothing, as its lag is longer than its size",
            detail=f"The lag is {window.lag} and the size {window.size}.",
        )
