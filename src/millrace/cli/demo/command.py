"""`millrace demo`: a stream, a live view, a crash and its recovery."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType

from millrace.cli.terminal import UNICODE, Glyphs, glyphs_for, interrupted, make_console
from millrace.errors import StoreError

if TYPE_CHECKING:
    from millrace.cli.demo.story import Story

NAME = "demo"
SUMMARY = "a stream, a live view, a driver that is killed, and its recovery"
EPILOG = """\
Starts Spark on this machine (no Java is needed), trades some shares, asks 100,000 standing queries
of which some come and go, and shows what goes on. After a while it kills the engine's process for
real and starts another. Meanwhile the console is served on this machine, at the address that is
shown, and opened in a browser if there is a screen. At the end every answer on the disk is compared
with what was written. It takes the seconds asked for, and Spark's start.

examples:
  millrace demo
  millrace demo --seconds 120 --rate 20000
  millrace demo --root /tmp/demo     keeps everything; then: millrace inspect /tmp/demo/engine
  millrace demo --plain | tee log    one line a second
"""

_FONT_FACE = re.compile(r"@font-face \{.*?\}", re.DOTALL)
"""Rich's pictures fetch a font from afar; ours do with what is there."""

SVG_WIDTH, SVG_HEIGHT = 100, 36
FRAMES_A_SECOND = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--seconds", type=_positive, default=30.0, metavar="N", help="how long to run (30)"
    )
    parser.add_argument(
        "--rate", type=_positive, default=5_000.0, metavar="N", help="trades a second (5000)"
    )
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="work in this empty directory, and keep it"
    )
    parser.add_argument("--no-crash", action="store_true", help="do not kill the driver")
    parser.add_argument("--no-console", action="store_true", help="do not serve the console")
    parser.add_argument("--plain", action="store_true", help="print lines instead of a live view")
    parser.add_argument("--save-svg", type=Path, metavar="PATH", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration; 1 if an answer is wrong."""
    from millrace.cli.demo.conductor import Conductor
    from millrace.cli.demo.story import Story
    from millrace.cli.demo.summary import summary
    from millrace.cli.demo.trades import Market
    from millrace.cli.demo.verdict import judge

    console = make_console()
    glyphs = glyphs_for(console)
    with _directory(arguments.root) as base, _console(base, arguments) as address:
        market = Market(base / "incoming", arguments.rate)
        story = Story(market.ledger, arguments.seconds, console=address)
        if address:
            story.tell(f"the console is at {address}, until the end")
        try:
            with _shown(console, glyphs, plain=arguments.plain, story=story) as show:
                picture = partial(_save_picture, path=arguments.save_svg)
                crash = not arguments.no_crash
                Conductor(base, market, story, show, picture, crash=crash).run()
        except KeyboardInterrupt:
            return interrupted()
        findings = judge(base, market.ledger)
        console.print(summary(story, findings, glyphs))
        if arguments.root is not None:
            console.print(f"\nLook around: millrace inspect {base / 'engine'}", soft_wrap=True)
        return 0 if all(each.right for each in findings) else 1


@contextmanager
def _console(base: Path, arguments: argparse.Namespace) -> Iterator[str]:
    """Serve the console meanwhile; give its address, or nothing if there is none."""
    from millrace.cli.demo.gateway import open_gateway, show_in_browser

    gateway = None if arguments.no_console else open_gateway(base)
    if gateway is None:
        yield ""
        return
    try:
        if not arguments.plain and sys.stdout.isatty():
            show_in_browser(gateway.address)
        yield gateway.address
    finally:
        gateway.close()


@contextmanager
def _directory(asked: Path | None) -> Iterator[Path]:
    """Give the directory to work in; one of our own does not outlive the demonstration."""
    if asked is not None:
        if asked.exists() and (not asked.is_dir() or any(asked.iterdir())):
            raise StoreError(
                f'directory "{asked}" is not empty',
                hint="The demonstration compares what it wrote with what it finds; "
                "give it a directory of its own.",
            )
        asked.mkdir(parents=True, exist_ok=True)
        yield asked.absolute()
        return
    base = Path(tempfile.mkdtemp(prefix="millrace-demo-"))
    try:
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextmanager
def _shown(
    console: Console, glyphs: Glyphs, *, plain: bool, story: Story
) -> Iterator[Callable[[Story], None]]:
    """Give a function that shows the story: as a live view, or line by line."""
    from rich.live import Live

    from millrace.cli.demo.plain import PlainView
    from millrace.cli.demo.view import frame, happened

    dumb = not console.is_terminal or os.environ.get("TERM") == "dumb"
    if plain or dumb:
        view = PlainView(console)
        yield view.show
        view.show(story)
        return

    def drawn() -> RenderableType:
        return frame(story, glyphs, width=console.width, height=console.height)

    with Live(
        get_renderable=drawn, console=console, screen=True, refresh_per_second=FRAMES_A_SECOND
    ):
        yield lambda _: None
    # The live view leaves no trace on the terminal; what happened should.
    console.print(happened(story.happenings, glyphs), "")


def _save_picture(story: Story, *, path: Path | None) -> None:
    """Save the view as it looks now, if anybody wants it."""
    from millrace.cli.demo.view import frame

    if path is None:
        return
    with Path(os.devnull).open("w") as nowhere:
        console = Console(
            record=True, width=SVG_WIDTH, height=SVG_HEIGHT, file=nowhere, force_terminal=True
        )
        console.print(frame(story, UNICODE, width=SVG_WIDTH, height=SVG_HEIGHT))
        drawn = console.export_svg(title="millrace demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_FONT_FACE.sub("", drawn), encoding="utf-8")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not greater than 0")
    return value
