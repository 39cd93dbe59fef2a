"""The conductor: market, drivers, kill and recovery, in their order and in time.

    market opens ─► driver 1 ─► running ─► SIGKILL ─► driver 2 ─► running ─► market closes
                                                                                  │
                                              verdict ◄─ driver 2 delivers all ◄──┘

The first epoch starts Spark's workers and takes some seconds, so it gets a few rows only. Later
the market goes on while no driver is there: what it writes then must not be lost either.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from millrace.cli.demo.child import Driver
from millrace.cli.demo.story import Story
from millrace.cli.demo.trades import Market
from millrace.cli.terminal import counted
from millrace.errors import MachineError

TICK_SECONDS = 0.1
KILL_AT = 0.4
KILLED_SECONDS = 1.0
AFTERWARDS = 0.15
FIRST_ROWS = 10
PATIENCE_SECONDS = 300.0


@dataclass(slots=True)
class Conductor:
    """Runs the demonstration.

    `show` is called about ten times a second, and `picture` once, before the market closes.
    """

    base: Path
    market: Market
    story: Story
    show: Callable[[Story], None]
    picture: Callable[[Story], None]
    crash: bool = True
    driver: Driver | None = None

    def run(self) -> None:
        """Run everything up to the last delivery."""
        self.story.tell("Spark starts, in a process of its own")
        try:
            self._start()
            self._until(lambda: self.story.opened, doing="starting")
            self.market.write(FIRST_ROWS)
            self._until(lambda: self.story.ready is not None, doing="starting")
            self.market.open()
            if self.crash:
                self._run_for(KILL_AT * self.story.seconds)
                self._kill()
                self._start()
                self._until(lambda: self.story.phase == "running", doing="recovering")
                self._run_for(AFTERWARDS * self.story.seconds)
            self._until(lambda: self.story.running_for >= self.story.seconds, doing="running")
            self.picture(self.story)
            self._finish()
        except KeyboardInterrupt:
            self.story.tell("stopping, as asked for; once more to stop at once")
            raise
        finally:
            self.market.close()
            if self.driver is not None:
                self.driver.dispose(kindly=self.story.opened)

    def _start(self) -> None:
        self.driver = Driver(self.base)
        self.story.pid = self.driver.pid
        self.story.spark_up = False
        if self.story.outage is not None:
            self.story.phase = "restarting"
            self.story.tell(f"a new driver starts, process {self.driver.pid}")

    def _kill(self) -> None:
        assert self.driver is not None, "a driver runs"
        self._hear(self.driver)
        self.driver.kill()
        self._hear(self.driver)
        self.story.killed()
        shown = time.monotonic()
        while time.monotonic() - shown < KILLED_SECONDS:
            self.show(self.story)
            time.sleep(TICK_SECONDS)

    def _finish(self) -> None:
        story = self.story
        story.phase = "finishing"
        self.market.close()
        story.tell(f"the market closes after {counted(story.ledger.n_lines, 'trade')}")
        self._until(lambda: story.waiting == 0, doing="finishing")
        assert self.driver is not None, "a driver runs"
        self.driver.finish()
        story.phase = "checking"
        began = time.monotonic()
        while not self.driver.ended and time.monotonic() - began < PATIENCE_SECONDS:
            self._tick()

    def _run_for(self, seconds: float) -> None:
        stop = self.story.now + seconds
        self._until(lambda: self.story.now >= stop, doing="running")

    def _until(self, reached: Callable[[], bool], *, doing: str) -> None:
        """Go on until something is reached; a driver that ends meanwhile is an error."""
        deadline = time.monotonic() + PATIENCE_SECONDS + self.story.seconds
        while not reached():
            assert self.driver is not None, "a driver runs"
            if self.driver.ended:
                self._hear(self.driver)
                raise self.driver.failure(doing)
            if time.monotonic() > deadline:
                raise MachineError(
                    f"the driver is still {doing} after {PATIENCE_SECONDS:.0f} s",
                    hint="`millrace doctor` looks for what this machine lacks.",
                )
            self._tick()

    def _tick(self) -> None:
        if self.driver is not None:
            self._hear(self.driver)
        self.show(self.story)
        time.sleep(TICK_SECONDS)

    def _hear(self, driver: Driver) -> None:
        for document in driver.heard():
            self.story.hear(document)
