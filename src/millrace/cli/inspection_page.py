"""The page that `millrace inspect` prints: one table for each kind of thing in a root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from millrace.cli.inspection import Inspection, QueryFacts
from millrace.cli.terminal import counted, print_seconds
from millrace.engine.statistics import EpochStatistics
from millrace.state.sizes import print_bytes
from millrace.time import print_instant

SHOWN_QUERIES = 20
STAGES = ("decide", "log", "run", "commit")


def show(found: Inspection, console: Console) -> None:
    """Print the page."""
    _print_root(found, console)
    _section(console, "streams", ("", "watermark", "behind", "declared as"), [
        (each.name, "-" if each.watermark is None else print_instant(each.watermark),
         "-" if each.behind is None else print_seconds(each.behind / 1e6), each.declaration)
        for each in found.streams
    ], "lrrl")  # fmt: skip
    shown = _shown(found.queries)
    more = len(found.queries) - len(shown)
    title = f"queries ({sum(each.queries for each in found.queries):,})"
    _section(console, title, ("", "queries", "state", "waiting", "asks"), [
        (each.name, f"{each.queries:,}", each.state, f"{each.waiting_rows:,}", _asks(each))
        for each in shown
    ] + ([("...", "", "", "", f"and {more:,} more")] if more else []), "lrlrl")  # fmt: skip
    _section(console, "stores", ("", "runs", "rows", "bytes", "files"), [
        (each.name, f"{each.runs:,}", f"{each.rows:,}", print_bytes(each.bytes), f"{each.files:,}")
        for each in found.stores
    ], "lrrrr")  # fmt: skip
    _section(console, "sinks", ("", "next epoch", "behind", "skipped", ""), [
        (each.name, f"{each.next_epoch:,}", counted(each.behind, "epoch"),
         counted(each.skipped_rows, "row"), "detached" if each.detached else "attached")
        for each in found.sinks
    ], "lrrrl")  # fmt: skip
    if found.last is not None:
        _print_last(found.last, console)


def _asks(each: QueryFacts) -> str:
    """Say what is asked, and in how many ways."""
    shared = each.kind != "query"
    kind = f"{each.kind}:" if shared else ""
    forms = f"({counted(each.families, 'family', 'families')})" if shared else ""
    return " ".join(part for part in (kind, each.text, forms, each.why) if part)


def _print_root(found: Inspection, console: Console) -> None:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row("root", Text(found.uri, "bold"))
    grid.add_row("engine", Text(found.engine or "none is running", "green" if found.engine else ""))
    if found.epoch < 0:
        grid.add_row("epochs", "nothing is committed yet")
    else:
        ago = "" if found.committed_ago is None else f", {print_seconds(found.committed_ago)} ago"
        grid.add_row(
            "epochs", f"0 to {found.epoch:,} are committed, the last in term {found.term}{ago}"
        )
    files = f"{counted(found.files, 'file')}, {print_bytes(found.bytes)}"
    kept = f"{counted(found.snapshots, 'snapshot')}, {counted(found.readers - 1, 'other reader')}"
    grid.add_row("files", f"{files}; {kept}" if found.readers else files)
    counts = found.counts
    if any(found.index_files.values()):
        per = ", ".join(f"{n:,} over {stream}" for stream, n in found.index_files.items() if n)
        grid.add_row("index files", per)
    grid.add_row("so far", (
        f"{counted(counts.get('rows', 0), 'row')} in, "
        f"{counted(counts.get('results', 0), 'answer')}, "
        f"{counts.get('late', 0):,} late, {counted(counts.get('dead', 0), 'dead letter')}"
    ))  # fmt: skip
    console.print(grid)


def _print_last(last: EpochStatistics, console: Console) -> None:
    stages = ", ".join(
        f"{stage} {print_seconds(last.seconds[stage])}" for stage in STAGES if stage in last.seconds
    )
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    where = "spread over tasks" if last.spread else "in the driver"
    grid.add_row("in", f"{counted(last.rows, 'row')}, {print_bytes(last.bytes)}, stepped {where}")
    grid.add_row(
        "out", f"{counted(last.results, 'answer')}, {print_bytes(last.bytes_written)} written"
    )
    grid.add_row("runs", f"{last.runs_added} added, {last.merges} merge steps")
    grid.add_row("took", stages or "-")
    console.print(Text(f"\nlast epoch ({last.epoch:,}, attempt {last.attempt})", "bold"))
    console.print(grid)


def _section(
    console: Console,
    title: str,
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    justify: str,
) -> None:
    """Print a table without lines; the last column takes what is left of the width."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name, side in zip(names, justify, strict=True):
        last = name == names[-1]
        table.add_column(
            name,
            justify="right" if side == "r" else "left",
            no_wrap=not last,
            overflow="fold" if last else "ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console.print(Text(f"\n{title}", "bold"))
    console.print(table if table.row_count else Text("none", "dim"))


def _shown(queries: Sequence[QueryFacts]) -> list[QueryFacts]:
    """Choose the queries to print: those in trouble, then the first ones."""
    trouble = [each for each in queries if each.why]
    rest = [each for each in queries if not each.why]
    return [*trouble, *rest[: max(SHOWN_QUERIES - len(trouble), 0)]]
