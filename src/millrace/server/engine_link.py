"""A gateway's end of the socket: commands out, answers and news in, connected again when it breaks.

While there is no engine, commands are refused at once as unavailable, and reading goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from millrace.server.principals import Principal
from millrace.server.wire import Frame, ToldError, WireError, receive_async, socket_path

RETRY_SECONDS = 0.2
COMMAND_SECONDS = 300.0

_logger = logging.getLogger(__name__)

Hear = Callable[[dict[str, Any]], Awaitable[None]]


class EngineLink:
    """The connection of one gateway to the engine."""

    def __init__(self, root: Path, hear: Hear) -> None:
        self._path, self._hear = socket_path(root), hear
        self._writer: asyncio.StreamWriter | None = None
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self._ids = itertools.count()
        self._task: asyncio.Task[None] | None = None

    @property
    def up(self) -> bool:
        """Whether there is an engine at the other end."""
        return self._writer is not None

    def start(self) -> None:
        """Begin to keep the connection."""
        self._task = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def ask(
        self, do: str, who: Principal, body: dict[str, Any], tables: Sequence[pa.Table] = ()
    ) -> Frame:
        """Let the engine do a command; raise what it says."""
        writer = self._writer
        if writer is None:
            raise _gone()
        number = next(self._ids)
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        frame = Frame({**body, "id": number, "do": do, "who": who.to_json()}, tuple(tables))
        try:
            for part in frame.pack():
                writer.write(part)
            await writer.drain()
            done = await asyncio.wait_for(answer, COMMAND_SECONDS)
        except (OSError, TimeoutError) as cause:
            raise _gone() from cause
        finally:
            self._waiting.pop(number, None)
        if "error" in done.body:
            raise ToldError(done.body["error"])
        await self._hear({"event": "own", "number": done.body["number"]})
        return Frame(done.body["ok"], done.tables)

    async def _keep(self) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._path), limit=1 << 24)
                with contextlib.closing(writer):
                    hello = await receive_async(reader)
                    await self._hear(hello.body)  # what is declared is known before it is asked for
                    self._writer = writer
                    await self._listen(reader)
            except (OSError, asyncio.IncompleteReadError, WireError):
                pass
            finally:
                self._lost()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        while True:
            frame = await receive_async(reader)
            if "event" in frame.body:
                await self._hear(frame.body)
                continue
            answer = self._waiting.get(frame.body["id"])
            if answer is not None and not answer.done():
                answer.set_result(frame)

    def _lost(self) -> None:
        self._writer = None
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(_gone())


def _gone() -> WireError:
    return WireError(
        "the engine is not there",
        detail="What was committed can be read; nothing can be changed now.",
        hint="Try again in a while.",
    )
