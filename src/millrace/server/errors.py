"""Errors over HTTP: which status each has, in one form for all of them."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from millrace.errors import MillraceError
from millrace.server.cursors import GoneError
from millrace.server.wire import error_json

_logger = logging.getLogger(__name__)

STATUS = {
    "unauthorized": 401,
    "forbidden": 403,
    "unknown_name": 404,
    "missing": 404,
    "name_taken": 409,
    "in_use": 409,
    "gone": 410,
    "too_large": 413,
    "rate": 429,
    "limit": 429,
    "internal": 500,
    "unavailable": 503,
    "outage": 503,
    "store": 503,
    "store_full": 503,
    "fenced": 503,
    "corrupt": 503,
    "machine": 503,
}
"""By code; everything else is a fault of what was asked, 400."""


class UnauthorizedError(MillraceError):
    """No token came, or one that is not known."""

    code = "unauthorized"


class Position(BaseModel):
    """A place in a text; both counted from 1."""

    line: int
    column: int


class Problem(BaseModel):
    """What went wrong: the fact, what the server knew, and what can be done."""

    code: str = Field(examples=["unknown_name"])
    message: str = Field(examples=['query "big" does not exist'])
    detail: str = ""
    hint: str = ""
    position: Position | None = None
    excerpt: str = Field("", description="The line that is meant, with carets below it.")
    cursor: str | None = Field(None, description="For `gone`: the oldest cursor that is kept.")


class ErrorBody(BaseModel):
    """The body of every answer that is an error."""

    error: Problem


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Describe the errors of a route; those that every route has come with them."""
    return {status: {"model": ErrorBody} for status in (400, 401, 403, 422, 429, 503, *statuses)}


def error_response(error: MillraceError) -> JSONResponse:
    """Spell an error as the answer to a request."""
    problem = error_json(error)
    if isinstance(error, GoneError):
        problem["cursor"] = str(error.oldest)
    status = STATUS.get(error.code, 400)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    if status in (429, 503):
        headers = {"Retry-After": "1"}
    return JSONResponse({"error": problem}, status, headers)


def add_handlers(app: FastAPI) -> None:
    """Let all errors of an app have the same form."""

    async def ours(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, MillraceError), "registered for it"
        return error_response(error)

    async def invalid(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, RequestValidationError), "registered for it"
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"])
        told = _plain("request", "the request does not fit", f"{where}: {first['msg']}.")
        return JSONResponse({"error": told}, 422)

    async def other(_: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, HTTPException), "registered for it"
        told = _plain(f"http_{error.status_code}", str(error.detail).lower(), "")
        return JSONResponse({"error": told}, error.status_code, error.headers)

    async def fault(request: Request, error: Exception) -> JSONResponse:
        _logger.error("request failed: path=%s", request.url.path, exc_info=error)
        told = _plain("internal", "the server has a fault", f"{type(error).__name__}.")
        return JSONResponse({"error": told}, 500)

    app.add_exception_handler(MillraceError, ours)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, other)
    app.add_exception_handler(Exception, fault)


def _plain(code: str, message: str, detail: str) -> dict[str, Any]:
    return {"code": code, "message": message, "detail": detail, "hint": "", "position": None,
            "excerpt": "", "cursor": None}  # fmt: skip
