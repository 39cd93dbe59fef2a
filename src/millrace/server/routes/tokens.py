"""Tokens: administrators make and forget those of their tenant."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import asdict
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from millrace.errors import MillraceError
from millrace.server.access import Gate, Who, gate_of
from millrace.server.errors import responses
from millrace.server.principals import ForbiddenError, Principal
from millrace.server.tokens import Token

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


class TokenModel(BaseModel):
    """A token, without its text."""

    id: str
    role: str
    tenant: str
    created: str
    label: str


class TokenList(BaseModel):
    """The tokens of a tenant; the operator sees all."""

    tokens: list[TokenModel]


class NewToken(BaseModel):
    """A token to be made."""

    model_config = ConfigDict(extra="forbid")

    role: Literal["reader", "writer", "admin"]
    tenant: str | None = Field(None, description="The operator's choice; else one's own.")
    label: str = Field("", max_length=200)


class MadeToken(TokenModel):
    """A token with its text, which is told this once."""

    token: str


@router.get("", responses=responses())
async def tokens(request: Request, who: Who) -> TokenList:
    """List tokens."""
    who.require("admin")
    tenant = None if who.operator else who.tenant
    found = await asyncio.to_thread(gate_of(request).tokens.listed, tenant)
    return TokenList(tokens=[TokenModel(**asdict(each)) for each in found])


@router.post("", status_code=201, responses=responses())
async def add(request: Request, body: NewToken, who: Who) -> MadeToken:
    """Make a token; its text is told this once."""
    who.require("admin")
    tenant = who.tenant if body.tenant is None else body.tenant
    if tenant != who.tenant and not who.operator:
        raise ForbiddenError("tokens of other tenants are for the operator")
    gate = gate_of(request)
    text, made = await asyncio.to_thread(gate.tokens.add, body.role, tenant, body.label)
    try:
        await _write_down(gate, who, "make token", made)
    except MillraceError:  # there is to be none that is not written down
        await asyncio.to_thread(gate.tokens.remove, made.id)
        with contextlib.suppress(MillraceError):
            await _write_down(gate, who, "forget token", made)
        raise
    return MadeToken(**asdict(made), token=text)


@router.delete("/{token}", status_code=204, responses=responses(404), response_class=Response)
async def remove(request: Request, token: str, who: Who) -> Response:
    """Forget a token by its id; whoever holds it is not let in any more."""
    who.require("admin")
    tenant = None if who.operator else who.tenant
    gate = gate_of(request)
    for each in await asyncio.to_thread(gate.tokens.listed, tenant):
        if each.id == token:
            await _write_down(gate, who, "forget token", each)
    await asyncio.to_thread(gate.tokens.remove, token, tenant)
    return Response(status_code=204)


async def _write_down(gate: Gate, who: Principal, what: str, token: Token) -> None:
    """Let the engine, which writes the audit log, write down what becomes of a token."""
    about = {"id": token.id, "role": token.role, "tenant": token.tenant, "label": token.label}
    await gate.service.link.ask("token", who, {"what": what, "about": about})
