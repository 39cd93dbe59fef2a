"""What is said of the parts of a dataflow: names of properties, their units, a line for each."""

from __future__ import annotations

from typing import Any

from millrace.server.console.units import print_number, print_value

UNITS = {
    "rate": "rows/s",
    "results": "results/s",
    "lag": "s",
    "seconds": "s",
    "bytes": "B",
    "state_bytes": "B",
    "backlog_bytes": "B",
}
WORDS = {
    "rate": "throughput",
    "lag": "watermark lag",
    "rows_in": "rows in",
    "rows_out": "rows out",
    "seconds": "time spent",
    "busy": "time spent",
    "bytes": "size",
    "state_rows": "rows remembered",
    "state_bytes": "bytes remembered",
    "lag_epochs": "epochs behind",
    "backlog_rows": "rows that wait",
    "backlog_bytes": "bytes that wait",
    "readers": "shared by plans",
    "queries": "shared by queries",
    "retain": "history",
    "of": "answers of",
    "keeps": "answers kept",
    "kept_for": "answers kept for",
}
HIDDEN = ("query", "shown", "feed_kind", "operator", "text", "columns", "table", "told_as")
"""What pages need to know, and nobody to read."""


def pairs_of(node: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the properties of a part as names and printed values."""
    return [
        (WORDS.get(name, name), _printed(node["kind"], name, value))
        for name, value in node["properties"].items()
        if name not in HIDDEN and value is not None
    ]


def note_of(node: dict[str, Any]) -> str:
    """Return the line below the name of a part."""
    told = node["properties"]
    match node["kind"]:
        case "stream" | "feed":
            word = "rows" if node["kind"] == "stream" else "results"
            return f"{print_number(told['rate'])} {word}/s"
        case "index":
            families = counted(told["families"], "family", "families")
            return f"{counted(told['queries'], 'query', 'queries')}, {families}"
        case "family":
            asked = counted(told["queries"], "query", "queries")
            return asked + ("" if told["results"] is None else _passing(told["selectivity"]))
        case "store":
            shared = f", {told['readers']} plans" if told["readers"] > 1 else ""
            return f"{print_number(told['rows'])} rows, {print_value(told['bytes'], 'B')}{shared}"
        case "operator":
            return f"{print_number(told['rows_out'])} rows{_passing(told['selectivity'])}"
        case "table":
            return counted(told["rows"], "row", "rows")
        case "sink":
            waits = told["backlog_rows"]
            return f"{told['state']}, {counted(waits, 'row waits', 'rows wait')}"
    return counted(told["queries"], "query", "queries") if "queries" in told else ""


def title_of(node: dict[str, Any]) -> str:
    """Return what a part is called where its properties are."""
    if node["kind"] == "index":
        return str(node["label"])
    if node["kind"] == "family":
        return f"family of {node['properties']['shown']}"
    return str(node["properties"].get("operator") or f"{node['kind']} {node['label']}")


def counted(number: int, one: str, many: str) -> str:
    """Say how many there are."""
    return f"{print_number(number)} {one if number == 1 else many}"


def _passing(selectivity: float | None) -> str:
    """Say how many rows are told of those that are read."""
    if selectivity is None:
        return ""
    if selectivity > 1:
        return f", {print_number(selectivity)} per row in"
    return f", {print_value(selectivity, '%')} pass"


def _printed(kind: str, name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if name == "selectivity":
        return _passing(value).removeprefix(", ")
    if name == "busy":
        return f"{print_value(value, '%')} of the time"
    unit = "results/s" if (kind, name) == ("feed", "rate") else UNITS.get(name, "")
    return print_value(value, unit)
