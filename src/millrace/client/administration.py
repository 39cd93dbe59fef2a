"""What a client asks of a server about itself, and what those ask who run it; in both forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millrace.client import calls
from millrace.client.blocking import Wire
from millrace.client.calls import Document
from millrace.client.concurrent import AsyncWire
from millrace.client.request import Request, get, path_of, send


class Administration:
    """The part of a client that speaks of the server."""

    _wire: Wire

    def stats(self) -> Document:
        """Return the statistics of the server."""
        return self._wire.do(calls.document(get(path_of("stats"))))

    def top(self, by: str = "cost", n: int = 10) -> list[Document]:
        """Return the queries that take most: by `cost`, `state` or `results`."""
        return self._wire.do(calls.part("queries", get(path_of("stats", "top"), by=by, n=n)))

    def plan(self) -> Document:
        """Return the running dataflow: `nodes` and `edges`; what is of others is counted."""
        return self._wire.do(calls.document(get(path_of("plan"))))

    def settings(self) -> Document:
        """Return the settings that may change while the server runs."""
        return self._wire.do(calls.document(get(path_of("settings"))))

    def change_settings(
        self,
        changes: Mapping[str, object] | None = None,
        /,
        **more: Any,  # noqa: ANN401  as settings are typed
    ) -> Document:
        """Change settings by name, all or none, from the next epoch on."""
        return self._wire.do(calls.change_settings({**(changes or {}), **more}))

    def audit(self, last: int = 100) -> list[Document]:
        """Return the newest entries of the audit log, oldest first; for administrators."""
        return self._wire.do(calls.part("entries", get(path_of("audit"), last=last)))

    def tokens(self) -> list[Document]:
        """Return the tokens of one's tenant, without their texts; for administrators."""
        return self._wire.do(calls.part("tokens", get(path_of("tokens"))))

    def add_token(self, role: str, *, tenant: str | None = None, label: str = "") -> Document:
        """Make a token: its text is in `token`, and is told this once; for administrators.

        Parameters
        ----------
        role
            "reader", "writer" or "admin".
        tenant
            Whose it is; the operator chooses, others make tokens of their own tenant.
        label
            What it is for, to know it by.
        """
        body = {"role": role, "tenant": tenant, "label": label}
        return self._wire.do(calls.document(send("POST", path_of("tokens"), body)))

    def remove_token(self, token: str) -> None:
        """Forget a token by its id: whoever holds it is not let in any more."""
        self._wire.do(calls.document(Request("DELETE", path_of("tokens", token))))

    def health(self) -> Document:
        """Ask whether the server lives."""
        return self._wire.do(calls.document(get(path_of("health"))))


class AsyncAdministration:
    """The same for asyncio."""

    _wire: AsyncWire

    async def stats(self) -> Document:
        """Return the statistics of the server."""
        return await self._wire.do(calls.document(get(path_of("stats"))))

    async def top(self, by: str = "cost", n: int = 10) -> list[Document]:
        """Return the queries that take most: by `cost`, `state` or `results`."""
        asked = get(path_of("stats", "top"), by=by, n=n)
        return await self._wire.do(calls.part("queries", asked))

    async def plan(self) -> Document:
        """Return the running dataflow: `nodes` and `edges`; what is of others is counted."""
        return await self._wire.do(calls.document(get(path_of("plan"))))

    async def settings(self) -> Document:
        """Return the settings that may change while the server runs."""
        return await self._wire.do(calls.document(get(path_of("settings"))))

    async def change_settings(
        self,
        changes: Mapping[str, object] | None = None,
        /,
        **more: Any,  # noqa: ANN401  as settings are typed
    ) -> Document:
        """Change settings by name, all or none, from the next epoch on."""
        return await self._wire.do(calls.change_settings({**(changes or {}), **more}))

    async def audit(self, last: int = 100) -> list[Document]:
        """Return the newest entries of the audit log, oldest first; for administrators."""
        return await self._wire.do(calls.part("entries", get(path_of("audit"), last=last)))

    async def tokens(self) -> list[Document]:
        """Return the tokens of one's tenant, without their texts; for administrators."""
        return await self._wire.do(calls.part("tokens", get(path_of("tokens"))))

    async def add_token(self, role: str, *, tenant: str | None = None, label: str = "") -> Document:
        """Make a token: its text is in `token`, and is told this once; for administrators."""
        body = {"role": role, "tenant": tenant, "label": label}
        return await self._wire.do(calls.document(send("POST", path_of("tokens"), body)))

    async def remove_token(self, token: str) -> None:
        """Forget a token by its id: whoever holds it is not let in any more."""
        await self._wire.do(calls.document(Request("DELETE", path_of("tokens", token))))

    async def health(self) -> Document:
        """Ask whether the server lives."""
        return await self._wire.do(calls.document(get(path_of("health"))))
