"""Leases: readers in other processes keep the files of their manifest from being deleted.

A lease on epoch n protects every file that a manifest of epoch n or later names. The order
matters: take the lease first, on any epoch that is known, and load the manifest after; then
the collector has either seen the lease or has kept what the newer manifest names.

A reader that has read the registry up to some change, and follows it, says so: it needs older
files no more, and reads a newer snapshot if it falls behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from millrace.errors import StoreError
from millrace.state.names import LEASES, MissingError
from millrace.state.root import Root


@dataclass(frozen=True, slots=True)
class Lease:
    """A reader's claim on `epoch` and later, until the wall clock passes `expires`."""

    id: str
    epoch: int
    expires: float
    host: str
    pid: int
    registry: int | None = None
    """The last change of the registry that was read, if the reader follows it."""

    @classmethod
    def take(cls, root: Root, epoch: int, seconds: float) -> Self:
        """Claim `epoch` for that long."""
        id_ = f"{os.getpid()}-{secrets.token_hex(8)}"
        lease = cls(id_, epoch, time.time() + seconds, socket.gethostname(), os.getpid())
        root.put(lease.name, lease.to_json())
        return lease

    @property
    def name(self) -> str:
        """The file that holds it."""
        return f"{LEASES}/{self.id}"

    def renew(self, root: Root, epoch: int, seconds: float, *, registry: int | None = None) -> Self:
        """Give a lease that lasts longer and claims `epoch` instead.

        One that has expired is not renewed, since its files may be gone.
        """
        now = time.time()
        if now >= self.expires:
            raise StoreError(
                f'lease "{self.id}" has expired',
                detail=f"It ended {now - self.expires:.1f} s ago.",
                hint="Take a new lease and load the manifest again.",
            )
        renewed = type(self)(self.id, epoch, now + seconds, self.host, self.pid, registry)
        root.put(self.name, renewed.to_json())
        return renewed

    def release(self, root: Root) -> None:
        """Give the claim up; to do so again does nothing."""
        root.delete(self.name)

    def to_json(self) -> bytes:
        """Give the text of the lease file."""
        names = ("epoch", "expires", "host", "pid", "registry")
        fields = {name: getattr(self, name) for name in names}
        return json.dumps(fields).encode()

    @classmethod
    def from_json(cls, id_: str, text: bytes) -> Self:
        """Read what `to_json` gave."""
        fields: dict[str, Any] = json.loads(text)
        return cls(id_, **fields)


def held(root: Root, now: float) -> list[Lease]:
    """List the leases that are in force, and remove the others."""
    leases = list(written(root))
    for lease in leases:
        if lease.expires <= now:
            root.delete(f"{LEASES}/{lease.id}")
    return [lease for lease in leases if lease.expires > now]


def reading_registry(root: Root, now: float) -> bool:
    """Say whether somebody may be reading the registry from its oldest files on."""
    return any(lease.registry is None for lease in held(root, now))


def written(root: Root) -> Iterator[Lease]:
    """Give all leases, in force or not; one that is released meanwhile is passed over."""
    for entry in root.list(f"{LEASES}/"):
        with contextlib.suppress(MissingError):
            yield Lease.from_json(entry.name.removeprefix(f"{LEASES}/"), root.get(entry.name))
