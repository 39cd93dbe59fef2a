"""The names that a server knows, for completion: fetched aside, so that typing never waits."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from millrace.client.client import Client
from millrace.client.declarations import name_text
from millrace.errors import MillraceError
from millrace.lang.highlighting import KEYWORDS

MOST_QUERIES = 30
_PLAIN = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Known:
    """What was there when the server was asked: columns by name, and names by kind."""

    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: dict[str, tuple[str, ...]] = field(default_factory=dict)


class Names:
    """Asks for names when they may have changed, in a thread of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asking = threading.Lock()
        self._again = threading.Event()
        self.known = Known()

    def refresh(self) -> None:
        """Ask again, soon; calls that come while it asks are one."""
        self._again.set()
        threading.Thread(target=self._ask, daemon=True).start()

    def queries(self, part: str) -> list[str]:
        """Return names of queries that have a part in them; this asks the server."""
        with suppress(MillraceError):
            page = self._client.query_page(part or None, limit=MOST_QUERIES)
            return [each["name"] for each in page["queries"] if each.get("name")]
        return []

    def _ask(self) -> None:
        with self._asking:
            if not self._again.is_set():
                return
            self._again.clear()
            with suppress(MillraceError):  # there is no completion without a server
                self.known = _known(self._client)


def _known(client: Client) -> Known:
    kinds, columns = dict[str, tuple[str, ...]](), dict[str, tuple[str, ...]]()
    for kind, listed in (
        ("stream", client.streams()),
        ("table", client.tables()),
        ("template", client.templates()),
    ):
        kinds[kind] = tuple(each["name"] for each in listed)
        columns |= {each["name"]: _columns(each) for each in listed if kind != "template"}
    return Known(columns, kinds)


def _columns(found: dict[str, Any]) -> tuple[str, ...]:
    return tuple(
        each["name"] if isinstance(each, dict) else each if isinstance(each, str) else each[0]
        for each in found.get("columns") or []
    )


def shown(name: str) -> str:
    """Print a name as it is typed: quoted if it must be."""
    plain = _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS
    return name if plain else name_text(name)
