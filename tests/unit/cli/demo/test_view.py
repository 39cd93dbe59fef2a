"""The views: every frame fits its terminal, and a pipe gets lines."""

from __future__ import annotations

import io
from pathlib import Path
from typing import get_args

import pytest
from rich.console import Console

from millrace.cli.demo.plain import PlainView
from millrace.cli.demo.story import Phase, Story
from millrace.cli.demo.summary import summary
from millrace.cli.demo.trades import Market
from millrace.cli.demo.verdict import compare
from millrace.cli.demo.view import frame
from millrace.cli.terminal import ASCII, UNICODE, Glyphs
from millrace.engine.statistics import EpochStatistics

PHASES: tuple[Phase, ...] = get_args(Phase)


def epoch(number: int, n_rows: int) -> dict[str, object]:
    statistics = EpochStatistics(
        number, 0, 0, False, rows=n_rows, seconds={"run": 0.1}, lag={"trades": 1_200_000}
    )
    return {
        "event": "epoch",
        "statistics": statistics.to_json(),
        "counts": {"rows": 10 * number, "late": 1, "dead": 1, "results": 4},
        "runs": 3,
        "rows": 10,
        "bytes": 2_048,
        "files": 2,
        "sinks": [["parquet", "running", number - 1], ["callback", "failing", number]],
    }


def answers(number: int, *rows: dict[str, object]) -> dict[str, object]:
    return {
        "event": "answers",
        "query": "big",
        "epoch": number,
        "n_rows": 3,
        "first": 1,
        "newest": list(rows),
    }


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A story with everything in it: answers, a dead letter, a kill and a recovery."""
    market = Market(tmp_path, rate=100.0, seed=2)
    market.write(10)
    told = Story(market.ledger, seconds=30.0, pid=4711)
    told.hear({"event": "spark", "seconds": 4.2})
    told.hear({"event": "compiled", "seconds": 4.3})
    told.hear({"event": "open", "epoch": -1})
    told.hear(epoch(0, 10))
    told.hear(epoch(1, 10))
    row = {"id": 1, "symbol": "ACME", "price": 101.5, "size": 300, "_late": True}
    told.hear(answers(1, row))
    told.hear({"event": "dead", "reason": "not JSON", "raw": '{"id":' + "9" * 300})
    told.killed()
    told.hear({"event": "spark", "seconds": 3.1})
    told.hear(epoch(2, 10))
    return told


def drawn(story: Story, glyphs: Glyphs, width: int, height: int) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=False)
    console.print(frame(story, glyphs, width=width, height=height))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize(("width", "height"), [(60, 22), (80, 24), (120, 40), (250, 80)])
def test_a_frame_fits_its_terminal(story: Story, phase: Phase, width: int, height: int) -> None:
    story.phase = phase

    lines = drawn(story, UNICODE, width, height)

    assert len(lines) <= height
    assert max(map(len, lines)) <= width


def test_an_empty_story_can_be_drawn(tmp_path: Path) -> None:
    story = Story(Market(tmp_path, rate=1.0).ledger, seconds=30.0)

    lines = drawn(story, UNICODE, 80, 24)

    assert "Spark is starting" in lines[2]


def test_a_frame_tells_of_the_kill_and_the_recovery(story: Story) -> None:
    page = "\n".join(drawn(story, UNICODE, 120, 40))

    assert "✖ SIGKILL: driver process 4711 is dead, in epoch 2" in page
    assert "✔ recovered in 0.0 s (3.1 s of it Spark's start), at epoch 2" in page
    assert "callback up to date (failing)" in page
    assert "1 late row, 1 dead letter" in page


def test_answers_that_are_delivered_again_count_once(story: Story) -> None:
    story.hear(answers(1))
    story.hear(answers(2))

    assert story.answers["big"] == 6


def test_a_terminal_without_unicode_gets_none(story: Story) -> None:
    assert all(line.isascii() for line in drawn(story, ASCII, 100, 30))


def test_a_pipe_gets_each_happening_once(story: Story) -> None:
    out = io.StringIO()
    view = PlainView(Console(file=out, width=120))

    view.show(story)
    view.show(story)

    text = out.getvalue()
    assert text.count("SIGKILL: driver process 4711") == 1
    assert text.count("rows/s") == 1
    assert "\x1b" not in text


def test_the_summary_says_what_is_wrong(story: Story) -> None:
    out = io.StringIO()
    console = Console(file=out, width=120)

    console.print(summary(story, [compare("answers of big", [1, 2], [1, 1])], UNICODE))

    assert "✖  answers of big" in out.getvalue()
    assert "The answers are wrong." in out.getvalue()
