"""The audit log: who registered, changed and dropped what."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel

from millrace.server.access import Served, Who
from millrace.server.errors import responses

router = APIRouter(prefix="/v1/audit", tags=["audit"])


class AuditModel(BaseModel):
    """Entries of the audit log, oldest first."""

    entries: list[dict[str, Any]]


@router.get("", responses=responses())
async def audit(
    who: Who, service: Served, last: Annotated[int, Query(ge=1, le=10_000)] = 100
) -> AuditModel:
    """Return the newest entries; for administrators, who see those of their tenant."""
    return AuditModel(entries=await service.audit(who, last=last))
