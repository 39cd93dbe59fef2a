"""Tokens: 256 random bits that stand for a tenant and a role; the file knows only their digests.

    {"tokens": [{"id": "7f3c…", "digest": "…", "role": "writer", "tenant": "acme", "created": "…"}],
     "tenants": {"acme": {"queries": 1000}}}

A token has so many bits that a plain SHA-256 of it cannot be undone. The file is replaced whole,
under a lock, and read again when it has changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from millrace.errors import PlanError, StoreError, UnknownNameError
from millrace.server.principals import ROLES, Principal, Role, check_tenant
from millrace.server.quotas import Quota

LOOK_SECONDS = 0.5
PREFIX = "mr_"


@dataclass(frozen=True, slots=True)
class Token:
    """A token as the file knows it."""

    id: str
    digest: str
    role: Role
    tenant: str
    created: str
    label: str = ""


class Tokens:
    """The tokens and quotas of a server, as they are now."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._looked, self._stamp = 0.0, (0, 0)
        self._by_digest: dict[str, Token] = {}
        self._ids: frozenset[str] = frozenset()
        self._quotas: dict[str, Quota] = {}

    def principal(self, text: str) -> Principal | None:
        """Return who a token stands for; None if it is not known."""
        digest = _digest(text)
        self._refresh()
        if digest not in self._by_digest:
            self._refresh(now=True)  # it may have just been made
        found = self._by_digest.get(digest)
        return None if found is None else Principal(found.tenant, found.role, found.id)

    def holds(self, id_: str) -> bool:
        """Say whether a token is known by its id, as of at most half a second ago."""
        self._refresh()
        return id_ in self._ids

    def quotas(self, *, now: bool = False) -> dict[str, Quota]:
        """Return the quotas by tenant, at most half a second old, or as they are now."""
        self._refresh(now=now)
        return self._quotas

    def listed(self, tenant: str | None = None) -> list[Token]:
        """Return the tokens of a tenant, or of all."""
        self._refresh(now=True)
        tokens = self._by_digest.values()
        return [each for each in tokens if tenant is None or each.tenant == tenant]

    def add(self, role: str, tenant: str = "", label: str = "") -> tuple[str, Token]:
        """Make a token; its text is told this once."""
        if role not in ROLES:
            raise PlanError(
                f'role "{role}" does not exist', detail=f"There are {', '.join(ROLES)}."
            )
        text = PREFIX + secrets.token_urlsafe(32)
        created = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        token = Token(secrets.token_hex(8), _digest(text), role, check_tenant(tenant),
                      created, label)  # fmt: skip
        self._change(lambda file: file["tokens"].append(asdict(token)))
        return text, token

    def remove(self, id_: str, tenant: str | None = None) -> None:
        """Forget a token; whoever holds it is not let in any more."""

        def forget(file: dict[str, Any]) -> None:
            kept = [
                each
                for each in file["tokens"]
                if each["id"] != id_ or tenant not in (None, each["tenant"])
            ]
            if len(kept) == len(file["tokens"]):
                raise UnknownNameError(f'token "{id_}" does not exist')
            file["tokens"] = kept

        self._change(forget)

    def limit(self, tenant: str, quota: Quota) -> None:
        """Give a tenant a quota."""
        check_tenant(tenant)
        self._change(lambda file: file["tenants"].update({tenant: quota.to_json()}))

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            file = self._read()
            change(file)
            fresh = self.path.with_suffix(".new")
            descriptor = os.open(fresh, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as writer:
                json.dump(file, writer, indent=1)
                writer.flush()
                os.fsync(writer.fileno())
            fresh.replace(self.path)
        finally:
            os.close(lock)
        self._refresh(now=True)

    def _read(self) -> dict[str, Any]:
        try:
            file: dict[str, Any] = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {"tokens": [], "tenants": {}}
        except (OSError, ValueError) as cause:
            raise StoreError(
                f'token file "{self.path}" cannot be read', detail=f"{cause}."
            ) from cause
        return {"tokens": file.get("tokens", []), "tenants": file.get("tenants", {})}

    def _refresh(self, *, now: bool = False) -> None:
        moment = time.monotonic()
        if not now and moment - self._looked < LOOK_SECONDS:
            return
        self._looked = moment
        try:
            status = self.path.stat()
        except FileNotFoundError:
            self._by_digest, self._quotas, self._stamp = {}, {}, (0, 0)
            self._ids = frozenset()
            return
        if (status.st_mtime_ns, status.st_ino) == self._stamp:
            return
        file = self._read()
        self._stamp = status.st_mtime_ns, status.st_ino
        self._by_digest = {each["digest"]: Token(**each) for each in file["tokens"]}
        self._ids = frozenset(each["id"] for each in file["tokens"])
        self._quotas = {name: Quota.from_json(each) for name, each in file["tenants"].items()}


def token_file(root: Path) -> Path:
    """Name the token file of a root, if no other is given."""
    return root / "server" / "tokens.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
