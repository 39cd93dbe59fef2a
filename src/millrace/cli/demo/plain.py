"""The story as lines of text, for a pipe or a log: one a second, and one for what happens."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from millrace.cli.demo.story import Story, doing, quantile
from millrace.cli.demo.view import TONES
from millrace.cli.terminal import print_seconds


class PlainView:
    """Prints what is new in the story."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told = 0
        self._next = 0.0

    def show(self, story: Story) -> None:
        """Print the happenings since the last call, and a line if a second has passed."""
        for each in story.happenings[self._told :]:
            self._print(each.at, Text(each.text, TONES[each.tone]))
        self._told = len(story.happenings)
        if story.now >= self._next:
            self._next = int(story.now) + 1.0
            self._print(story.now, Text(line(story)))

    def _print(self, at: float, text: Text) -> None:
        self._console.print(Text.assemble(f"{at:6.1f} s  ", text), soft_wrap=True)
        self._console.file.flush()


def line(story: Story) -> str:
    """Sum the story up in one line."""
    if story.phase != "running":
        return doing(story)
    counts = story.counts
    fields = [
        f"epoch {0 if story.last is None else story.last.epoch}",
        f"{story.rate():,.0f} rows/s",
        f"{story.waiting:,} waiting",
        f"epoch p50 {print_seconds(quantile(story.epoch_seconds(), 0.5))}",
        f"p99 {print_seconds(quantile(story.epoch_seconds(), 0.99))}",
        f"lag {print_seconds(story.lag)}",
        f"{story.state.get('standing', 0):,} queries",
        f"{story.match_rate():,.0f} matches/s",
        f"{counts.get('late', 0)} late",
        f"{counts.get('dead', 0)} dead",
    ]
    return "  ".join(fields)
