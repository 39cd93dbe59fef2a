"""Following: news of the engine, or a look now and then, bring a gateway up to date.

One look at a time runs in a thread; whoever needs to see a change that they made waits until it has
been read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from millrace.errors import MillraceError
from millrace.reading.reader import Reader
from millrace.server.fan_out import FanOut
from millrace.server.work_views import Costs

POLL_SECONDS = 0.5
PAUSE_SECONDS = 0.05
"""Nobody who asks now and then notices that a look was so long ago; a subscriber would."""
RENEW_SECONDS = 10.0
PATIENCE_SECONDS = 10.0

_logger = logging.getLogger(__name__)


class Follower:
    """Keeps one reader up to date."""

    def __init__(self, reader: Reader, fan_out: FanOut, costs: Costs) -> None:
        self._reader, self._fan_out, self._costs = reader, fan_out, costs
        self._wanted = asyncio.Event()
        self._known = (-1, -1)  # the epoch and the entry of the registry that are there
        self._looked = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._awaited, self._hurried = 0, asyncio.Event()

    async def start(self) -> None:
        """Read the root, and begin to follow it."""
        await asyncio.to_thread(self._reader.open)
        self._fan_out.start()
        await asyncio.to_thread(self._costs.follow)
        self._tasks = [asyncio.create_task(each) for each in (self._follow(), self._hold())]

    async def stop(self) -> None:
        """Follow no longer."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await asyncio.to_thread(self._reader.close)

    async def hear(self, event: dict[str, Any]) -> None:
        """Take up news; an own change, and what an engine begins with, have been read then."""
        epoch, number = event.get("epoch", -1), event.get("number", -1)
        self._known = max(self._known[0], epoch), max(self._known[1], number)
        if event.get("event") == "work":
            self._costs.heard(event)
            return
        self._wanted.set()
        if event.get("event") in ("own", "hello"):
            await self._seen(number)

    async def _seen(self, number: int) -> None:
        self._awaited += 1
        self._hurried.set()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_SECONDS), self._looked:
                    await self._looked.wait_for(lambda: self._reader.number >= number)
        finally:
            self._awaited -= 1

    async def _follow(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wanted.wait(), POLL_SECONDS)
            if not (len(self._fan_out) or self._awaited):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurried.wait(), PAUSE_SECONDS)
            self._hurried.clear()
            self._wanted.clear()
            try:
                await self._look()
            except (MillraceError, OSError) as error:
                _logger.warning("root not followed, looked at again: %s", error)
            except Exception:  # whatever it is, whoever follows is told of the next commit
                _logger.exception("root not followed, looked at again")

    async def _hold(self) -> None:
        """Renew the lease beside all else: to sync a file may take longer than a commit."""
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                epoch, number = await asyncio.to_thread(self._reader.renew)
            except (MillraceError, OSError) as error:
                _logger.warning("lease not renewed, tried again: %s", error)
            else:
                await self.hear({"epoch": epoch, "number": number})

    async def _look(self) -> None:
        epoch, number = self._known
        news = await asyncio.to_thread(self._reader.follow, epoch=epoch, number=number)
        async with self._looked:
            self._looked.notify_all()
        await self._fan_out.publish()
        if news.committed:
            await asyncio.to_thread(self._costs.follow, news)
