"""Answers over a web socket: each message is an event, as with server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from millrace.errors import MillraceError
from millrace.server.access import Gate, admitted_socket
from millrace.server.event_stream import HEARTBEAT_SECONDS, SEND_SECONDS, next_if_known
from millrace.server.fan_out import Subscription
from millrace.server.wire import error_json

router = APIRouter(tags=["answers"])

REFUSED, DETACHED = 4400, 4408


@router.websocket("/v1/queries/{query}/live")
async def live(socket: WebSocket, query: str, cursor: str | None = None) -> None:
    """Send answers of a query as they come, from a cursor on or from now."""
    gate: Gate = socket.app.state.gate
    await socket.accept()
    try:
        who = admitted_socket(socket)
        subscription = await gate.service.subscribe(who, query, cursor)
    except MillraceError as error:
        await socket.send_text(json.dumps({"error": error_json(error)}))
        await socket.close(REFUSED, error.message[:100])
        return
    listening = asyncio.create_task(_listen(socket))
    sending = asyncio.create_task(_send(socket, subscription, lambda: gate.knows(who)))
    try:
        await asyncio.wait({listening, sending}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gate.service.fan_out.leave(subscription)
        for task in (listening, sending):
            task.cancel()
            with contextlib.suppress(
                asyncio.CancelledError, WebSocketDisconnect, RuntimeError, TimeoutError, OSError
            ):
                await task


async def _send(socket: WebSocket, subscription: Subscription, known: Callable[[], bool]) -> None:
    while True:
        event = await next_if_known(subscription, HEARTBEAT_SECONDS, known)
        if event is not None:
            await asyncio.wait_for(socket.send_text(event.text), SEND_SECONDS)
        elif subscription.ended:
            break
        else:
            beat = json.dumps({"rows": [], "cursor": str(subscription.cursor)})
            await asyncio.wait_for(socket.send_text(beat), SEND_SECONDS)
    told = {"detached": {"cursor": str(subscription.cursor), "reason": subscription.ended}}
    await asyncio.wait_for(socket.send_text(json.dumps(told)), SEND_SECONDS)
    await socket.close(DETACHED, subscription.ended)


async def _listen(socket: WebSocket) -> None:
    """Wait until the client has gone; what it says, in text or bytes, means nothing."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
