"""Reading the queries of a server: list, top, show, results, tail."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from millrace.cli.shell.printing import Printer
from millrace.cli.terminal import counted, make_console
from millrace.cli.waiting import waiting_for
from millrace.client.client import Client
from millrace.client.handles import RemoteQuery
from millrace.client.json_rows import json_value
from millrace.client.result import Result
from millrace.errors import SourceError, UnknownNameError
from millrace.state.sizes import print_bytes

LONGEST_TEXT = 70


def list_queries(client: Client, arguments: argparse.Namespace) -> int:
    """List queries."""
    if arguments.names:
        for page in _pages(client, arguments):
            for each in page["queries"]:
                print(each.get("name") or each["id"])
        return 0
    pages = _pages(client, arguments) if arguments.all else [_page(client, arguments)]
    found = list(pages)
    listed = [each for page in found for each in page["queries"]]
    total, after = found[-1]["total"], found[-1].get("next")
    if arguments.json:
        print(json.dumps({"queries": listed, "next": after, "total": total}))
        return 0
    console = make_console()
    console.print(_grid(listed))
    words = f"{len(listed):,} of {counted(int(total), 'query', 'queries')}"
    console.print(Text(words + (f"; go on with --after {after}" if after else ""), "dim"))
    return 0


def _page(client: Client, arguments: argparse.Namespace) -> dict[str, Any]:
    return client.query_page(
        arguments.search, state=arguments.state, after=arguments.after, limit=arguments.limit
    )


def _pages(client: Client, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    after = arguments.after
    while True:
        with waiting_for("listing"):
            page = client.query_page(arguments.search, state=arguments.state, after=after)
        yield page
        after = page.get("next")
        if not after:
            return


def _grid(listed: list[dict[str, Any]]) -> Table:
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("name")
    table.add_column("id", justify="right")
    table.add_column("state")
    table.add_column("asks", overflow="fold")
    for each in listed:
        state = str(each.get("state", ""))
        table.add_row(
            Text(str(each.get("name") or "")),
            str(each["id"]),
            Text(state, "" if state == "running" else "yellow"),
            Text(_short(each)),
        )
    return table


def top(client: Client, arguments: argparse.Namespace) -> int:
    """List the queries that take most of something."""
    found = client.top(arguments.by, arguments.limit)
    if arguments.json:
        print(json.dumps({"by": arguments.by, "queries": found}))
        return 0
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column("name")
    for name in ("time", "state", "results"):
        table.add_column(name, justify="right")
    table.add_column("asks", overflow="fold")
    for each in found:
        table.add_row(
            Text(str(each["name"])),
            f"{each['cost']:.1%}",
            print_bytes(each["state_bytes"]),
            f"{each['results']:,}",
            Text(_short(each)),
        )
    make_console().print(table)
    return 0


def _short(query: dict[str, Any]) -> str:
    text = " ".join(str(query.get("text") or "").split())
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 3]}..."


def show(client: Client, arguments: argparse.Namespace) -> int:
    """Show a query."""
    query = _query(client, arguments.name)
    found, plan = query.info(), query.explain(analyze=arguments.analyze)
    if arguments.json:
        print(json.dumps({**found, "explain": plan}))
        return 0
    console = make_console()
    width = max(map(len, found))
    for name, value in found.items():
        console.print(
            Text.assemble((name.ljust(width), "bold"), "  ", _words(value)), soft_wrap=True
        )
    console.print()
    console.print(Text(plan), soft_wrap=True)
    return 0


def results(client: Client, arguments: argparse.Namespace) -> int:
    """Print the answers that are kept."""
    query = _query(client, arguments.name)
    with waiting_for("reading"):
        found = query.results(arguments.last, begin=arguments.begin, end=arguments.end)
    Printer("json" if arguments.json else arguments.format).result(found)
    return 0


def tail(client: Client, arguments: argparse.Namespace) -> int:
    """Print answers as they come; the cursor is written when its rows are."""
    query = _query(client, arguments.name)
    kept = Path(arguments.cursor_file) if arguments.cursor_file else None
    after = arguments.after or _read_cursor(kept)
    printer, header = Printer(arguments.format), after is None
    for result in query.changes(after=after, timeout=arguments.timeout):
        if arguments.json:
            _print_event(result)
        else:
            printer.rows(result, header=header)
        header = False
        if kept is not None and result.cursor:
            _write_cursor(kept, result.cursor)
    return 0


def _print_event(result: Result) -> None:
    rows = [{name: json_value(value) for name, value in row.items()} for row in result]
    print(json.dumps({"cursor": result.cursor, "rows": rows}, ensure_ascii=False), flush=True)


def _read_cursor(path: Path | None) -> str | None:
    return path.read_text(encoding="utf-8").strip() or None if path and path.exists() else None


def _write_cursor(path: Path, cursor: str) -> None:
    """Replace the file as a whole, so that a reader never finds half a cursor."""
    aside = path.with_name(f".{path.name}.new")
    try:
        aside.write_text(f"{cursor}\n", encoding="utf-8")
        aside.replace(path)
    except OSError as cause:
        raise SourceError(
            f'cursor file "{path}" cannot be written', detail=f"{cause.strerror}."
        ) from cause


def _query(client: Client, name: str) -> RemoteQuery:
    found = client.standing(name)
    if not isinstance(found, RemoteQuery):
        raise UnknownNameError(f'"{name}" is a template', hint="Name one of its queries, by id.")
    return found


def _words(value: object) -> str:
    return "-" if value is None else value if isinstance(value, str) else str(json_value(value))
