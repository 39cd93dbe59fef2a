"""The live view: one frame of the story, for a terminal of any size from 60 x 20 on.

who, and how long it still goes on
what is happening now                          red while the driver is dead
what flows: rows, epochs, answers, watermark   with sparklines
the standing queries and their newest answers
what was set aside; the state; the sinks
what happened, newest last
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from millrace.cli.demo import alerts, sparkline
from millrace.cli.demo.questions import DELAY_SECONDS, QUESTIONS
from millrace.cli.demo.story import SHOWN, Happening, Story, doing, quantile
from millrace.cli.terminal import Glyphs, counted, print_seconds
from millrace.state.sizes import print_bytes

FIXED_LINES = 22
N_GAPS = 4
TONES = {"plain": "", "bad": "bold red", "good": "bold green"}
WORDS_BESIDE = 49


def frame(story: Story, glyphs: Glyphs, *, width: int, height: int) -> RenderableType:
    """Draw everything, within so many columns and lines."""
    width = width - 2
    airy = height >= FIXED_LINES + 4
    room = max(height - FIXED_LINES + (0 if airy else N_GAPS), 2)
    n_answers = 1 if room < 12 else min(4, 1 + (room - 6) // 3)
    n_happenings = max(room - len(SHOWN) * (n_answers - 1), 2)
    parts: list[RenderableType] = [
        _header(story, glyphs, width),
        _status(story, glyphs),
        Text(),
        _flow(story, glyphs, width),
        Text(),
        _heading(_standing(story), glyphs, width),
        _queries(story, n_answers),
        Text(),
        _heading("what is kept", glyphs, width),
        _kept(story, glyphs, width),
        Text(),
        _heading("what happened", glyphs, width),
        happened(story.happenings[-n_happenings:], glyphs),
    ]
    return Padding(Group(*(each for each in parts if airy or each != Text())), (0, 1))


def _header(story: Story, glyphs: Glyphs, width: int) -> RenderableType:
    words = f"console at {story.console}" if story.console else "queries on one Spark stream"
    name = Text.assemble(("millrace", "bold cyan"), (f"  {words}", "dim"))
    share = min(story.running_for / story.seconds, 1.0) if story.seconds else 1.0
    left = max(story.seconds - story.running_for, 0)
    to_go = Text(f"{left:.0f} s to go" if story.ready is not None and left else "", "dim")
    top = Table.grid(expand=True)
    top.add_column(ratio=1, no_wrap=True)
    top.add_column(justify="right", no_wrap=True)
    top.add_row(name, to_go)
    done = int(share * width)
    bar = Text.assemble((glyphs.line * done, "cyan"), (glyphs.line * (width - done), "grey30"))
    return Group(top, bar)


def _status(story: Story, glyphs: Glyphs) -> Text:
    words = doing(story)
    match story.phase:
        case "running":
            return _line(f"{glyphs.dot} {words}", "bold green", glyphs)
        case "killed":
            return _line(f" {glyphs.failed} {words} ", "bold white on red", glyphs)
    turning = glyphs.spinner[int(story.now * 8) % len(glyphs.spinner)]
    return _line(f"{turning} {words}", "bold yellow", glyphs)


def _flow(story: Story, glyphs: Glyphs, width: int) -> Table:
    n_cells = max(min(width - WORDS_BESIDE, 80), 8)
    cells = sparkline.bounds(story.now, n_cells, sparkline.cell(story.running_for, n_cells))
    outage = story.outage
    dead = None if outage is None else (outage.began, outage.ended or story.now)

    def drawn(values: Sequence[float], *, held: bool = True) -> Text:
        return sparkline.draw(values, cells, glyphs, style="cyan", outage=dead, held=held)

    epochs = [(each.at, each.seconds, float(each.rows)) for each in story.epochs]
    took = story.epoch_seconds()
    delays = [seconds for _, seconds in story.delays]
    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "right", "left", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    total = story.counts.get("rows", 0)
    grid.add_row(
        Text("rows in", "dim"), Text(f"{story.rate():,.0f}/s", "bold"),
        drawn(sparkline.totals(epochs, cells), held=False), Text(f"{total:,} so far", "dim"),
    )  # fmt: skip
    n_matches = story.counts.get("results", 0)
    matched = [(each.at, each.seconds, float(each.matches)) for each in story.epochs]
    grid.add_row(
        Text("matches", "dim"), Text(f"{story.match_rate():,.0f}/s", "bold"),
        drawn(sparkline.totals(matched, cells), held=False), Text(f"{n_matches:,} so far", "dim"),
    )  # fmt: skip
    grid.add_row(
        Text("epoch", "dim"), Text(_ms(quantile(took, 0.5)), "bold"),
        drawn(sparkline.highest([(at, each) for at, each, _ in epochs], cells)),
        Text(f"p99 {_ms(quantile(took, 0.99))}", "dim"),
    )  # fmt: skip
    grid.add_row(
        Text("answer", "dim"), Text(_ms(quantile(delays[-100:], 0.5)), "bold"),
        drawn(sparkline.highest(story.delays, cells)), Text("after its row", "dim"),
    )  # fmt: skip
    meaning = "watermark behind the clock"
    grid.add_row(
        Text("lag", "dim"), Text(_ms(story.lag), "bold"),
        Text(meaning if n_cells >= len(meaning) else "", "dim"),
        Text(f"rows may be {DELAY_SECONDS:g} s late", "dim"),
    )  # fmt: skip
    return grid


def _standing(story: Story) -> str:
    """Say how many queries stand, and in how many families."""
    n_queries, n_families = story.state.get("standing", 0), story.state.get("families", 0)
    if not n_queries:
        return "standing queries"
    return f"{n_queries:,} standing queries in {counted(n_families, 'family', 'families')}"


def _queries(story: Story, n_answers: int) -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    for justify in ("left", "left", "right", "left"):
        grid.add_column(justify=justify, no_wrap=True)
    words = {each.name: each.words for each in QUESTIONS}
    words[alerts.NAME] = alerts.TEXT.partition(" WHERE ")[2]
    for name in SHOWN:
        newest = list(story.newest[name])[-n_answers:][::-1]
        rows = [_answer(each) for each in newest] or [Text("nothing yet", "dim")]
        rows += [Text()] * (n_answers - len(rows))
        number = f"{story.answers.get(name, 0):,}"
        unit = " matches" if name == alerts.NAME else " answers"
        found = Text.assemble((number, "bold"), (unit, "dim"))
        grid.add_row(Text(name, "cyan"), Text(f"WHERE {words[name]}"), found, rows[0])
        for row in rows[1:]:
            grid.add_row(Text(), Text(), Text(), row)
    return grid


def _answer(row: dict[str, object]) -> Text:
    words = f"{row['symbol']}  {row['price']:>7.2f} x {row['size']:<6,}"
    late = (" late", "yellow") if row["_late"] else ""
    return Text.assemble((words, "dim" if row["_late"] else ""), late)


def _kept(story: Story, glyphs: Glyphs, width: int) -> Table:
    counts, state = story.counts, story.state
    n_dead, n_late = counts.get("dead", 0), counts.get("late", 0)
    aside = Text.assemble(
        (f"{counted(n_late, 'late row')}, {counted(n_dead, 'dead letter')}", "yellow")
    )
    reason, raw = story.dead_letter
    if raw:
        aside.append(f"   {reason}: {raw}", "dim")
    runs = (
        f"{counted(state.get('rows', 0), 'row')} in {counted(state.get('runs', 0), 'run')}, "
        f"{print_bytes(state.get('bytes', 0))} in {counted(state.get('files', 0), 'file')}; "
        f"{counted(story.merges, 'merge')} so far"
    )
    epoch = 0 if story.last is None else story.last.epoch
    sinks = [
        f"{name} {_behind(epoch - done)}" + ("" if how == "running" else f" ({how})")
        for name, how, done in state.get("sinks", [])
    ]
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, overflow=glyphs.overflow, max_width=width - 11)
    grid.add_row(Text("set aside", "dim"), aside)
    grid.add_row(Text("state", "dim"), Text(runs))
    grid.add_row(Text("sinks", "dim"), Text("; ".join(sinks) or "none yet"))
    return grid


def _behind(n_epochs: int) -> str:
    return f"{counted(n_epochs, 'epoch')} behind" if n_epochs > 0 else "up to date"


def happened(happenings: Sequence[Happening], glyphs: Glyphs) -> Table:
    """Draw a line for each happening, with its time and its sign."""
    signs = {"plain": " ", "bad": glyphs.failed, "good": glyphs.done}
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, overflow=glyphs.overflow)
    for each in happenings:
        style = TONES[each.tone]
        sign, words = Text(signs[each.tone], style), Text(each.text, style)
        grid.add_row(Text(f"{each.at:.0f} s", "dim"), sign, words)
    return grid


def _heading(words: str, glyphs: Glyphs, width: int) -> Text:
    return Text.assemble((words, "bold"), (" " + glyphs.line * (width - len(words) - 1), "grey30"))


def _line(words: str, style: str, glyphs: Glyphs) -> Text:
    return Text(words, style, no_wrap=True, overflow=glyphs.overflow)


def _ms(seconds: float) -> str:
    return print_seconds(seconds) if seconds else "-"
