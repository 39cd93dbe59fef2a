"""The registry: the durable log of what was declared and asked, and when.

A change is checked against the catalog, written as the next entry of the log, and only then
acknowledged; so what was acknowledged survives, and what was refused has changed nothing. A
call may bring many changes: they are one entry, all or none.

An epoch names the catalog it runs under by the number of changes it contains. Tasks read that
catalog from a file of its own, which `publish` writes once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Self

from millrace import failpoints
from millrace.engine.catalog import Catalog
from millrace.errors import StoreError
from millrace.state import container
from millrace.state.container import Container
from millrace.state.log import Log
from millrace.state.root import Root

CHANGES = "registry"
SNAPSHOTS = "registry-snapshots"

_logger = logging.getLogger(__name__)


class Registry:
    """The catalog as it is now, and the log behind it."""

    def __init__(
        self,
        root: Root,
        log: Log[Catalog],
        number: int,
        catalog: Catalog,
        check: Callable[[], None],
    ) -> None:
        self._root, self._log, self._number = root, log, number
        self._catalog, self._check = catalog, check
        self._published = -1
        self._lock = threading.Lock()

    @classmethod
    def open(cls, root: Root, check: Callable[[], None] = lambda: None) -> Self:
        """Read the registry of a root; an empty root has an empty one.

        `check` raises when another engine has taken the root; it is asked before each change.
        """
        log = Log(root, Catalog(), _restored, _folded, CHANGES, SNAPSHOTS)
        number, catalog = log.load()
        return cls(root, log, number, catalog, check)

    @property
    def catalog(self) -> Catalog:
        """Everything in force now."""
        return self._catalog

    def record(self, changes: Iterable[dict[str, Any]]) -> Catalog:
        """Check and log changes, all or none; durable when it returns."""
        with self._lock:
            listed = list(changes)
            after = self._catalog
            for change in listed:
                after = after.apply(change)
            failpoints.reach("register.before")
            self._check()
            self._log.append(self._number + 1, container.pack({"changes": listed}, []))
            self._number += 1
            self._catalog = after
            failpoints.reach("register.after")
            self._tidy()
            return after

    def _tidy(self) -> None:
        """Take a snapshot when one is due; the change before it stands though this may fail."""
        try:
            if self._log.due(self._number):
                self._log.snapshot(self._number, container.pack(self._catalog.to_json(), []))
                for entry in self._log.outdated():
                    self._root.delete(entry.name)
        except (StoreError, OSError) as error:
            _logger.warning("registry not tidied, later: %s", error)

    def publish(self, catalog: Catalog) -> None:
        """Write a catalog where tasks read it, once."""
        if catalog.sequence != self._published:
            self._root.put_if_absent(catalog.file, container.pack(catalog.to_json(), []))
            self._published = catalog.sequence

    def forget_before(self, sequence: int) -> None:
        """Delete published catalogs that no epoch can ask for any more."""
        for entry in self._root.list("catalogs/"):
            if int(entry.name.rpartition("/")[2]) < sequence:
                self._root.delete(entry.name)


def read_catalog(root: Root, file: str) -> Catalog:
    """Read a published catalog."""
    return Catalog.from_json(Container.open(root, file).meta)


def _restored(snapshot: Container) -> Catalog:
    return Catalog.from_json(snapshot.meta)


def _folded(catalog: Catalog, entry: Container) -> Catalog:
    for change in entry.meta["changes"]:
        catalog = catalog.apply(change)
    return catalog
