"""The end of the demonstration: what was measured, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from millrace.cli.demo import alerts
from millrace.cli.demo.story import Story, quantile
from millrace.cli.demo.verdict import Finding
from millrace.cli.terminal import Glyphs, counted, print_seconds


def summary(story: Story, findings: Sequence[Finding], glyphs: Glyphs) -> RenderableType:
    """Draw the summary table and the last word."""
    compared = _compared(findings, glyphs)
    return Group(_measured(story), Text(), compared, _explained(), _last_word(story, findings))


def _explained() -> Text:
    """Say why there are fewer trades below than the live view has counted matches."""
    return Text(
        f"A trade may raise many alerts, and each is a match. Judged are the trades, with the\n"
        f"number of alerts that each raised of the {alerts.N_STAYING:,} that stood all the time.",
        "dim",
    )


def _measured(story: Story) -> Table:
    took = story.epoch_seconds()
    delays = [seconds for _, seconds in story.delays]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    n_rows = story.counts.get("rows", 0)
    grid.add_row("rows", f"{n_rows:,} in {counted(len(story.epochs), 'epoch')}")
    grid.add_row("an epoch takes", _spread(took))
    grid.add_row("an answer comes after", _spread(delays))
    if story.outage is not None and story.outage.ended is not None:
        took_all = story.outage.ended - story.outage.began
        spark = story.outage.spark_seconds
        words = f"back after {took_all:.1f} s, {spark:.1f} s of it Spark's start"
        grid.add_row("the driver was killed", words)
    return grid


def _spread(seconds: Sequence[float]) -> str:
    half, most = quantile(seconds, 0.5), quantile(seconds, 0.99)
    return f"{print_seconds(half)} (p50), {print_seconds(most)} (p99)"


def _compared(findings: Sequence[Finding], glyphs: Glyphs) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("compared with what was written", no_wrap=True)
    for name in ("due", "found", "missing", "twice", "foreign"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in findings:
        sign = Text(glyphs.done, "green") if each.right else Text(glyphs.failed, "bold red")
        wrong = [
            Text(f"{count:,}", "bold red" if count else "dim")
            for count in (each.missing, each.twice, each.foreign)
        ]
        table.add_row(sign, each.place, f"{each.due:,}", f"{each.found:,}", *wrong)
    return table


def _last_word(story: Story, findings: Sequence[Finding]) -> Text:
    if not all(each.right for each in findings):
        return Text(
            "\nThe answers are wrong. This is a bug in millrace; please report it.", "bold red"
        )
    crashed = story.outage is not None
    ahead = "The driver was killed; no row was lost" if crashed else "No row was lost"
    return Text(f"\n{ahead} and none came twice.", "bold green")
