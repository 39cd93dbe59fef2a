"""Whether the gateway is alive, whether it is of use, and its metrics."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from millrace.server.access import Served, Who
from millrace.server.errors import ErrorBody, responses
from millrace.server.wire import WireError

router = APIRouter(tags=["health"])


class Health(BaseModel):
    """How a gateway is."""

    status: str
    engine: str
    epoch: int


@router.get("/v1/health")
async def health(service: Served) -> Health:
    """Say that the gateway is alive, and whether it finds the engine; needs no token."""
    return Health(**service.health())


@router.get("/v1/ready", responses={503: {"model": ErrorBody}})
async def ready(service: Served) -> Health:
    """Say that writes are taken; 503 while there is no engine. Needs no token."""
    if not service.link.up:
        raise WireError("the engine is not there", hint="Reads are served all the same.")
    return Health(**service.health())


@router.get("/metrics", responses=responses(), response_class=Response)
async def metrics(request: Request, who: Who) -> Response:
    """Metrics for Prometheus; for the operator."""
    who.require_operator("reading metrics")
    text = await asyncio.to_thread(request.app.state.measured.text)
    return Response(text, media_type="text/plain; version=0.0.4")
