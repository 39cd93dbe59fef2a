"""Who is let in: the token of a request, the role that a route needs, and how fast they may ask."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, WebSocket

from millrace.server.errors import UnauthorizedError
from millrace.server.limits import Rates
from millrace.server.principals import OPERATOR, Principal
from millrace.server.service import Service
from millrace.server.tokens import Tokens

ADMITTED = "millrace.principal"
"""Where the scope of a request says who makes it."""


class Gate:
    """Lets requests in by their token; without one nobody, unless the server is open."""

    def __init__(self, service: Service, tokens: Tokens, *, demo: bool = False) -> None:
        self.service, self.tokens, self._demo = service, tokens, demo
        self._rates = Rates()

    def admit(self, header: str | None, given: str | None = None) -> Principal:
        """Return who asks, or refuse them."""
        text = given or ""
        if header is not None:
            scheme, _, text = header.partition(" ")
            if scheme.lower() != "bearer":
                raise UnauthorizedError("the authorization is not a bearer token")
        text = text.strip()
        if not text and self._demo:
            return OPERATOR
        who = self.tokens.principal(text) if text else None
        if who is None:
            raise UnauthorizedError(
                "the token is not known" if text else "a token is needed",
                hint="Send the header `Authorization: Bearer TOKEN`.",
            )
        limits = self.service.limits
        quota = self.tokens.quotas().get(who.tenant)
        rate = quota.requests_per_second if quota is not None else None
        allowed = limits.requests_per_second if rate is None else rate
        self._rates.take(who.token, allowed, max(allowed, min(limits.burst, 2 * allowed)))
        return who

    def knows(self, who: Principal) -> bool:
        """Say whether whoever was let in would be let in still: their token may be forgotten."""
        return (self._demo and who == OPERATOR) or self.tokens.holds(who.token)


def gate_of(request: Request) -> Gate:
    """Return the gate of the app that serves a request."""
    found: Gate = request.app.state.gate
    return found


def asked_of(request: Request) -> tuple[Principal, Service]:
    """Return who makes a request, and the service: sooner than as parameters of a route."""
    gate = gate_of(request)
    known: Principal | None = request.scope.get(ADMITTED)
    return known or gate.admit(request.headers.get("authorization")), gate.service


async def admitted(request: Request) -> Principal:
    """Return who makes a request; whoever came through the door is known."""
    return asked_of(request)[0]


async def service_of(request: Request) -> Service:
    """Return the service of the app that serves a request."""
    return gate_of(request).service


def admitted_socket(socket: WebSocket) -> Principal:
    """Return who opens a web socket; browsers can only give the token as a parameter."""
    gate: Gate = socket.app.state.gate
    return gate.admit(socket.headers.get("authorization"), socket.query_params.get("token"))


Who = Annotated[Principal, Depends(admitted)]
Served = Annotated[Service, Depends(service_of)]
